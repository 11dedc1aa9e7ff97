"""Each answer belongs to its message, and each message is one, however often it comes."""

import asyncio

import pytest

from antiphon.core import errors
from antiphon.host.views import Receipt
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import AnswerLate, Hold, Say, SayAfterEnd
from hostlab.house import WAIT_S, House, holds


async def test_the_end_of_a_cancelled_turn_is_not_taken_for_the_end_of_the_next(house: House) -> None:
    """claude-agent-acp#551"""

    def late_talker(text: str) -> list[AnswerLate | Say | SayAfterEnd | Hold]:
        if text == "B":
            return [Say("answer to B")]
        return [Say("so far "), AnswerLate((Say("late "),)), SayAfterEnd("later"), Hold("never")]

    house.agent.script = late_talker
    session_id = await house.open()
    first = await house.hold("k", "A")
    assert first.turn_id is not None
    cancelled, second = await asyncio.gather(house.host.cancel_turn(first.turn_id), house.send("k", "B"))
    assert (cancelled.state, cancelled.confirmed) == ("cancelled", True)
    ends = await house.ends_of([first, second])
    assert [(end.state, end.reply) for end in ends] == [("cancelled", "so far "), ("answered", "answer to B")]
    types = await house.types(session_id)
    assert types.count("turn.ended") == types.count("turn.started") == 2


async def test_one_key_sent_four_times_at_once_and_again_later_is_one_turn_and_one_receipt(house: House) -> None:
    """openclaw#19226, openclaw#126680"""

    async def send() -> Receipt:
        return await house.send("k", "hold A", create=True, idempotency_key="i", digest="d")

    receipts = await asyncio.gather(*[send() for _ in range(4)])
    await house.until(receipts[0].session_id, lambda session: session.running and session.running.touched)
    receipts.append(await send())
    house.agent.release("hold A")
    receipts.append(await house.end_of(receipts[0]))
    receipts.append(await send())
    await house.die()
    receipts.append(await send())
    assert len({receipt.id for receipt in receipts}) == 1
    assert {receipt.reply for receipt in receipts[-3:]} == {"so far answer to hold A"}
    assert house.prompts() == ["hold A"]


@pytest.mark.parametrize("written", [True, False])
async def test_a_sender_whose_response_was_lost_finds_its_message_again(house: House, written: bool) -> None:
    """openclaw#129793"""
    await house.open()
    doubts = 0

    async def lose(commit: Commit) -> None:
        nonlocal doubts
        if holds(commit, "message.accepted") and not doubts:
            doubts += 1
            raise errors.StoreUnavailable("The connection is lost.", in_doubt=True)

    setattr(house.line, "after" if written else "before", lose)
    receipt = await house.send("k", "A", idempotency_key="i", digest="d")
    again = await house.send("k", "A", idempotency_key="i", digest="d")
    assert doubts == 1
    assert again.id == receipt.id
    with pytest.raises(errors.KeyReused):
        await house.send("k", "B", idempotency_key="i", digest="other")
    assert (await house.end_of(receipt)).reply == "answer to A"
    assert house.prompts() == ["A"]


async def test_a_sender_that_left_in_the_middle_of_the_answer_is_attached_again_by_its_key(house: House) -> None:
    """goose#7834"""
    await house.open()
    first = await house.hold("k", "hold A", idempotency_key="i", digest="d")
    left = asyncio.ensure_future(house.host.wait_message(first.id, WAIT_S))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait([left], timeout=WAIT_S)
    again = await house.send("k", "hold A", idempotency_key="i", digest="d")
    assert (again.id, again.state, again.reply) == (first.id, "running", "so far ")
    house.agent.release("hold A")
    assert (await house.end_of(again)).reply == "so far answer to hold A"
    assert house.prompts() == ["hold A"]


async def test_a_turn_interrupted_before_it_spoke_has_no_answer(house: House) -> None:
    """openclaw#50145"""
    house.agent.script = lambda text: [Hold("gate")] if text == "silent" else [Say(f"answer to {text}")]
    await house.open()
    await house.ask("k", "the one before")
    silent = await house.send("k", "silent")
    await house.until(silent.session_id, lambda session: house.prompts()[-1] == "silent")
    newest = await house.send("k", "newest", when_busy="interrupt")
    ends = await house.ends_of([silent, newest])
    assert [(end.state, end.reply) for end in ends] == [("cancelled", None), ("answered", "answer to newest")]


async def test_a_turn_that_the_agent_began_by_itself_is_shown_ends_and_answers_nobody(house: House) -> None:
    """agent-of-empires#2326"""
    session_id = await house.open()
    answered = await house.ask("k", "A")
    house.conversation().begin("turn_own", Say("the task "), Hold("task"), Say("is done"))
    await house.until(session_id, lambda session: session.running and session.running.touched)
    assert (await house.host.session("k")).turn_id == "turn_own"
    house.agent.release("task")
    await house.until(session_id, lambda session: session.turns == 2 and session.running is None)
    own = await house.host.turn("turn_own")
    assert (own.state, own.origin, own.message_ids, own.reply) == ("completed", "agent", (), "the task is done")
    assert await house.host.receipt(answered.id) == answered
    assert (await house.host.session("k")).status == "idle"
    assert (await house.ask("k", "B")).reply == "answer to B"
    assert house.prompts() == ["A", "B"]


async def test_a_wake_up_and_a_message_in_the_same_moment_are_two_turns_of_one_agent(house: House) -> None:
    """hermes-agent#45682"""
    await house.open()
    await house.ask("k", "A")
    house.conversation().begin("turn_own", Say("awake"))
    end = await house.ask("k", "B")
    assert (end.state, end.reply) == ("answered", "answer to B")
    assert len(house.agent.conversations) == 1
    assert house.prompts() == ["A", "B"]


async def test_an_answered_message_does_not_run_again_when_its_idle_agent_is_let_go(house: House) -> None:
    """nanoclaw#164"""
    session_id = await house.open(settings={"on_crash": "resume"})
    answered = await house.ask("k", "A")
    house.actor(session_id).let_go()
    await house.until_away(session_id)
    await house.die()
    assert await house.host.receipt(answered.id) == answered
    assert (await house.host.session("k")).status == "dormant"
    assert (await house.ask("k", "B")).reply == "answer to B"
    assert house.prompts() == ["A", "B"]
