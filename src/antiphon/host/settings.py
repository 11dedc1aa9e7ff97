"""What a host can be set to: limits, deadlines and defaults, with the values that hold when nothing is said."""

import msgspec

from antiphon.core.decide import Rules


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
        stall_after_s: After how long of silence a running turn counts as stalled.
        permission_deadline_s: How long a question waits for a person before policy answers it; None for ever.
        permission_default: What policy answers: `deny` or `allow`.
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
    permission_deadline_s: float | None = None
    permission_default: str = "deny"
    on_crash: str = "interrupt"
    conflict_attempts: int = 10
    awake_idle_s: float = 60.0
