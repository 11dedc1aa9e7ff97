"""What holds for one session: its own settings before those of its agent, those before the host's."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

import msgspec

from antiphon.core.session import Session
from antiphon.host.settings import AgentSettings, HostSettings

NO_AGENT = AgentSettings()
MEMORY_LIMIT = "AGENT_MEMORY_MB"
"""Where `antiphon.agents.process` finds the limit of an agent's memory."""


class Verdict(NamedTuple):
    """What policy answers at once. `note` tells the agent why it may not."""

    decision: str
    note: str | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one session. Durations are seconds; None stands for ever.

    Attributes:
        stall_after_s, busy_stall_after_s, end_stalled_after_s: As in `HostSettings`.
        permission_deadline_s, permission_default: Likewise.
        allow_tools, deny_tools: The patterns of all three levels together.
    """

    stall_after_s: float
    busy_stall_after_s: float
    end_stalled_after_s: float | None
    permission_deadline_s: float | None
    permission_default: str
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()

    def verdict(self, tool: str | None) -> Verdict | None:
        """What is answered at once when the agent asks for that tool; None when a person is to be asked."""
        if denied := _match(tool, self.deny_tools):
            return Verdict("deny", f"The policy here denies this tool: `deny_tools` has {denied!r}.")
        return Verdict("allow") if _match(tool, self.allow_tools) else None


def policy_of(session: Session | None, settings: HostSettings) -> Policy:
    """The rules of a session. A setting of a session that can't be gone by is passed over."""
    own = session.settings if session else {}
    agent = settings.agents.get(session.agent, NO_AGENT) if session else NO_AGENT

    def seconds(name: str) -> float:
        value = own.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value
        agents_own = getattr(agent, name)
        return (getattr(settings, name) or 0.0) if agents_own is None else agents_own

    default = own.get("permission_default") or agent.permission_default or settings.permission_default
    return Policy(
        stall_after_s=seconds("stall_after_s"),
        busy_stall_after_s=seconds("busy_stall_after_s"),
        end_stalled_after_s=seconds("end_stalled_after_s") or None,
        permission_deadline_s=seconds("permission_deadline_s") or None,
        permission_default="allow" if default == "allow" else "deny",
        allow_tools=(*settings.allow_tools, *agent.allow_tools, *_patterns(own.get("allow_tools"))),
        deny_tools=(*settings.deny_tools, *agent.deny_tools, *_patterns(own.get("deny_tools"))),
    )


def output_limit(agent: str, settings: HostSettings) -> int:
    """How many characters one turn of an agent may say, think and tell of its tools."""
    own = settings.agents.get(agent, NO_AGENT).output_mb
    return int((settings.output_mb if own is None else own) * (1 << 20))


def own_environment(agent: str, settings: HostSettings) -> dict[str, str]:
    """What an agent's environment has beside what every agent's has."""
    own = settings.agents.get(agent, NO_AGENT).memory_mb
    limit_mb = settings.memory_mb if own is None else own
    limit = {MEMORY_LIMIT: str(limit_mb)} if limit_mb else {}
    return {**settings.inherited.get(agent, {}), **limit}


def _match(tool: str | None, patterns: Iterable[str]) -> str | None:
    """The first pattern that a tool's name fits. A question that is about no tool fits `*` alone."""
    return next((pattern for pattern in patterns if fnmatchcase(tool or "", pattern)), None)


def _patterns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(pattern for pattern in cast("Iterable[Any]", value) if isinstance(pattern, str))
