"""The timetable: schedules."""

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from antiphon.ports.store import Store
from antiphon.ports.timetable import Run, Schedule, Timetable
from antiphon.testing.store_contract.suite import Suite, pages


class WithTimetable(Store, Protocol):
    """A store with a timetable."""

    @property
    def timetable(self) -> Timetable: ...


def plan(id: str, **fields: Any) -> Schedule:
    """A schedule, but for these fields."""
    made = Schedule(id=id, session="k", text="hello\0 \u00e9", cron="0 7 * * *", time_zone="UTC", created_at=1)
    return replace(made, **fields)


class TimetableContract(Suite):
    """Schedules, and who looks at them when."""

    async def test_schedules_are_listed_oldest_first_and_only_so_many_fit(self, store: WithTimetable) -> None:
        create = {"agent": "echo", "labels": {"a": "b"}}
        kept = [
            plan("sch_3"),
            plan("sch_1", session="x", create=create, last=Run(due_at=1, at=2, outcome="missed", detail="…")),
            plan("sch_2", wakes_at=7, begun=5),
        ]
        for schedule in kept:
            assert await store.timetable.add(schedule, limit=3)
        assert not await store.timetable.add(plan("sch_4"), limit=3)
        for limit in (1, 2, 9):
            found = await pages(
                lambda cursor, limit=limit: store.timetable.schedules(session=None, cursor=cursor, limit=limit)
            )
            assert found == kept
        assert (await store.timetable.schedules(session="x", cursor=None, limit=9)).items == (kept[1],)
        assert await store.timetable.schedule("sch_1") == kept[1]
        assert await store.timetable.schedule("sch_4") is None
        with pytest.raises(ValueError, match=r"\w"):
            await store.timetable.schedules(session=None, cursor="nonsense", limit=9)

    async def test_what_is_due_is_told_the_longest_due_first(self, store: WithTimetable) -> None:
        assert await store.timetable.next_at() is None
        for id, at in (("sch_1", 30), ("sch_2", 10), ("sch_3", None), ("sch_4", 20)):
            await store.timetable.add(plan(id, wakes_at=at), limit=9)
        assert await store.timetable.next_at() == 10
        assert list(await store.timetable.due(9, limit=9)) == []
        assert [each.id for each in await store.timetable.due(20, limit=9)] == ["sch_2", "sch_4"]
        assert [each.id for each in await store.timetable.due(99, limit=2)] == ["sch_2", "sch_4"]

    async def test_of_two_who_change_a_schedule_the_second_is_told(self, store: WithTimetable) -> None:
        schedule = plan("sch_1", wakes_at=10)
        await store.timetable.add(schedule, limit=9)
        mine = replace(schedule, version=2, wakes_at=20, sent=1)
        assert await store.timetable.replace(mine)
        assert not await store.timetable.replace(replace(schedule, version=2, wakes_at=None))
        assert await store.timetable.schedule("sch_1") == mine
        assert await store.timetable.next_at() == 20
        assert await store.timetable.remove("sch_1")
        assert not await store.timetable.remove("sch_1")
        assert not await store.timetable.replace(replace(mine, version=3))
        assert await store.timetable.schedule("sch_1") is None

    async def test_schedules_outlive_a_restart(self, store: WithTimetable) -> None:
        schedule = plan("sch_1", wakes_at=10, begun=10)
        await store.timetable.add(schedule, limit=9)
        again: Any = await self.reopen(store)
        try:
            assert list(await again.timetable.due(10, limit=9)) == [schedule]
        finally:
            await again.close()
