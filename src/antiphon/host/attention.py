"""The watchdog: finds turns that get nowhere, so that a person looks.

The clock alone does not say so. A turn is stalled when for `stall_after_s` nothing was heard of it *and* its processes
showed no sign of life: they used no processor time worth the name, and no tool of it runs in a process that was started
in the turn. In spite of such signs it is after `busy_stall_after_s`: a program can spin, and a tool can hang.

It only tells. A stalled turn is ended by nobody but a person, unless `end_stalled_after_s` is set.
"""

from collections.abc import Mapping

import msgspec

from antiphon.core import commands as c
from antiphon.core.session import Problem, Running, Session
from antiphon.host.actor import SessionActor
from antiphon.host.context import Context
from antiphon.host.policy import Policy, policy_of
from antiphon.ports.vitals import Signs, Vitals

BUSY_SHARE = 0.02
"""Of one processor: an idle Node.js uses less, a program that works uses more."""
LOOKS_PER_PATIENCE = 4
LOOK_PAUSE_MAX_S = 30.0


class _Watch(msgspec.Struct):
    """What is known of a turn that is silent. Times are seconds of the monotonic clock."""

    turn_id: str
    heard_at: int
    """As in `Running`: when this changes, something was heard."""
    since: float
    """Since when it is silent."""
    alive_at: float
    """When there was a sign of life."""
    looked_at: float
    cpu_s: float | None = None
    compared: bool = False
    """Whether the process was looked at twice, without which nothing can be said of its work."""
    signs: Signs | None = None
    stalled_since: float | None = None


class Attention:
    """Looks after the running turns of a host."""

    def __init__(self, context: Context, vitals: Vitals | None) -> None:
        self._context = context
        self._vitals = vitals
        self._watches: dict[str, _Watch] = {}

    def keep(self, actors: Mapping[str, SessionActor]) -> None:
        """Forget what is not watched any more."""
        self._watches = {id: watch for id, watch in self._watches.items() if id in actors}

    def look(self, actor: SessionActor, session: Session, running: Running, now: float) -> None:
        """Look at a running turn; called a few times a second, it mostly returns at once."""
        watch = self._watches.get(session.id)
        heard = watch is None or (watch.turn_id, watch.heard_at) != (running.turn.id, running.heard_at)
        if watch is None or heard or running.cancelling or session.permissions:
            self._watches[session.id] = _Watch(running.turn.id, running.heard_at, now, now, now)
            return
        policy = policy_of(session, self._context.settings)
        if running.stalled:
            self._end(actor, running, policy, watch, now)
            return
        pause_s = min(LOOK_PAUSE_MAX_S, policy.stall_after_s / LOOKS_PER_PATIENCE)
        if now - watch.looked_at >= pause_s:
            self._examine(actor, running, watch, now)
        silent_s = now - watch.since
        if watch.signs and not watch.compared:
            return
        if now - watch.alive_at > policy.stall_after_s or silent_s > policy.busy_stall_after_s > 0:
            detail = _told(silent_s, actor.agent_pid, watch)
            actor.tell(c.TurnStalls(turn_id=running.turn.id, heard_at=running.heard_at, detail=detail))

    def _examine(self, actor: SessionActor, running: Running, watch: _Watch, now: float) -> None:
        """Look at the turn's processes for a sign of life since the last look."""
        pid = actor.agent_pid
        watch.signs = signs = self._vitals.look(pid) if self._vitals and pid is not None else None
        before, past_s = watch.cpu_s, now - watch.looked_at
        watch.looked_at, watch.cpu_s = now, signs.cpu_s if signs else None
        watch.compared = watch.compared or before is not None
        if signs is None or signs.stopped:
            return
        used_s = signs.cpu_s - before if before is not None else 0.0
        turn_s = (self._context.clock.now() - running.turn.started_at) / 1000
        tool_runs = bool(running.open_tools) and any(age_s < turn_s for age_s in signs.ages_s)
        if tool_runs or used_s > BUSY_SHARE * past_s:
            watch.alive_at = now

    def _end(self, actor: SessionActor, running: Running, policy: Policy, watch: _Watch, now: float) -> None:
        """Fail a turn that has been stalled for as long as it may, where that is limited."""
        if watch.stalled_since is None:
            watch.stalled_since = now
        limit_s = policy.end_stalled_after_s
        if limit_s is not None and now - watch.stalled_since > limit_s:
            watch.stalled_since = now
            detail = f"{_told(now - watch.since, actor.agent_pid, watch)} It was ended after {limit_s:g} s of that."
            actor.give_up(running.turn.id, Problem(code="agent_failed", detail=f"The turn was stalled. {detail}"))


def _told(silent_s: float, pid: int | None, watch: _Watch) -> str:
    """What a person should know of a stalled turn."""
    words = f"Nothing was heard of it for {silent_s:.0f} s"
    if pid is None:
        return f"{words}."
    if watch.signs is None:
        return f"{words}, and nothing could be seen of its process {pid}."
    if watch.signs.stopped:
        return f"{words}, and its process {pid} is stopped."
    if watch.alive_at > watch.since:
        return f"{words}, although its process {pid}, or one below it, is busy."
    return f"{words}, and its process {pid} and those below it do nothing."
