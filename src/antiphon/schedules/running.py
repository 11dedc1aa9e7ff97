"""The clock of schedules: it waits for their times, and has each run sent exactly once."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from antiphon.core.errors import AntiphonError, Conflict, Draining, NotFound, StoreUnavailable
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.tasks import Tasks
from antiphon.host.views import Receipt
from antiphon.ports.clock import Clock
from antiphon.ports.store import KeyedMessage
from antiphon.ports.timetable import Schedule, Timetable
from antiphon.schedules import plan

log = logging.getLogger("antiphon.schedules")

LOOK_S = 15.0
"""So often to look: the machine's clock may have been put ahead, another host may have changed something."""
AT_ONCE = 64
PATIENCE_S = 60.0
LATER = (Draining, StoreUnavailable, Conflict)
"""What says: not now. The run stays begun, and is taken up again."""


class Sending(Protocol):
    """The part of a host that schedules need; see `antiphon.host.service.Service`."""

    async def send(self, ref: str, message: NewMessage, *, create: NewSession | None = None) -> Receipt: ...

    async def receipt(self, message_id: str) -> Receipt: ...


class Keys(Protocol):
    """The part of a store that tells what an idempotency key was spent on; see `antiphon.ports.store.Store`."""

    async def find(self, key: str) -> str | None: ...

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None: ...


class Runner:
    """Runs the schedules of a timetable. `start` it, and `stop` it in the end.

    A run is written down as begun before it is sent, and its message has the run's own idempotency key: so a run that a
    crash cut short is sent again and is still one message, and of several hosts each may try.
    """

    def __init__(
        self, timetable: Timetable, sending: Sending, keys: Keys, *, clock: Clock, counted: Callable[[str], None]
    ) -> None:
        """Args:
        timetable: Where schedules are kept.
        sending: What their messages are sent by.
        keys: What tells whether a run was sent before.
        clock: Time.
        counted: Told the outcome of each run.
        """
        self._timetable = timetable
        self._sending = sending
        self._keys = keys
        self._clock = clock
        self._counted = counted
        self._tasks = Tasks("schedules")
        self._stirred = asyncio.Event()
        self._running: set[str] = set()

    def start(self) -> None:
        """Begin."""
        self._tasks.start(self._run(), "run")

    def stir(self) -> None:
        """Look at the timetable anew: something in it was changed."""
        self._stirred.set()

    async def stop(self) -> None:
        """End at once. A run that is cut short is taken up by the next host. Idempotent."""
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            self._stirred.clear()
            try:
                next_at = await self._look()
            except StoreUnavailable as error:
                log.warning("the timetable could not be read", extra={"action": "schedule_look", "code": error.code})
                next_at = None
            await self._pause(next_at)

    async def _look(self) -> int | None:
        """Begin every run that is due; when the next one is."""
        now = self._clock.now()
        for schedule in await self._timetable.due(now, limit=AT_ONCE):
            if schedule.id not in self._running and len(self._running) < AT_ONCE:
                self._running.add(schedule.id)
                self._tasks.start(self._see_to(schedule), "see_to")
        next_at = await self._timetable.next_at()
        return None if next_at is None or next_at <= now else next_at

    async def _pause(self, next_at: int | None) -> None:
        """Wait until a run is due, something is stirred, or it is time to look again."""
        seconds = LOOK_S if next_at is None else min(LOOK_S, max(0.001, (next_at - self._clock.now()) / 1000))
        waits = {
            self._tasks.start(self._stirred.wait(), "stirred"),
            self._tasks.start(self._clock.sleep(seconds), "pause"),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _see_to(self, schedule: Schedule) -> None:
        """See to one schedule. Trouble with it stays with it (P13)."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._decide(schedule)
            self._stirred.set()
        except (*LATER, TimeoutError) as error:  # whoever looks next takes it up, and not at once
            extra = {"action": "schedule_later", "schedule_id": schedule.id, "error": type(error).__name__}
            log.warning("a run could not be finished yet", extra=extra)
        finally:
            self._running.discard(schedule.id)

    async def _decide(self, schedule: Schedule) -> None:
        now = self._clock.now()
        if schedule.begun is None:
            step = plan.look(schedule, await self._last(schedule), now=now)
        else:
            step = plan.again(schedule, now=now)
            if isinstance(step, plan.Skip) and (message_id := await self._sent_before(schedule)):
                step = plan.Skip(plan.finished(schedule, now=now, outcome="sent", message_id=message_id))
        if not await self._timetable.replace(step.schedule):
            return  # another host sees to it, or it was changed: the next look tells
        if isinstance(step, plan.Skip):
            self._note(step.schedule)
        else:
            await self._send(step.schedule)

    async def _last(self, schedule: Schedule) -> plan.Waiting:
        """How the last message stands."""
        if schedule.last_message_id is None:
            return None
        try:
            return (await self._sending.receipt(schedule.last_message_id)).state  # pyright: ignore[reportReturnType]
        except NotFound:
            return None

    async def _sent_before(self, schedule: Schedule) -> str | None:
        """The message of the run that was begun, if it was sent."""
        session_id = schedule.session
        if not session_id.startswith("ses_"):
            session_id = await self._keys.find(session_id) or ""
        spent = await self._keys.keyed(session_id, plan.key(schedule))
        return spent.message_id if spent else None

    async def _send(self, schedule: Schedule) -> None:
        try:
            receipt = await self._sending.send(
                schedule.session, _message(schedule), create=_birth(schedule.session, schedule.create)
            )
        except LATER:
            raise
        except AntiphonError as error:
            done = plan.finished(schedule, now=self._clock.now(), outcome="refused", detail=plan.refused(error))
        else:
            done = plan.finished(schedule, now=self._clock.now(), outcome="sent", message_id=receipt.id)
        await self._finish(done)

    async def _finish(self, done: Schedule) -> None:
        """Write an outcome down; one that somebody else's change got in the way of is found again, by its key."""
        if await self._timetable.replace(done):
            self._note(done)

    def _note(self, schedule: Schedule) -> None:
        last = schedule.last
        assert last is not None
        self._counted(last.outcome)
        extra = {"action": f"schedule_{last.outcome}", "schedule_id": schedule.id, "message_id": last.message_id}
        log.info("a scheduled run is over", extra=extra)


def _message(schedule: Schedule) -> NewMessage:
    key = plan.key(schedule)
    return NewMessage(
        text=schedule.text,
        when_busy=schedule.when_busy,
        idempotency_key=key,
        digest=key,
        sender=f"schedule {schedule.id}",
    )


def _birth(session: str, create: dict[str, object] | None) -> NewSession | None:
    """What a session is made from when the key has none."""
    if create is None or session.startswith("ses_"):
        return None
    return msgspec.convert({**create, "key": session}, NewSession)
