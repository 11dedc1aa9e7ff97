"""What a queued message is said to wait for is what it waits for."""

import asyncio
from typing import Any

from antiphon.host.views import Receipt
from antiphon.testing.scripted_agent import Ask, Hold, IgnoreCancel, Say, ScriptedConversation
from hostlab.stage import Awkward, Stage, in_virtual_time, staged


async def told(stage: Stage, receipt: Receipt) -> tuple[str | None, int | None]:
    """What its receipt says, and what the queue's page says of it: the same."""
    now = await stage.host.receipt(receipt.id)
    page = await stage.host.queue(receipt.session_id)
    (queued,) = [item for item in page.items if item.id == receipt.id]
    assert (queued.waiting_for, queued.position) == (now.waiting_for, now.position)
    return now.waiting_for, now.position


@in_virtual_time
async def test_behind_a_turn_it_waits_for_that_turn_to_end() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        first, second, third = [await stage.send("k", text) for text in "abc"]
        assert await told(stage, first) == (f"turn {held.turn_id} to end", 1)
        assert await told(stage, second) == (f"turn {held.turn_id} to end, and 1 message ahead of it", 2)
        assert await told(stage, third) == (f"turn {held.turn_id} to end, and 2 messages ahead of it", 3)


@in_virtual_time
async def test_behind_a_cancelled_turn_it_waits_for_that_turn_to_stop() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Say("so far"), IgnoreCancel(), Hold("never")]
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        assert held.turn_id is not None
        cancelling = asyncio.ensure_future(stage.host.cancel_turn(held.turn_id))
        await asyncio.sleep(0.2)
        assert await told(stage, queued) == (f"turn {held.turn_id} to stop", 1)
        await cancelling


@in_virtual_time
async def test_behind_a_question_it_waits_for_its_answer() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Ask("May I?")]
        asking = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        (asked,) = (await stage.host.permissions(state="pending")).items
        why = f"turn {asking.turn_id}, which waits for an answer to permission {asked.id}"
        assert await told(stage, queued) == (why, 1)


@in_virtual_time
async def test_in_a_stopped_session_it_waits_for_the_resume() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        await stage.host.stop_session("k")
        assert await told(stage, queued) == (f"session {held.session_id} was stopped: resume it", 1)


@in_virtual_time
async def test_without_a_place_it_waits_for_one_and_the_count_is_true() -> None:
    async with staged(max_agents=2) as stage:
        for key in ("a", "b", "c"):
            await stage.open(key)
        await stage.hold("a", "hold a")
        await stage.hold("b", "hold b")
        queued, behind = await stage.send("c", "queued"), await stage.send("c", "behind")
        assert await told(stage, queued) == ("a place for its agent: 2 of 2 are in use", 1)
        assert await told(stage, behind) == (f"message {queued.id} and what runs before it (1 ahead)", 2)
        stage.agent.release("hold a")
        assert (await stage.end_of(behind.id)).state == "answered"


@in_virtual_time
async def test_while_its_agent_is_woken_it_waits_for_it_to_be_up() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.host.stop_session("k")
        stage.agent.opening.clear()
        await stage.host.resume_session("k")
        await asyncio.sleep(0.1)
        queued = await stage.send("k", "queued")
        assert await told(stage, queued) == ("its agent to be up", 1)
        stage.agent.opening.set()
        assert (await stage.end_of(queued.id)).state == "answered"


@in_virtual_time
async def test_after_a_clear_it_waits_for_the_old_agent_to_be_gone() -> None:
    gate = asyncio.Event()

    async def slow_close(conversation: ScriptedConversation, patience_s: float) -> Any:
        await gate.wait()
        await conversation.close(patience_s)

    async with staged(Awkward(close=slow_close)) as stage:
        await stage.open(agent="awkward")
        await stage.ask("k", "first")
        await stage.host.clear_session("k")
        queued = await stage.send("k", "queued")
        assert await told(stage, queued) == ("the agent's last process to be gone", 1)
        gate.set()
        assert (await stage.end_of(queued.id)).generation == 2


@in_virtual_time
async def test_while_the_host_goes_down_it_waits_for_the_next_start() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        stage.host.drain()
        stage.agent.release("hold")
        await stage.end_of(held.id)
        assert await told(stage, queued) == ("the host to start again: it is shutting down", 1)
