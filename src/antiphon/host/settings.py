"""What a host can be set to: limits, deadlines and defaults, with the values that hold when nothing is said."""

from collections.abc import Mapping

import msgspec

from antiphon.core.decide import Rules


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is set to beside its adapter's own options. What is None is as the host's settings say.

    Attributes:
        model: The model, unless the session names one.
        memory_mb: How much memory the agent and all that it starts may use; more ends it and fails its turn.
        output_mb: How much one turn may say, think and tell of its tools; more ends the agent and fails the turn.
        stall_after_s: After how long of silence, without a sign of life of its processes, a turn counts as stalled.
        busy_stall_after_s: After how long of silence it does in spite of such signs.
        end_stalled_after_s: How long a turn may be stalled until it is failed and its agent ended; 0 for ever.
        permission_deadline_s: How long a question waits for a person before policy answers it; 0 for ever.
        permission_default: What policy answers then: `deny` or `allow`.
        allow_tools: The tools that policy allows at once, by name, such as `Read` or `mcp__files__*`.
        deny_tools: Those that it denies at once; a tool that both lists name is denied.
        inherit: The variables of the host's environment that the agent gets too, by name.
    """

    model: str | None = None
    memory_mb: int | None = None
    output_mb: float | None = None
    stall_after_s: float | None = None
    busy_stall_after_s: float | None = None
    end_stalled_after_s: float | None = None
    permission_deadline_s: float | None = None
    permission_default: str | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and deadlines of a host.

    Attributes:
        rules: What `decide` goes by: queue length, default `when_busy`, and so on.
        max_agents: How many agents may be open at once; further sessions wait for a place.
        max_sessions: How many sessions may be kept; None for no limit.
        agent_idle_s: After how long without a turn an agent is let go.
        open_timeout_s: How long an agent may take to start.
        cancel_grace_s: How long an agent may take to stop its turn by itself before it is ended.
        close_patience_s: How long an agent may take to end politely before it is killed.
        drain_s: How long running turns may go on after a shutdown was asked for.
        stall_after_s: After how long of silence, without a sign of life of its processes, a turn counts as stalled.
        busy_stall_after_s: After how long of silence it does in spite of such signs.
        end_stalled_after_s: How long a turn may be stalled until it is failed and its agent ended; None for ever.
        permission_deadline_s: How long a question waits for a person before policy answers it; None for ever.
        permission_default: What policy answers: `deny` or `allow`.
        allow_tools, deny_tools: The tools that policy allows, or denies, at once, by name; `*` stands for anything.
        memory_mb: How much memory an agent and all that it starts may use; 0 for no limit.
        output_mb: How much one turn may say, think and tell of its tools.
        agents: What single agents are set to, by name.
        inherited: Variables of the host's environment, with their values, that single agents get, by the agent's name.
        on_crash: What becomes of a turn that a crash cut short, unless the session says otherwise.
        conflict_attempts: How often a command is decided anew when other writers come first.
        awake_idle_s: After how long without any command a session's actor is put to sleep.
    """

    rules: Rules = Rules()
    max_agents: int = 64
    max_sessions: int | None = None
    agent_idle_s: float = 900.0
    open_timeout_s: float = 60.0
    cancel_grace_s: float = 5.0
    close_patience_s: float = 3.0
    drain_s: float = 5.0
    stall_after_s: float = 300.0
    busy_stall_after_s: float = 3600.0
    end_stalled_after_s: float | None = None
    permission_deadline_s: float | None = None
    permission_default: str = "deny"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    memory_mb: int = 0
    output_mb: float = 64.0
    agents: Mapping[str, AgentSettings] = {}
    inherited: Mapping[str, Mapping[str, str]] = {}
    on_crash: str = "interrupt"
    conflict_attempts: int = 10
    awake_idle_s: float = 60.0
