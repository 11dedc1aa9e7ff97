"""Settings from the environment: `ANTIPHON__HOST__MAX_AGENTS=16` says what `max_agents = 16` in `[host]` would.

Two underscores stand for the dots of TOML, and case does not matter; below `environment` it does, as those are names of
variables. A value is read as TOML, and where it is none, as text. They win over the configuration file.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

PREFIX = "ANTIPHON__"
KEPT_AS_IS = "environment"


def overridden(document: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """A configuration document with what the environment says of it."""
    result = _copied(document)
    for name in sorted(environment):
        if name.startswith(PREFIX):
            _set(result, name.removeprefix(PREFIX).split("__"), _value(environment[name]))
    return result


def _copied(table: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: cast("dict[str, Any]", value) for key, value in table.items() if isinstance(value, dict)}
    return {**table, **{key: _copied(value) for key, value in inner.items()}}


def _set(table: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, last = path
    as_is = False
    for part in parents:
        key = part if as_is else _key(table, part)
        as_is = as_is or key == KEPT_AS_IS
        inner = table.get(key)
        table[key] = inner = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        table = inner
    table[last if as_is else _key(table, last)] = value


def _key(table: Mapping[str, Any], part: str) -> str:
    """The key that a part of a variable's name means: one that is there, written with underscores, else a new one."""
    return next((key for key in table if re.sub(r"\W", "_", key).lower() == part.lower()), part.lower())


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
