"""The timetable of the store in memory."""

from collections.abc import Sequence

from antiphon.ports.store import Listed
from antiphon.ports.timetable import Schedule
from antiphon.store.cursors import cursor as cursor_at
from antiphon.store.cursors import place


class MemoryTimetable:
    """See `antiphon.ports.timetable.Timetable`. Every method is done before it first awaits."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._schedules: dict[str, Schedule] = {}
        self._number = 0

    async def add(self, schedule: Schedule, *, limit: int) -> bool:
        if len(self._schedules) >= limit:
            return False
        self._number += 1
        self._numbers[schedule.id] = self._number
        self._schedules[schedule.id] = schedule
        return True

    async def schedule(self, schedule_id: str) -> Schedule | None:
        return self._schedules.get(schedule_id)

    async def schedules(self, *, session: str | None, cursor: str | None, limit: int) -> Listed:
        after = place("schedules", cursor, int)[0] if cursor is not None else 0
        found = [
            (self._numbers[each.id], each)
            for each in self._schedules.values()
            if session in {None, each.session} and self._numbers[each.id] > after
        ]
        next_cursor = cursor_at("schedules", found[limit - 1][0]) if len(found) > limit else None
        return Listed(items=tuple(each for _, each in found[:limit]), next_cursor=next_cursor)

    async def remove(self, schedule_id: str) -> bool:
        return self._schedules.pop(schedule_id, None) is not None

    async def due(self, now: int, *, limit: int) -> Sequence[Schedule]:
        found = [each for each in self._schedules.values() if each.wakes_at is not None and each.wakes_at <= now]
        return sorted(found, key=lambda each: (each.wakes_at or 0, self._numbers[each.id]))[:limit]

    async def next_at(self) -> int | None:
        return min((each.wakes_at for each in self._schedules.values() if each.wakes_at is not None), default=None)

    async def replace(self, schedule: Schedule) -> bool:
        kept = self._schedules.get(schedule.id)
        if kept is None or kept.version != schedule.version - 1:
            return False
        self._schedules[schedule.id] = schedule
        return True
