"""Schedules on a real host: exactly one message a run, through crashes, on every store, never a pile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from antiphon.core.errors import Draining, InvalidRequest, NotFound, StoreUnavailable
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.views import Receipt
from antiphon.ports.timetable import Schedule
from antiphon.schedules.desk import NewSchedule, Schedules, ScheduleView
from antiphon.schedules.plan import CLAIM_MS
from antiphon.schedules.running import Runner
from antiphon.system import SystemIds
from hostlab.house import House
from hostlab.shelves import MemoryShelf, PostgresShelf, Shelf, SqliteShelf
from real_postgres import RealPostgres, real_postgres

__all__ = ["real_postgres"]

T = TypeVar("T")
START = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000


class HandClock:
    """Time that stands still until it is put forward; who sleeps by it wakes when its time has come."""

    def __init__(self) -> None:
        self.at = START
        self._moved = asyncio.Condition()

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1000

    async def sleep(self, seconds: float) -> None:
        until = self.at + seconds * 1000
        async with self._moved:
            await self._moved.wait_for(lambda: self.at >= until)

    async def forward(self, ms: int) -> None:
        async with self._moved:
            self.at += ms
            self._moved.notify_all()


class Gate:
    """The host as a runner meets it, with what a test puts before and behind each send."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.before: Callable[[str], Awaitable[None]] | None = None
        self.behind: Callable[[str], Awaitable[None]] | None = None
        self.sent: list[NewMessage] = []

    async def send(self, ref: str, message: NewMessage, *, create: NewSession | None = None) -> Receipt:
        if self.before:
            await self.before(ref)
        receipt = await self.host.send(ref, message, create=create)
        self.sent.append(message)
        if self.behind:
            await self.behind(ref)
        return receipt

    async def receipt(self, message_id: str) -> Receipt:
        return await self.host.receipt(message_id)


