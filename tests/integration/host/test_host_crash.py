"""The host dies, or its agent does: what was accepted is kept, what ran is settled, and the next message runs."""

import asyncio

import pytest

from antiphon.core import errors
from antiphon.core.decide import Rules
from antiphon.host.views import Receipt
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import Ask, Die, Hold, IgnoreCancel, Say, UseTool
from hostlab.house import WAIT_S, House

ENDS = {"answered", "interrupted"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("position", range(5))
async def test_a_message_that_was_accepted_survives_a_crash_at_any_commit(
    house: House, position: int, when: str
) -> None:
    """openclaw#138564"""
    reached, commits = asyncio.Event(), 0

    async def stop_here(_commit: Commit) -> None:
        nonlocal commits
        commits += 1
        if commits > position:
            reached.set()
            await asyncio.Event().wait()

    setattr(house.line, when, stop_here)
    accepted: list[Receipt] = []

    async def send_all() -> None:
        for key in "AB":
            receipt = await house.send("k", key, create=True, idempotency_key=key, digest=key)
            accepted.append(receipt)
        await house.ends_of(accepted)
        reached.set()

    sending = asyncio.ensure_future(send_all())
    async with asyncio.timeout(WAIT_S):
        await reached.wait()
    told = list(accepted)
    store = await house.fall()
    sending.cancel()
    await asyncio.wait([sending], timeout=WAIT_S)
    await house.begin(store)
    again = [await house.send("k", key, create=True, idempotency_key=key, digest=key) for key in "AB"]
    assert [one.id for one in again[: len(told)]] == [one.id for one in told]
    ends = await house.ends_of(again)
    assert {end.state for end in ends} <= ENDS
    assert [end.reply for end in ends if end.state == "answered"] == [
        f"answer to {key}" for key, end in zip("AB", ends, strict=True) if end.state == "answered"
    ]
    assert len(set(house.prompts())) == len(house.prompts())
    assert (await house.host.session("k")).status in {"idle", "dormant"}


async def test_a_crash_in_the_middle_of_a_tool_call_ends_tool_and_turn_and_the_queue_drains(house: House) -> None:
    """opencode#19023, opencode#44807, openclaw#106781"""
    house.agent.script = lambda text: (
        [UseTool("shell", (Hold("never"),))] if text == "A" else [Say(f"answer to {text}")]
    )
    session_id = await house.open()
    held = await house.hold("k", "A")
    queued = await house.send("k", "B")
    await house.die()
    ends = await house.ends_of([held, queued])
    assert [(end.state, end.reply) for end in ends] == [("interrupted", None), ("answered", "answer to B")]
    entries = await house.line.store.entries(session_id, after=0, limit=1000)
    tools = [(entry.type, entry.data.get("outcome")) for entry in entries if entry.type.startswith("turn.tool")]
    assert tools == [("turn.tool_started", None), ("turn.tool_ended", "aborted")]
    assert (await house.host.session("k")).status == "idle"
    assert (await house.ask("k", "C")).reply == "answer to C"


async def test_what_a_past_life_left_running_is_over_at_the_start_and_new_messages_run(house: House) -> None:
    """openclaw#98920, deer-flow#1087"""
    keys = [f"k{number}" for number in range(6)]
    for key in keys:
        await house.open(key)
    held = await asyncio.gather(*[house.hold(key, "hold") for key in keys])
    await house.die()
    page = await house.host.sessions()
    assert [(session.status, session.turn_id, session.queued) for session in page.items] == [("dormant", None, 0)] * 6
    assert [(await house.host.receipt(one.id)).state for one in held] == ["interrupted"] * 6
    assert [(await house.host.turn(one.turn_id or "")).state for one in held] == ["interrupted"] * 6
    ends = await asyncio.gather(*[house.ask(key, "B") for key in keys])
    assert [end.reply for end in ends] == ["answer to B"] * 6
    assert house.prompts().count("hold") == 6


@pytest.mark.parametrize("on_crash", ["retry_if_untouched", "resume"])
async def test_a_turn_in_which_nothing_was_heard_runs_again_after_a_crash(house: House, on_crash: str) -> None:
    """openclaw#138564"""
    house.agent.script = lambda text: [Hold("gate"), Say(f"answer to {text}")]
    await house.open(settings={"on_crash": on_crash})
    first = await house.send("k", "A")
    second = await house.send("k", "B")
    await house.until(first.session_id, lambda session: session.running and house.prompts())
    await house.die()
    house.agent.release("gate")
    ends = await house.ends_of([first, second])
    assert [(end.state, end.reply) for end in ends] == [("answered", "answer to A"), ("answered", "answer to B")]


async def test_when_the_tries_run_out_message_and_session_both_leave_the_busy_state(house: House) -> None:
    """aegra#473"""
    await house.change(rules=Rules(attempts_max=3), on_crash="retry_if_untouched")
    house.agent.script = lambda text: [Hold("never")] if text == "A" else [Say(f"answer to {text}")]
    session_id = await house.open()
    poisoned = await house.send("k", "A")
    for attempt in range(1, 4):
        await house.until(session_id, lambda session, attempt=attempt: len(house.prompts()) == attempt)
        await house.die()
    assert (await house.end_of(poisoned)).state == "interrupted"
    assert (await house.host.session("k")).status == "dormant"
    assert (await house.ask("k", "B")).reply == "answer to B"
    assert house.prompts() == ["A"] * 3 + ["B"]


async def test_a_cancel_is_confirmed_once_the_agent_is_gone_and_a_late_result_is_in_no_answer(house: House) -> None:
    """aegra#528, openclaw#14228"""
    house.agent.script = lambda text: (
        [Say("so far "), IgnoreCancel(), Hold("gate"), Say("late result")] if text == "A" else [Say("fresh")]
    )
    session_id = await house.open()
    held = await house.hold("k", "A")
    stubborn = house.conversation()
    cancelling = asyncio.ensure_future(house.host.cancel_turn(held.turn_id or ""))
    await house.until(session_id, lambda session: session.running and session.running.cancelling)
    assert not cancelling.done()
    assert (await house.host.turn(held.turn_id or "")).state == "running"
    async with asyncio.timeout(WAIT_S):
        cancelled = await cancelling
    assert (cancelled.state, cancelled.confirmed) == ("cancelled", True)
    assert stubborn.cancels == [held.turn_id]
    house.agent.release("gate")
    ends = [await house.end_of(held), await house.ask("k", "B")]
    assert [(end.state, end.reply) for end in ends] == [("cancelled", "so far "), ("answered", "fresh")]
    assert house.conversation() is not stubborn


async def test_interrupts_while_the_old_agent_goes_down_wait_for_it_run_the_newest_and_lose_nothing(
    house: House,
) -> None:
    """openclaw#65221"""
    house.agent.script = lambda text: (
        [Say("so far "), IgnoreCancel(), Hold("never")] if text == "old" else [Say(f"answer to {text}")]
    )
    await house.open()
    old = await house.hold("k", "old")
    newer = [await house.send("k", text, when_busy="interrupt") for text in ("2", "3", "4")]
    ends = await house.ends_of([old, *newer])
    assert [end.state for end in ends] == ["cancelled", "answered", "answered", "answered"]
    assert house.prompts() == ["old", "4", "3", "2"]


async def test_an_agent_that_dies_and_can_not_be_started_again_says_why_and_the_next_message_tries_afresh(
    house: House,
) -> None:
    """kandev#3597"""
    house.agent.script = lambda text: [Say("so far "), Die(7)] if text == "A" else [Say(f"answer to {text}")]
    await house.open()
    died = await house.ask("k", "A")
    assert (died.state, died.reply) == ("failed", "so far ")
    assert died.error is not None
    assert died.error.code == "agent_failed"
    house.agent.refusal = "its program is gone"
    failed = await house.ask("k", "B")
    assert failed.state == "failed"
    assert failed.error is not None
    assert (failed.error.code, failed.error.detail) == ("agent_unavailable", "its program is gone")
    assert (await house.host.session("k")).status == "errored"
    house.agent.refusal = None
    assert (await house.ask("k", "C")).reply == "answer to C"
    assert (await house.host.session("k")).status == "idle"


async def test_the_sessions_of_a_host_that_died_are_taken_over_at_once(house: House) -> None:
    """software-agent-sdk#3842 (comment)"""
    await house.open()
    held = await house.hold("k")
    store = await house.fall()
    async with asyncio.timeout(2):
        await house.begin(store)
        assert (await house.end_of(held)).state == "interrupted"
        assert (await house.ask("k", "B")).state == "answered"


async def test_a_question_that_a_crash_left_open_is_over(house: House) -> None:
    """openclaw#98920"""
    house.agent.script = lambda text: [Ask("May I?")] if text == "A" else [Say(f"answer to {text}")]
    session_id = await house.open()
    asking = await house.send("k", "A")
    await house.until(session_id, lambda session: session.permissions)
    [question] = (await house.host.permissions(state="pending")).items
    await house.die()
    assert (await house.host.permissions(state="pending")).items == ()
    with pytest.raises(errors.PermissionAnswered):
        await house.host.answer_permission(question.id, decision="allow", option_id=None, note=None, by=None)
    assert (await house.end_of(asking)).state == "interrupted"
    assert (await house.ask("k", "B")).state == "answered"


async def test_a_host_that_stops_in_good_order_keeps_the_queue_for_the_next(house: House) -> None:
    await house.open()
    held = await house.hold("k")
    queued = await house.send("k", "B")
    await house.change()
    ends = await house.ends_of([held, queued])
    assert [(end.state, end.reply) for end in ends] == [("interrupted", "so far "), ("answered", "answer to B")]
    assert house.prompts() == ["hold", "B"]
