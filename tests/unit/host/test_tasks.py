import asyncio
import logging

import pytest

from antiphon.core.errors import QueueFull, StoreUnavailable
from antiphon.host.tasks import Tasks


async def test_work_is_finished_though_its_caller_left() -> None:
    tasks, done, gate = Tasks("t"), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await gate.wait()
        done.set()

    caller = asyncio.ensure_future(tasks.finish(work(), "work"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    gate.set()
    async with asyncio.timeout(5):
        await done.wait()
    await tasks.close()


async def test_the_caller_is_told_what_became_of_the_work() -> None:
    tasks = Tasks("t")

    async def succeed() -> int:
        return 7

    async def refuse() -> int:
        raise QueueFull("full")

    assert await tasks.finish(succeed(), "work") == 7
    with pytest.raises(QueueFull):
        await tasks.finish(refuse(), "work")
    await tasks.close()


async def test_a_caller_whose_work_is_cut_short_by_the_end_is_told_that_its_outcome_is_unknown() -> None:
    tasks = Tasks("t")
    caller = asyncio.ensure_future(tasks.finish(asyncio.sleep(60), "work"))
    await asyncio.sleep(0)
    await tasks.close()
    with pytest.raises(StoreUnavailable) as told:
        await caller
    assert told.value.ids["in_doubt"] is True


async def test_an_error_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks, gate = Tasks("t"), asyncio.Event()

    async def break_down() -> None:
        await gate.wait()
        raise RuntimeError("a flaw")

    caller = asyncio.ensure_future(tasks.finish(break_down(), "work"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    with caplog.at_level(logging.ERROR, "antiphon.host"):
        gate.set()
        for _ in range(3):
            await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["a task failed"]
    await tasks.close()


async def test_nothing_is_started_once_the_owner_has_closed() -> None:
    tasks = Tasks("t")
    await tasks.close()
    with pytest.raises(RuntimeError, match="t is closed"):
        tasks.start(asyncio.sleep(0), "late")


async def test_closing_waits_until_all_work_has_ended() -> None:
    tasks, steps = Tasks("t"), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            steps.append("tidied up")

    tasks.start(work(), "work")
    await asyncio.sleep(0)
    await tasks.close()
    assert steps == ["tidied up"]
