"""The timetable in SQL: its commands, and the port over whatever runs them."""

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from antiphon.ports.store import Listed, StoreDamaged
from antiphon.ports.timetable import Schedule
from antiphon.store.cursors import cursor as cursor_at
from antiphon.store.cursors import place
from antiphon.store.sql import rows
from antiphon.store.sql.outbox import Run
from antiphon.store.sql.reads import Where
from antiphon.store.sql.statements import Command

_decode = msgspec.json.Decoder(Schedule).decode


def _schedule(record: bytes) -> Schedule:
    try:
        return _decode(record)
    except rows.UNREADABLE as error:
        raise StoreDamaged("A stored schedule can't be read. It was left as it is.") from error


def _readable(records: Iterable[bytes]) -> list[Schedule]:
    """The schedules that can be read: one that can't holds up no other."""
    damage = rows.Damage()
    listed = [damage.listed("schedule", "", _decode, record) for record in records]
    return [schedule for schedule in listed if schedule is not None]


def add(schedule: Schedule, *, limit: int) -> Command[bool]:
    """See `Timetable.add`."""
    [(many,)] = yield "SELECT count(*) FROM schedules", ()
    if many >= limit:
        return False
    yield (
        "INSERT INTO schedules (id, session, wakes_at, version, record) VALUES ($1, $2, $3, $4, $5)",
        (schedule.id, schedule.session, schedule.wakes_at, schedule.version, rows.encode(schedule)),
    )
    return True


def schedule(schedule_id: str) -> Command[Schedule | None]:
    """See `Timetable.schedule`."""
    found = yield "SELECT record FROM schedules WHERE id = $1", (schedule_id,)
    return _schedule(found[0][0]) if found else None


def schedules(*, session: str | None, cursor: str | None, limit: int) -> Command[Listed]:
    """See `Timetable.schedules`."""
    where = Where("number > 0")
    if session is not None:
        where.add("session = {}", session)
    if cursor is not None:
        where.add("number > {}", *place("schedules", cursor, int))
    found = yield (
        f"SELECT number, record FROM schedules WHERE {where} ORDER BY number LIMIT {where.bind(limit + 1)}",
        tuple(where.args),
    )
    next_cursor = cursor_at("schedules", found[limit - 1][0]) if len(found) > limit else None
    return Listed(items=tuple(_readable(record for _, record in found[:limit])), next_cursor=next_cursor)


def remove(schedule_id: str) -> Command[bool]:
    """See `Timetable.remove`."""
    return bool((yield "DELETE FROM schedules WHERE id = $1 RETURNING 1", (schedule_id,)))


def due(now: int, *, limit: int) -> Command[Sequence[Schedule]]:
    """See `Timetable.due`."""
    found = yield (
        "SELECT record FROM schedules WHERE wakes_at <= $1 ORDER BY wakes_at, number LIMIT $2",
        (now, limit),
    )
    return _readable(record for (record,) in found)


def next_at() -> Command[int | None]:
    """See `Timetable.next_at`."""
    [(at,)] = yield "SELECT min(wakes_at) FROM schedules WHERE wakes_at IS NOT NULL", ()
    return at


def replace(schedule: Schedule) -> Command[bool]:
    """See `Timetable.replace`."""
    found = yield (
        "UPDATE schedules SET wakes_at = $3, version = $4, record = $5 WHERE id = $1 AND version = $2 RETURNING 1",
        (schedule.id, schedule.version - 1, schedule.wakes_at, schedule.version, rows.encode(schedule)),
    )
    return bool(found)


class SqlTimetable:
    """The timetable of a store that runs SQL; see `Timetable`."""

    def __init__(self, read: Run, write: Run) -> None:
        self._read = read
        self._write = write

    async def add(self, schedule: Schedule, *, limit: int) -> bool:
        return await self._write(partial(add, schedule, limit=limit))

    async def schedule(self, schedule_id: str) -> Schedule | None:
        return await self._read(partial(schedule, schedule_id))

    async def schedules(self, *, session: str | None, cursor: str | None, limit: int) -> Listed:
        return await self._read(partial(schedules, session=session, cursor=cursor, limit=limit))

    async def remove(self, schedule_id: str) -> bool:
        return await self._write(partial(remove, schedule_id))

    async def due(self, now: int, *, limit: int) -> Sequence[Schedule]:
        return await self._read(partial(due, now, limit=limit))

    async def next_at(self) -> int | None:
        return await self._read(next_at)

    async def replace(self, schedule: Schedule) -> bool:
        return await self._write(partial(replace, schedule))
