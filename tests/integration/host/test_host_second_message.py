"""A second message while a turn runs: what is refused changes nothing, what is accepted is answered in its order."""

import asyncio

import pytest

from antiphon.core import errors
from antiphon.core.decide import Rules
from antiphon.core.session import Session
from antiphon.host.service import NewSession
from antiphon.host.views import Receipt
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import Fail, Hold, Say
from hostlab.house import WAIT_S, House, holds


def idle(session: Session) -> bool:
    return session.running is None and not session.inbox


async def refused(house: House, ref: str, text: str) -> errors.Busy:
    with pytest.raises(errors.Busy) as error:
        await house.send(ref, text, when_busy="refuse")
    return error.value


async def test_hundreds_of_refusals_leave_the_turn_its_waiters_the_queue_and_the_transcript_alone(house: House) -> None:
    """relay#452"""
    session_id = await house.open()
    first = await house.hold("k", "hold A")
    waiters = [asyncio.ensure_future(house.end_of(first)) for _ in range(3)]
    queued = await house.send("k", "B")
    before = await house.types(session_id)

    async def pester(number: int) -> list[errors.Busy]:
        return [await refused(house, "k", f"no {number}.{again}") for again in range(60)]

    refusals = [error for each in await asyncio.gather(*[pester(number) for number in range(5)]) for error in each]
    assert len(refusals) == 300
    assert {error.ids["holder"]["turn_id"] for error in refusals} == {first.turn_id}
    assert await house.types(session_id) == before
    assert house.conversation().cancels == []
    house.agent.release("hold A")
    async with asyncio.timeout(WAIT_S):
        answers = await asyncio.gather(*waiters)
    assert [(answer.state, answer.reply) for answer in answers] == [("answered", "so far answer to hold A")] * 3
    assert (await house.end_of(queued)).reply == "answer to B"
    assert await house.transcript("k") == [
        ("user", "hold A"),
        ("assistant", "so far answer to hold A"),
        ("user", "B"),
        ("assistant", "answer to B"),
    ]
    assert house.prompts() == ["hold A", "B"]


async def test_three_first_messages_to_a_key_at_once_make_one_session_and_are_answered_in_their_order(
    house: House,
) -> None:
    """openclaw#99048"""
    receipts = await asyncio.gather(*[house.send("new", text, create=True) for text in ("1", "2", "3")])
    ends = await house.ends_of(receipts)
    assert [end.reply for end in ends] == ["answer to 1", "answer to 2", "answer to 3"]
    assert len({end.session_id for end in ends}) == 1
    entries = await house.line.store.entries(ends[0].session_id, after=0, limit=100)
    accepted = [entry.message_id for entry in entries if entry.type == "message.accepted"]
    ended = [entry.message_id for entry in entries if entry.type == "message.ended"]
    assert ended == accepted
    assert set(accepted) == {end.id for end in ends}
    assert await house.line.store.count() == 1


async def test_creations_of_a_key_that_race_with_sends_to_it_give_one_session_and_every_send_succeeds(
    house: House,
) -> None:
    """openclaw#99197, openclaw#100352"""

    async def create() -> bool:
        _, made = await house.host.create_session(NewSession(agent="scripted", key="new"), return_existing=True)
        return made

    async def send(number: int) -> Receipt:
        return await house.end_of(await house.send("new", str(number), create=True))

    outcomes = await asyncio.gather(*[send(number) if number % 2 else create() for number in range(12)])
    ends = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    assert [end.reply for end in ends] == [f"answer to {number}" for number in range(1, 12, 2)]
    assert len({end.session_id for end in ends}) == 1
    assert outcomes.count(True) <= 1
    assert await house.line.store.count() == 1


async def test_a_message_sent_during_a_long_turn_gets_its_own_answer_exactly_once(house: House) -> None:
    """opencode#46842"""
    session_id = await house.open()
    first = await house.hold("k", "hold A")
    second = await house.send("k", "B")
    assert (second.state, second.position) == ("queued", 1)
    assert first.turn_id is not None
    assert first.turn_id in (second.waiting_for or "")
    house.agent.release("hold A")
    ends = await house.ends_of([first, second])
    assert [end.reply for end in ends] == ["so far answer to hold A", "answer to B"]
    assert len({end.turn_id for end in ends}) == 2
    assert (await house.types(session_id)).count("message.ended") == 2


