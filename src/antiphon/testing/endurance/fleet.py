"""Which agents take part, and the configuration by which a host runs them against the loopback model server."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.agents.catalogue import ADAPTERS, CONFIGURED, build, kind_of
from antiphon.agents.loopback import Loopback, loopback_of
from antiphon.testing.processes import MARK

PREFERRED = ("echo", "command", "codex", "claude", "openai", "acp")
"""In this order the first that are there take part; others of the catalogue come after them."""
OPTIONS: Mapping[str, dict[str, Any]] = {"command": {"command": ["cat"]}}
"""What an adapter must be told before it can be asked for anything."""


class Member(msgspec.Struct, frozen=True):
    """An agent that takes part, and how it is made to answer."""

    name: str
    pointed: Loopback


def muster(model_url: str, home: Path, *, count: int, names: Iterable[str] = ()) -> list[Member]:
    """The agents that take part: those that are named, else the first `count` that are installed and repeat a word.

    Args:
        model_url: The loopback model server.
        home: HOME of the agents, where their configuration may be written.
        count: How many are wanted.
        names: Adapters; all of them must be there.

    Raises:
        LookupError: One that is named is not there; the text says what is missing.
    """
    named = list(names)
    known = [*PREFERRED, *(name for name in (*ADAPTERS, *CONFIGURED) if name not in PREFERRED)]
    members: list[Member] = []
    for name in named or known:
        member = _member(name, model_url, home)
        if isinstance(member, Member):
            members.append(member)
        elif named:
            raise LookupError(f"{name} can't take part: {member}")
        if not named and len(members) == count:
            break
    return members


def _member(name: str, model_url: str, home: Path) -> Member | str:
    if name not in ADAPTERS and name not in CONFIGURED:
        return "there is no such adapter"
    if name in CONFIGURED and name not in OPTIONS:
        return "it has to be told which program it drives"
    options = OPTIONS.get(name, {})
    pointed = loopback_of(kind_of(name, name), options, model_url, home)
    if not (pointed.answers or name in OPTIONS):
        return "it can't be made to say anything in particular"
    missing = asyncio.run(build(name, name, dict(pointed.options)).missing())
    return missing or Member(name, pointed)


def configuration(members: Iterable[Member], host: Mapping[str, Any]) -> str:
    """An `antiphon.toml` with these agents, which inherit the mark that finds their processes, and that `[host]`."""
    tables = [_table("host", host)]
    for member in members:
        own: dict[str, Any] = {"adapter": member.name, "inherit": [MARK]}
        own |= {"model": member.pointed.model} if member.pointed.model else {}
        tables.append(_table(f"agents.{member.name}", {**own, **member.pointed.options}))
    return "\n".join(tables)


def _table(name: str, values: Mapping[str, Any]) -> str:
    return "\n".join([f"[{name}]", *(f"{json.dumps(key)} = {_toml(value)}" for key, value in values.items())]) + "\n"


def _toml(value: Any) -> str:
    """A JSON value in TOML: tables become inline ones, strings are written the same way in both."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in inner.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, cast("list[Any]", value))) + "]"
    return json.dumps(value)