class Bench:
    """A house, and schedules in it by a clock of their own."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.clock = HandClock()
        self.outcomes: list[str] = []
        self.gate = Gate(house.host)
        self.runner = self.another_runner(self.gate)

    @property
    def timetable(self) -> Any:
        return self.house.line.timetable

    def another_runner(self, gate: Gate) -> Runner:
        """A runner that is not started yet."""
        return Runner(self.timetable, gate, self.house.line.store, clock=self.clock, counted=self.outcomes.append)

    def desk(self) -> Schedules:
        """What doors ask."""
        return Schedules(self.timetable, self.house.host, clock=self.clock, ids=SystemIds(), stir=self.runner.stir)

    async def add(self, cron: str = "* * * * *", **fields: Any) -> ScheduleView:
        """A schedule that makes its own session."""
        create = NewSession(agent="scripted", key="k")
        given = {"session": "k", "text": "tick", "cron": cron, "create": create} | fields
        return await self.desk().add(NewSchedule(**given))

    async def kept(self, schedule: ScheduleView) -> Schedule:
        kept = await self.timetable.schedule(schedule.id)
        assert kept is not None
        return kept

    async def over(self, schedule: ScheduleView, runs: int) -> Schedule:
        """The schedule, once so many of its runs are over."""

        async def look() -> Schedule | None:
            kept = await self.kept(schedule)
            return kept if kept.sent + kept.skipped >= runs and kept.begun is None else None

        return await until(look)

    async def answered(self, schedule: ScheduleView, runs: int) -> Schedule:
        """The same, once its last message is answered as well: the next run finds nothing in its way."""
        kept = await self.over(schedule, runs)
        assert kept.last_message_id is not None
        end = await self.house.host.wait_message(kept.last_message_id, 40)
        assert end.ended_at is not None
        return kept

    async def forward(self, ms: int) -> None:
        """Put the clock forward. Who was just about to sleep by it is told to look."""
        await self.clock.forward(ms)
        self.runner.stir()

    async def minute(self) -> None:
        await self.forward(MINUTE)

    async def restart(self) -> None:
        """A crash of the host and of all that runs in it, and the next one's start."""
        await self.runner.stop()
        await self.house.die()
        self.gate = Gate(self.house.host)
        self.runner = self.another_runner(self.gate)
        self.runner.start()

    async def transcript(self) -> list[tuple[str, str]]:
        return [line for line in await self.house.transcript("k") if line[0] == "user"]


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something."""
    async with asyncio.timeout(40):
        while not (found := await look()):  # noqa: ASYNC110  # what is looked at has no event
            await asyncio.sleep(0.01)
    return found


@contextlib.asynccontextmanager
async def benched(shelf: Shelf, workspace: Path) -> AsyncIterator[Bench]:
    house = await House(shelf, str(workspace)).enter()
    bench = Bench(house)
    bench.runner.start()
    try:
        yield bench
    finally:
        await bench.runner.stop()
        await house.leave()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with benched(MemoryShelf(), tmp_path) as bench:
        yield bench


async def test_each_run_sends_one_message_at_its_time_and_says_so(bench: Bench) -> None:
    schedule = await bench.add()
    assert schedule.next_runs[:2] == ("2026-03-02T12:01:00.000Z", "2026-03-02T12:02:00.000Z")
    for runs in (1, 2, 3):
        await bench.minute()
        await bench.answered(schedule, runs)
        assert bench.gate.sent[-1].idempotency_key == f"{schedule.id}:{START + runs * MINUTE}"

    shown = await bench.desk().schedule(schedule.id)
    assert (shown.sent, shown.skipped) == (3, 0)
    assert shown.last_run is not None
    assert (shown.last_run.outcome, shown.last_run.due_at) == ("sent", "2026-03-02T12:03:00.000Z")
    assert len(await bench.transcript()) == 3
    assert bench.outcomes == ["sent"] * 3


async def test_a_message_that_has_not_ended_is_never_followed_by_a_pile(bench: Bench) -> None:
    schedule = await bench.add(text="hold")
    await bench.minute()
    first = await bench.over(schedule, 1)
    assert first.last_message_id is not None
    for runs in (2, 3, 4):
        await bench.minute()
        kept = await bench.over(schedule, runs)
        assert kept.last is not None
        assert kept.last.outcome == "overlapped"
        assert first.last_message_id in (kept.last.detail or "")
    assert len(await bench.transcript()) == 1
    bench.house.agent.release("hold")
    await bench.house.host.wait_message(first.last_message_id, 40)
    await bench.minute()
    assert (await bench.over(schedule, 5)).sent == 2


async def test_or_one_may_wait_behind_one_that_runs(bench: Bench) -> None:
    schedule = await bench.add(text="hold", overlap="queue_one")
    await bench.minute()
    first = await bench.over(schedule, 1)
    assert first.last_message_id is not None
    await until(lambda: running(bench, first.last_message_id or ""))
    for runs in (2, 3, 4):
        await bench.minute()
        await bench.over(schedule, runs)

    assert bench.outcomes == ["sent", "sent", "overlapped", "overlapped"]
    assert len((await bench.house.host.queue("k")).items) == 1
    bench.house.agent.release("hold")


async def running(bench: Bench, message_id: str) -> bool:
    return (await bench.house.host.receipt(message_id)).state == "running"


async def test_what_a_session_refuses_is_told_and_the_next_run_comes(bench: Bench) -> None:
    schedule = await bench.add()
    await bench.minute()
    await bench.answered(schedule, 1)
    await bench.house.host.stop_session("k")
    await bench.minute()
    kept = await bench.over(schedule, 2)
    assert kept.last is not None
    assert (kept.last.outcome, kept.last.message_id) == ("refused", None)
    assert "session_stopped" in (kept.last.detail or "")
    await bench.house.host.resume_session("k")
    await bench.minute()
    assert (await bench.over(schedule, 3)).sent == 2


async def test_trouble_with_one_schedule_is_no_trouble_for_another(bench: Bench) -> None:
    await bench.house.open("stuck")
    good = await bench.add()
    bad = await bench.add(session="stuck")

    async def trouble(ref: str) -> None:
        if ref == "stuck":
            await asyncio.Event().wait()

    bench.gate.before = trouble
    for runs in (1, 2):
        await bench.minute()
        await bench.answered(good, runs)
    assert (await bench.kept(bad)).begun == START + MINUTE
    assert bench.outcomes == ["sent", "sent"]


@pytest.mark.parametrize("error", [StoreUnavailable("The disk is full."), Draining("The host is shutting down.")])
async def test_a_run_that_can_not_be_sent_now_is_sent_later_and_once(bench: Bench, error: Exception) -> None:
    schedule = await bench.add()

    async def refuse(ref: str) -> None:
        raise error

    bench.gate.before = refuse
    await bench.minute()
    begun = await until(lambda: has_begun(bench, schedule))
    assert begun.begun == START + MINUTE
    bench.gate.before = None
    await until(lambda: idle(bench))
    await bench.forward(CLAIM_MS)
    kept = await bench.over(schedule, 1)
    assert kept.last is not None
    assert (kept.last.outcome, kept.last.due_at) == ("sent", START + MINUTE)


async def has_begun(bench: Bench, schedule: ScheduleView) -> Schedule | None:
    kept = await bench.kept(schedule)
    return kept if kept.begun is not None else None


async def idle(bench: Bench) -> bool:
    return not bench.runner._running  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "memory":
        return MemoryShelf()
    if request.param == "sqlite":
        return SqliteShelf(tmp_path)
    server: RealPostgres = request.getfixturevalue("real_postgres")
    return PostgresShelf(server.url)


@pytest.mark.parametrize("when", ["before", "behind"])
async def test_a_host_that_dies_around_a_send_leaves_one_message(shelf: Shelf, tmp_path: Path, when: str) -> None:
    async with benched(shelf, tmp_path) as bench:
        schedule = await bench.add()
        dying = asyncio.Event()

        async def die(ref: str) -> None:
            dying.set()
            await asyncio.Event().wait()

        setattr(bench.gate, when, die)
        await bench.minute()
        async with asyncio.timeout(40):
            await dying.wait()
        await bench.restart()
        assert (await bench.kept(schedule)).begun == START + MINUTE
        await bench.forward(CLAIM_MS)
        kept = await bench.answered(schedule, 1)
        assert kept.last is not None
        assert (kept.last.outcome, kept.sent) == ("sent", 1)
        assert len(await bench.transcript()) == 1
        await bench.minute()
        await bench.over(schedule, 2)
        assert len(await bench.transcript()) == 2


@pytest.mark.parametrize("when", ["before", "behind"])
async def test_of_a_run_that_a_long_gone_host_had_begun_it_is_found_out_whether_it_was_sent(
    bench: Bench, when: str
) -> None:
    schedule = await bench.add(cron="1 * * * *")
    dying = asyncio.Event()

    async def die(ref: str) -> None:
        dying.set()
        await asyncio.Event().wait()

    setattr(bench.gate, when, die)
    await bench.minute()
    async with asyncio.timeout(40):
        await dying.wait()
    await bench.restart()
    await bench.forward(30 * MINUTE)
    kept = await bench.over(schedule, 1)
    assert kept.last is not None
    assert kept.last.outcome == ("missed" if when == "before" else "sent")
    assert (kept.last.message_id is None) is (when == "before")


@pytest.mark.parametrize(("missed", "outcome"), [("skip", "missed"), ("run_once", "sent")])
async def test_runs_that_nobody_was_there_for_follow_the_policy(bench: Bench, missed: str, outcome: str) -> None:
    schedule = await bench.add(cron="0 * * * *", missed=missed)
    await bench.runner.stop()
    await bench.forward(5 * 60 * MINUTE + 30 * MINUTE)
    bench.runner = bench.another_runner(bench.gate)
    bench.runner.start()
    kept = await bench.over(schedule, 5)
    assert kept.last is not None
    assert (kept.last.outcome, kept.sent + kept.skipped) == (outcome, 5)
    assert kept.sent == (1 if outcome == "sent" else 0)
    assert kept.wakes_at == START + 6 * 60 * MINUTE


async def test_several_hosts_send_each_run_once(shelf: Shelf, tmp_path: Path) -> None:
    async with benched(shelf, tmp_path) as bench:
        others = [bench.another_runner(bench.gate) for _ in range(3)]
        for runner in others:
            runner.start()
        schedule = await bench.add()
        for runs in range(1, 6):
            await bench.minute()
            await bench.answered(schedule, runs)
        for runner in others:
            await runner.stop()
        assert len(await bench.transcript()) == 5
        assert bench.outcomes == ["sent"] * 5


async def test_a_paused_schedule_sends_nothing_and_a_removed_one_is_gone(bench: Bench) -> None:
    desk = bench.desk()
    schedule = await bench.add()
    other = await bench.add(cron="* * * * *", text="other")
    assert (await desk.pause(schedule.id)).state == "paused"
    assert (await desk.pause(schedule.id)).next_runs == ()
    for runs in (1, 2):
        await bench.minute()
        await bench.over(other, runs)
    assert (await bench.kept(schedule)).sent == 0
    assert (await desk.resume(schedule.id)).next_runs[0] == "2026-03-02T12:03:00.000Z"
    await bench.minute()
    await bench.over(schedule, 1)
    await desk.remove(schedule.id)
    for ask in (desk.schedule, desk.remove, desk.pause, desk.resume):
        with pytest.raises(NotFound):
            await ask(schedule.id)
    assert [each.id for each in (await desk.schedules()).items] == [other.id]
    assert (await desk.schedules(session="x")).items == ()


async def test_what_can_not_come_true_is_refused_when_it_is_added(bench: Bench) -> None:
    for fields in ({"cron": "0 0 30 2 *"}, {"cron": "x"}, {"time_zone": "Mars/Base"}):
        with pytest.raises(InvalidRequest):
            await bench.add(**fields)
    with pytest.raises(NotFound):
        await bench.add(create=NewSession(agent="nobody", key="k"))
    with pytest.raises(NotFound):
        await bench.add(session="nowhere", create=None)
    assert (await bench.desk().schedules()).items == ()


async def test_a_change_beside_a_run_is_not_lost_and_the_run_is_counted_once(bench: Bench) -> None:
    schedule = await bench.add()

    async def pause(ref: str) -> None:
        await bench.desk().pause(schedule.id)

    bench.gate.behind = pause
    await bench.minute()
    await until(lambda: is_paused(bench, schedule))
    bench.gate.behind = None
    await until(lambda: idle(bench))
    await bench.forward(CLAIM_MS)
    kept = await bench.over(schedule, 1)
    assert (kept.sent, kept.wakes_at, kept.paused_at is None) == (1, None, False)
    assert len(await bench.transcript()) == 1


async def is_paused(bench: Bench, schedule: ScheduleView) -> bool:
    return (await bench.kept(schedule)).paused_at is not None


def test_a_schedule_keeps_what_its_session_is_made_from() -> None:
    made = Schedule(id="s", session="k", text="t", cron="c", time_zone="UTC", created_at=1)
    assert replace(made, create={"agent": "echo", "labels": {"a": "b"}}).create == {
        "agent": "echo",
        "labels": {"a": "b"},
    }