async def test_a_message_to_a_session_at_rest_starts_a_turn_without_another_trigger(house: House) -> None:
    """opencode#32010"""
    session_id = await house.open()
    async with asyncio.timeout(1):
        assert (await house.ask("k", "A")).state == "answered"
    house.actor(session_id).let_go()
    await house.until_away(session_id)
    async with asyncio.timeout(1):
        assert (await house.ask("k", "B")).reply == "answer to B"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_message_that_lands_as_a_turn_ends_is_answered_without_another_trigger(house: House, when: str) -> None:
    """software-agent-sdk#3363, openclaw#91909"""
    await house.open()
    late: list[asyncio.Task[Receipt]] = []

    async def send_at_the_end(commit: Commit) -> None:
        if holds(commit, "turn.ended") and not late:
            late.append(asyncio.create_task(house.send("k", "B")))
            await asyncio.sleep(0)

    setattr(house.line, when, send_at_the_end)
    assert (await house.ask("k", "A")).state == "answered"
    assert (await house.end_of(await late[0])).reply == "answer to B"


async def test_a_session_that_shows_no_turn_refuses_no_message_as_busy(house: House) -> None:
    """software-agent-sdk#3842"""
    session_id = await house.open()
    for number in range(20):
        receipt = await house.send("k", str(number), when_busy="refuse")
        await house.until(session_id, idle)
        assert (await house.host.session("k")).status == "idle"
        assert (await house.end_of(receipt)).state == "answered"


async def test_a_turn_that_fails_is_told_to_its_sender_and_the_next_message_runs(house: House) -> None:
    """openclaw#29497, openclaw#5951"""
    house.agent.script = lambda text: [Hold("gate"), Fail("It took too long.")] if text == "A" else [Say(text)]
    await house.open()
    first = await house.send("k", "A")
    second = await house.send("k", "B")
    house.agent.release("gate")
    ends = await house.ends_of([first, second])
    assert [(end.state, end.reply) for end in ends] == [("failed", None), ("answered", "B")]
    assert ends[0].error is not None
    assert ends[0].error.detail == "It took too long."


async def test_of_three_rollbacks_only_the_last_ones_turn_stays_in_the_transcript(house: House) -> None:
    """langgraphjs#864"""
    await house.open()
    first = await house.hold("k", "hold 1", when_busy="rollback")
    second = await house.hold("k", "hold 2", when_busy="rollback")
    third = await house.send("k", "3", when_busy="rollback")
    ends = await house.ends_of([first, second, third])
    assert [end.state for end in ends] == ["cancelled", "cancelled", "answered"]
    assert await house.transcript("k") == [("user", "3"), ("assistant", "answer to 3")]


async def test_a_withdrawn_message_comes_back_under_its_key_as_itself_and_under_a_new_key_as_another(
    house: House,
) -> None:
    """openclaw#115888"""
    await house.open()
    held = await house.hold("k")
    withdrawn = await house.send("k", "B", idempotency_key="i", digest="d")
    assert (await house.host.withdraw_message(withdrawn.id)).state == "withdrawn"
    again = await house.send("k", "B", idempotency_key="i", digest="d")
    assert (again.id, again.state) == (withdrawn.id, "withdrawn")
    new = await house.send("k", "B", idempotency_key="i2", digest="d")
    house.agent.release("hold")
    await house.ends_of([held, new])
    assert house.prompts() == ["hold", "B"]


