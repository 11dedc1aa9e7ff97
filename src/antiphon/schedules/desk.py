"""What can be asked about schedules: add, list, remove, pause, resume."""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.core.errors import Conflict, InvalidRequest, NotFound
from antiphon.core.words import WhenBusy
from antiphon.host.service import NewSession, Service
from antiphon.host.views import Page, View, rfc3339
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids
from antiphon.ports.timetable import MissedRun, Overlap, Schedule, Timetable
from antiphon.schedules import plan
from antiphon.schedules.times import cron_problem, next_after, next_runs, zone_problem

SCHEDULES_MAX = 1000
NEXT_RUNS = 5
ATTEMPTS = 10


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent when. `create` is what a session is made from when `session`, a key, has none."""

    session: str
    text: str
    cron: str
    time_zone: str = "UTC"
    missed: MissedRun = "skip"
    overlap: Overlap = "skip"
    when_busy: WhenBusy | None = None
    create: NewSession | None = None


class RunView(View, frozen=True, kw_only=True):
    """What became of a run: `sent`, `missed`, `overlapped` or `refused`; `detail` says why it was not sent."""

    due_at: str | None
    at: str | None
    outcome: str
    message_id: str | None
    detail: str | None


class ScheduleView(View, frozen=True, kw_only=True):
    """A schedule. `state` is `active` or `paused`; `sent` and `skipped` count its runs."""

    id: str
    session: str
    text: str
    cron: str
    time_zone: str
    missed: str
    overlap: str
    when_busy: str | None
    agent: str | None
    state: str
    next_runs: tuple[str, ...]
    last_run: RunView | None
    sent: int
    skipped: int
    created_at: str | None


class Schedules:
    """The schedules of a host, for its doors. Every method raises errors of `antiphon.core.errors` and no others."""

    def __init__(
        self, timetable: Timetable, service: Service, *, clock: Clock, ids: Ids, stir: Callable[[], None]
    ) -> None:
        """`stir` has whoever runs schedules look anew."""
        self._timetable = timetable
        self._service = service
        self._clock = clock
        self._ids = ids
        self._stir = stir

    async def add(self, new: NewSchedule) -> ScheduleView:
        """Send a message again and again.

        Raises:
            InvalidRequest: The expression or the zone can't be used, or there are too many schedules.
            NotFound: There is no such session and none is to be made, or no such agent.
        """
        if problem := cron_problem(new.cron):
            raise InvalidRequest(problem, field="cron")
        if problem := zone_problem(new.time_zone):
            raise InvalidRequest(problem, field="time_zone")
        await self._require_somebody(new)
        now = self._clock.now()
        schedule = Schedule(
            id=self._ids.new("sch"),
            session=new.session,
            text=new.text,
            cron=new.cron.strip(),
            time_zone=new.time_zone,
            missed=new.missed,
            overlap=new.overlap,
            when_busy=new.when_busy,
            create=_kept(new.create),
            created_at=now,
            wakes_at=next_after(new.cron, new.time_zone, now),
        )
        if not await self._timetable.add(schedule, limit=SCHEDULES_MAX):
            detail = f"There are {SCHEDULES_MAX} schedules already. Remove one that is no longer used."
            raise InvalidRequest(detail)
        self._stir()
        return self._view(schedule)

    async def _require_somebody(self, new: NewSchedule) -> None:
        """See that there is somebody to send to, now and not only when the time has come."""
        if new.create is None or new.session.startswith("ses_"):
            await self._service.session(new.session)
        elif all(agent.name != new.create.agent for agent in await self._service.agents()):
            raise NotFound("agent", new.create.agent)

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """A schedule."""
        return self._view(await self._load(schedule_id))

    async def _load(self, schedule_id: str) -> Schedule:
        schedule = await self._timetable.schedule(schedule_id)
        if schedule is None:
            raise NotFound("schedule", schedule_id)
        return schedule

    async def schedules(self, *, session: str | None = None, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of `ScheduleView`, oldest first; of one session, as its schedules name it, or all."""
        try:
            found = await self._timetable.schedules(session=session, cursor=cursor, limit=limit)
        except ValueError as error:
            raise InvalidRequest("The cursor must be one that a page of this list gave as `next_cursor`.") from error
        return Page(items=tuple(self._view(schedule) for schedule in found.items), next_cursor=found.next_cursor)

    async def remove(self, schedule_id: str) -> None:
        """Send nothing more; what was sent goes on."""
        if not await self._timetable.remove(schedule_id):
            raise NotFound("schedule", schedule_id)

    async def pause(self, schedule_id: str) -> ScheduleView:
        """Send nothing until it is resumed."""
        return await self._change(schedule_id, plan.paused)

    async def resume(self, schedule_id: str) -> ScheduleView:
        """Go on with the next run after now; what passed meanwhile is not made up for."""
        return await self._change(schedule_id, plan.resumed)

    async def _change(self, schedule_id: str, change: Callable[..., Schedule]) -> ScheduleView:
        for _ in range(ATTEMPTS):
            before = await self._load(schedule_id)
            after = change(before, now=self._clock.now())
            if after is before or await self._timetable.replace(after):
                self._stir()
                return self._view(after)
        raise Conflict("The schedule was changed by others every time. Try again.", retry_after_s=1)

    def _view(self, schedule: Schedule) -> ScheduleView:
        ahead = [] if schedule.paused_at is not None else self._next_runs(schedule)
        last = schedule.last
        return ScheduleView(
            id=schedule.id,
            session=schedule.session,
            text=schedule.text,
            cron=schedule.cron,
            time_zone=schedule.time_zone,
            missed=schedule.missed,
            overlap=schedule.overlap,
            when_busy=schedule.when_busy,
            agent=schedule.create.get("agent") if schedule.create else None,
            state="active" if schedule.paused_at is None else "paused",
            next_runs=tuple(rfc3339(run) or "" for run in ahead),
            last_run=RunView(
                due_at=rfc3339(last.due_at),
                at=rfc3339(last.at),
                outcome=last.outcome,
                message_id=last.message_id,
                detail=last.detail,
            )
            if last
            else None,
            sent=schedule.sent,
            skipped=schedule.skipped,
            created_at=rfc3339(schedule.created_at),
        )

    def _next_runs(self, schedule: Schedule) -> list[int]:
        return next_runs(schedule.cron, schedule.time_zone, self._clock.now(), NEXT_RUNS)


def _kept(new: NewSession | None) -> dict[str, Any] | None:
    return None if new is None else {name: value for name, value in msgspec.to_builtins(new).items() if name != "key"}
