"""Which adapters there are. Each is imported when it is first asked for, so that one agent's extras burden no other."""

from importlib import import_module
from typing import Any

from antiphon.ports.agent import Agent

ADAPTERS: dict[str, str] = {
    "echo": "antiphon.agents.echo:EchoAgent",
    "codex": "antiphon.agents.codex:CodexAgent",
}
"""The built-in agents that need no configuration, by adapter."""

CONFIGURED: dict[str, str] = {
    "command": "antiphon.agents.command:CommandAgent",
}
"""The adapters of agents that can't be guessed: the configuration names their program."""


class UnknownAdapter(Exception):
    """No adapter has that name; the text says which there are."""


def build(adapter: str, name: str, options: dict[str, Any]) -> Agent:
    """An agent called `name`, driven by an adapter.

    Raises:
        UnknownAdapter: There is no such adapter, or it does not take these options.
    """
    known = ADAPTERS | CONFIGURED
    place = known.get(adapter)
    if place is None:
        raise UnknownAdapter(f"Agent {name!r} names the adapter {adapter!r}. There are: {', '.join(sorted(known))}.")
    module, _, kind = place.partition(":")
    try:
        return getattr(import_module(module), kind)(name, options)
    except (TypeError, ValueError) as error:
        raise UnknownAdapter(f"Agent {name!r} can't be set up: {error}") from error