async def test_an_overflowing_queue_neither_drops_nor_counts_what_is_in_flight(house: House) -> None:
    """openclaw#103246"""
    await house.change(rules=Rules(queue_max=2))
    await house.open()
    held = await house.hold("k")
    queued = [await house.send("k", text) for text in "BC"]
    for _ in range(20):
        with pytest.raises(errors.QueueFull) as full:
            await house.send("k", "D")
        assert full.value.retry_after_s
    house.agent.release("hold")
    assert [end.state for end in await house.ends_of([held, *queued])] == ["answered"] * 3
    assert house.prompts() == ["hold", "B", "C"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_steer_that_is_accepted_as_the_answer_drains_is_answered(house: House, when: str) -> None:
    """openclaw#125035"""
    await house.open()
    late: list[asyncio.Task[Receipt]] = []

    async def steer_at_the_end(commit: Commit) -> None:
        if holds(commit, "turn.ended") and not late:
            late.append(asyncio.create_task(house.send("k", "B", when_busy="steer")))
            await asyncio.sleep(0)

    first = await house.hold("k")
    setattr(house.line, when, steer_at_the_end)
    house.agent.release("hold")
    assert (await house.end_of(first)).state == "answered"
    end = await house.end_of(await late[0])
    assert end.state == "answered"
    assert "answer to B" in (end.reply or "")


async def test_a_parked_steer_runs_before_what_came_after_it(house: House) -> None:
    """openclaw#119794"""
    house.agent.capabilities = type(house.agent.capabilities)(interrupt=True)
    await house.open()
    held = await house.hold("k")
    steer = await house.send("k", "A", when_busy="steer")
    after = await house.send("k", "B")
    assert [steer.position, after.position] == [1, 2]
    house.agent.release("hold")
    await house.ends_of([held, steer, after])
    assert house.prompts() == ["hold", "A", "B"]


async def test_a_turn_asked_for_during_a_turn_is_a_real_one_or_a_typed_refusal(house: House) -> None:
    """t3code#5795, adk-python#1733"""
    session_id = await house.open()
    first = await house.hold("k", "hold A")
    second = await house.send("k", "B")
    assert second.turn_id is None
    await refused(house, "k", "C")
    house.agent.release("hold A")
    ends = await house.ends_of([first, second])
    turns = (await house.host.turns("k")).items
    assert [turn.id for turn in turns] == [end.turn_id for end in ends]
    types = [type for type in await house.types(session_id) if type in {"turn.started", "turn.ended"}]
    assert types == ["turn.started", "turn.ended"] * 2


async def test_a_limit_of_sessions_refuses_new_ones_and_the_others_go_on(house: House) -> None:
    """hermes-agent#95732"""
    await house.change(max_sessions=2)
    await house.open("one")
    await house.open("two")
    for attempt in (house.open("three"), house.send("three", "A", create=True)):
        with pytest.raises(errors.SessionLimit) as limit:
            await attempt
        assert limit.value.retry_after_s
    assert (await house.ask("two", "B")).state == "answered"
    await house.host.delete_session("one")
    assert (await house.end_of(await house.send("three", "A", create=True))).state == "answered"


async def test_callers_at_once_are_all_answered_or_refused_with_a_code(house: House) -> None:
    """openclaw#69112"""
    await house.open()

    async def call(number: int) -> str:
        try:
            return (await house.ask("k", str(number), when_busy="refuse" if number % 2 else "queue")).state
        except errors.Busy as busy:
            return busy.code

    outcomes = await asyncio.gather(*[call(number) for number in range(12)])
    assert outcomes[::2] == ["answered"] * 6
    assert set(outcomes[1::2]) <= {"answered", "session_busy"}


async def test_more_sessions_than_agents_may_run_wait_for_a_place_and_none_is_dropped(house: House) -> None:
    """hermes-agent#95732"""
    await house.change(max_agents=1)
    for key in "abc":
        await house.open(key)
    held = await house.hold("a")
    parked = [await house.send(key, "B") for key in "bc"]
    for receipt in parked:
        now = await house.host.receipt(receipt.id)
        assert (now.state, now.position) == ("queued", 1)
        assert "1 of 1 are in use" in (now.waiting_for or "")
    assert (await house.host.status()).agents_open == 1
    house.agent.release("hold")
    assert [end.state for end in await house.ends_of([held, *parked])] == ["answered"] * 3


async def test_a_host_that_is_told_to_stop_while_it_stops_stops_once_for_both(house: House) -> None:
    await house.open()
    held = await house.hold("k")
    go_on = asyncio.Event()

    async def slowly(commit: Commit) -> None:
        if holds(commit, "turn.ended"):
            await go_on.wait()

    house.line.before = slowly
    async with asyncio.timeout(2 * WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(house.host.stop())
        while not house.host._closing:  # pyright: ignore[reportPrivateUsage]  # it does not wait for turns any more
            await house.clock.sleep(0.1)
        group.create_task(house.host.stop())
        await asyncio.sleep(0)  # so far it has come
        go_on.set()
    assert (await house.host.receipt(held.id)).state == "interrupted"


async def test_a_turn_whose_start_is_being_written_when_the_host_stops_may_end(house: House) -> None:
    await house.open()
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(commit: Commit) -> None:
        if holds(commit, "turn.started"):
            writing.set()
            await go_on.wait()

    house.line.before = slowly
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        sending = group.create_task(house.send("k", "A"))
        await writing.wait()
        group.create_task(house.host.stop())
        await asyncio.sleep(0)  # so far it has come
        go_on.set()
    end = await house.host.receipt(sending.result().id)
    assert (end.state, end.reply) == ("answered", "answer to A")


async def test_a_host_that_drains_takes_nothing_new_and_lets_what_runs_end(house: House) -> None:
    await house.open()
    held = await house.hold("k")
    queued = await house.send("k", "B")
    house.host.drain()
    with pytest.raises(errors.Draining) as draining:
        await house.send("k", "C")
    assert draining.value.retry_after_s
    house.agent.release("hold")
    assert (await house.end_of(held)).state == "answered"
    now = await house.host.receipt(queued.id)
    assert (now.state, now.waiting_for) == ("queued", "the host to start again: it is shutting down")
    await house.change()
    assert (await house.end_of(queued)).reply == "answer to B"
    assert house.prompts() == ["hold", "B"]
