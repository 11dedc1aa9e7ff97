"""What is to be done when a schedule's time has come. Pure: the time, and how its last message stands, are given."""

from typing import NamedTuple

from msgspec.structs import replace

from antiphon.core.errors import AntiphonError
from antiphon.core.words import MessageState
from antiphon.ports.timetable import Outcome, Run, Schedule
from antiphon.schedules.times import last_of, next_after

GRACE_MS = 60_000
"""A run that is seen to later than this counts as missed."""
CLAIM_MS = 15_000
"""After so long, whoever looks takes up a run that was begun and has no outcome yet."""

Waiting = MessageState | None
"""How the last message stands; None when there is none, or it is gone."""


class Begin(NamedTuple):
    """Write this down, then send the run `schedule.begun`."""

    schedule: Schedule


class Skip(NamedTuple):
    """Write this down: the run is over."""

    schedule: Schedule


def look(schedule: Schedule, last: Waiting, *, now: int) -> Begin | Skip:
    """What to do with a schedule whose time has come and that has no run begun."""
    assert schedule.wakes_at is not None
    due_at, passed = last_of(schedule.cron, schedule.time_zone, schedule.wakes_at, now)
    ahead = replace(
        schedule,
        version=schedule.version + 1,
        wakes_at=next_after(schedule.cron, schedule.time_zone, max(now, due_at)),
        skipped=schedule.skipped + passed,
    )
    if now - due_at > GRACE_MS and schedule.missed == "skip":
        return Skip(_over(ahead, due_at, now, "missed", detail=_missed(passed + 1)))
    if last is not None and (why := _in_the_way(schedule, last)):
        return Skip(_over(ahead, due_at, now, "overlapped", detail=why))
    return Begin(replace(ahead, begun=due_at, wakes_at=now + CLAIM_MS))


def _missed(runs: int) -> str:
    return f"No host was there at the time of {runs} run{'s' if runs > 1 else ''}."


def _in_the_way(schedule: Schedule, last: Waiting) -> str | None:
    if last == "queued":
        return f"The last message, {schedule.last_message_id}, still waits."
    if last == "running" and schedule.overlap == "skip":
        return f"The last message, {schedule.last_message_id}, is still being answered."
    return None


def again(schedule: Schedule, *, now: int) -> Begin | Skip:
    """What to do with a run that was begun, and whose outcome nobody wrote down: its host died, or the store was away.

    To send it again does no harm: it has the same idempotency key. One that is late is missed by now.
    """
    assert schedule.begun is not None
    if now - schedule.begun > GRACE_MS and schedule.missed == "skip":
        return Skip(finished(schedule, now=now, outcome="missed", detail=_missed(1)))
    return Begin(replace(schedule, version=schedule.version + 1, wakes_at=now + CLAIM_MS))


def finished(
    schedule: Schedule, *, now: int, outcome: Outcome, message_id: str | None = None, detail: str | None = None
) -> Schedule:
    """A schedule after the run that it had begun."""
    assert schedule.begun is not None
    ahead = replace(
        schedule,
        version=schedule.version + 1,
        begun=None,
        wakes_at=None
        if schedule.paused_at is not None
        else next_after(schedule.cron, schedule.time_zone, max(now, schedule.begun)),
    )
    return _over(ahead, schedule.begun, now, outcome, message_id=message_id, detail=detail)


def _over(
    schedule: Schedule,
    due_at: int,
    now: int,
    outcome: Outcome,
    *,
    message_id: str | None = None,
    detail: str | None = None,
) -> Schedule:
    sent = outcome == "sent"
    return replace(
        schedule,
        last=Run(due_at=due_at, at=now, outcome=outcome, message_id=message_id, detail=detail),
        last_message_id=message_id or schedule.last_message_id,
        sent=schedule.sent + sent,
        skipped=schedule.skipped + (not sent),
    )


def refused(error: AntiphonError) -> str:
    """Why a run was refused, for a person."""
    return f"{error.detail} ({error.code})"


def key(schedule: Schedule) -> str:
    """The idempotency key of the run that was begun: there is one message under it, whoever sends it how often."""
    return f"{schedule.id}:{schedule.begun}"


def paused(schedule: Schedule, *, now: int) -> Schedule:
    """A schedule at rest. A run that was begun is finished all the same."""
    if schedule.paused_at is not None:
        return schedule
    wakes_at = schedule.wakes_at if schedule.begun is not None else None
    return replace(schedule, version=schedule.version + 1, paused_at=now, wakes_at=wakes_at)


def resumed(schedule: Schedule, *, now: int) -> Schedule:
    """A schedule that goes on with the next run after now."""
    if schedule.paused_at is None:
        return schedule
    wakes_at = schedule.wakes_at or next_after(schedule.cron, schedule.time_zone, now)
    return replace(schedule, version=schedule.version + 1, paused_at=None, wakes_at=wakes_at)
