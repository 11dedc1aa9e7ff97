"""Where schedules are kept: the timetable of a store."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from antiphon.core.session import Value
from antiphon.core.words import WhenBusy
from antiphon.ports.store import Listed

MissedRun = Literal["skip", "run_once"]
Overlap = Literal["skip", "queue_one"]
Outcome = Literal["sent", "missed", "overlapped", "refused"]


class Run(Value, frozen=True, kw_only=True):
    """What became of a run.

    Attributes:
        due_at: The time that the schedule named.
        at: When it was seen to.
        outcome: `sent`; `missed`, nobody was there at its time; `overlapped`, the message before it had not ended;
            `refused`, the session did not take it.
        message_id: The message that it sent.
        detail: Why not, in words.
    """

    due_at: int
    at: int
    outcome: Outcome
    message_id: str | None = None
    detail: str | None = None


class Schedule(Value, frozen=True, kw_only=True):
    """A message that is sent again and again. All times are milliseconds since the epoch.

    Attributes:
        session: The session's id or key.
        cron, time_zone: When: five fields, in the time of an IANA zone.
        missed: What becomes of runs at whose time no host was there.
        overlap: What becomes of a run that finds the message of the one before it not ended.
        create: What a session is made from when the key has none.
        wakes_at: When to look at it next; None while it is paused.
        begun: The run that is being sent: it was decided upon, and its outcome is not known yet.
        last: The last run that has an outcome.
        last_message_id: The last message that was sent.
        sent, skipped: How many runs were sent, and how many not.
        version: Raised by each change.
    """

    id: str
    session: str
    text: str
    cron: str
    time_zone: str
    missed: MissedRun = "skip"
    overlap: Overlap = "skip"
    when_busy: WhenBusy | None = None
    create: dict[str, Any] | None = None
    created_at: int
    paused_at: int | None = None
    wakes_at: int | None = None
    begun: int | None = None
    last: Run | None = None
    last_message_id: str | None = None
    sent: int = 0
    skipped: int = 0
    version: int = 1


class Timetable(Protocol):
    """The schedules. Any method may raise `StoreUnavailable`."""

    async def add(self, schedule: Schedule, *, limit: int) -> bool:
        """Keep a schedule; whether there was room."""
        ...

    async def schedule(self, schedule_id: str) -> Schedule | None: ...

    async def schedules(self, *, session: str | None, cursor: str | None, limit: int) -> Listed:
        """Schedules (`Schedule`), oldest first; of one session as they name it, or all.

        Raises:
            ValueError: The cursor is not one of this list's.
        """
        ...

    async def remove(self, schedule_id: str) -> bool:
        """Forget a schedule; whether it was there."""
        ...

    async def due(self, now: int, *, limit: int) -> Sequence[Schedule]:
        """Those to look at (`wakes_at` at or before `now`), the longest due first."""
        ...

    async def next_at(self) -> int | None:
        """The first `wakes_at` of all."""
        ...

    async def replace(self, schedule: Schedule) -> bool:
        """Write a schedule whose `version` is one more than that of what is kept; whether it was.

        False: somebody else changed or removed it first, and nothing was written.
        """
        ...
