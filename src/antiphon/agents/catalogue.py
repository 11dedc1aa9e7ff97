"""Which adapters there are. Each is imported when it is first asked for, so that one agent's extras burden no other."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from antiphon.ports.agent import Agent

ADAPTERS: dict[str, str] = {
    "echo": "antiphon.agents.echo:EchoAgent",
    "claude": "antiphon.agents.claude:ClaudeAgent",
    "codex": "antiphon.agents.codex:CodexAgent",
    "openai": "antiphon.agents.openai:OpenAIAgent",
    "local": "antiphon.agents.local:LocalAgent",
    "pi": "antiphon.agents.pi:PiAgent",
}
"""The built-in agents that need no configuration, by adapter."""

CONFIGURED: dict[str, str] = {
    "acp": "antiphon.agents.acp:AcpAgent",
    "command": "antiphon.agents.command:CommandAgent",
}
"""The adapters of agents that can't be guessed: the configuration names their program."""


SAMPLES: dict[str, dict[str, Any]] = {
    "acp": {"command": ["program"]},
    "command": {"command": ["program"]},
}
"""The smallest table that each of those takes: what they declare can then be read."""


class UnknownAdapter(Exception):
    """No adapter has that name; the text says which there are."""


def kind_of(adapter: str, name: str) -> Callable[[str, dict[str, Any]], Agent]:
    """The class of an adapter: a built-in one by its name, any other as `module:class`.

    Raises:
        UnknownAdapter: There is no such adapter, for the agent called `name`.
    """
    known = ADAPTERS | CONFIGURED
    module, found, kind = known.get(adapter, adapter).partition(":")
    if not found:
        there = ", ".join(sorted(known))
        raise UnknownAdapter(f"Agent {name!r} names the adapter {adapter!r}. There are: {there}, or module:class.")
    try:
        return getattr(import_module(module), kind)
    except (ImportError, AttributeError) as error:
        raise UnknownAdapter(f"The adapter {adapter!r} of agent {name!r} can't be loaded: {error}") from error


def build(adapter: str, name: str, options: dict[str, Any]) -> Agent:
    """An agent called `name`, driven by an adapter.

    Raises:
        UnknownAdapter: There is no such adapter, or it does not take these options.
    """
    kind = kind_of(adapter, name)
    try:
        return kind(name, options)
    except (TypeError, ValueError) as error:
        raise UnknownAdapter(f"Agent {name!r} can't be set up: {error}") from error
