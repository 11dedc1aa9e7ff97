"""The queue in a person's hands: paused, reordered, edited, cancelled, over restarts; places that are shared fairly."""

import asyncio

import pytest

from antiphon.core.session import Deadline
from antiphon.testing.scripted_agent import Hold, IgnoreCancel, Say
from hostlab.house import House


async def test_a_paused_queue_takes_messages_and_starts_none_until_it_goes_on_also_after_restarts(house: House) -> None:
    session_id = await house.open()
    held = await house.hold("k")
    view = await house.host.pause_queue("k")
    assert view.paused_at is not None
    queued = await house.send("k", "queued")
    assert "its queue was paused" in (queued.waiting_for or "")
    house.agent.release("hold")
    assert (await house.end_of(held)).state == "answered", "what runs goes on"
    await house.until(session_id, lambda session: session.running is None)
    assert (await house.host.session("k")).status == "idle"
    free = await house.send("k", "free", when_busy="refuse")
    assert free.state == "queued", "it is not busy"
    await house.die()
    await house.change()
    for receipt in (queued, free):
        now = await house.host.receipt(receipt.id)
        assert now.state == "queued"
        assert "its queue was paused" in (now.waiting_for or "")
    shown = await house.host.session("k")
    assert (shown.paused_at, shown.queued) == (view.paused_at, 2)
    assert (await house.host.continue_queue("k")).paused_at is None
    assert [end.reply for end in await house.ends_of([queued, free])] == ["answer to queued", "answer to free"]
    types = await house.types(session_id)
    assert (types.count("queue.paused"), types.count("queue.continued")) == (1, 1)


async def test_what_waits_is_listed_edited_moved_and_taken_back_while_the_queue_is_paused(house: House) -> None:
    await house.open()
    await house.host.pause_queue("k")
    a, b, c, d = [await house.send("k", text) for text in "abcd"]
    await house.host.edit_message(b.id, text="better", when_busy=None)
    await house.host.edit_message(d.id, text=None, when_busy="interrupt")
    await house.host.withdraw_message(c.id)
    page = await house.host.reorder("k", (b.id, d.id, a.id))
    assert [(item.id, item.position) for item in page.items] == [(b.id, 1), (d.id, 2), (a.id, 3)]
    await house.host.continue_queue("k")
    await house.ends_of([a, b, d])
    assert house.prompts() == ["better", "d", "a"]


async def test_an_interrupt_in_a_paused_queue_stops_the_turn_and_waits_like_all_others(house: House) -> None:
    await house.open()
    held = await house.hold("k")
    await house.host.pause_queue("k")
    newest = await house.send("k", "newest", when_busy="interrupt")
    assert (await house.end_of(held)).state == "cancelled"
    assert (await house.host.receipt(newest.id)).state == "queued"
    await house.host.continue_queue("k")
    assert (await house.end_of(newest)).state == "answered"


async def test_deadlines_and_senders_are_kept_over_a_restart(house: House) -> None:
    await house.open()
    await house.host.pause_queue("k")
    kept = await house.send("k", "a", sender="ann", deadline=Deadline(total_ms=3_600_000))
    late = await house.send("k", "b", deadline=Deadline(waiting_ms=60_000))
    store = await house.fall()
    house.clock.ahead_ms += 120_000
    await house.begin(store)
    end = await house.end_of(late)
    assert (end.state, end.error and end.error.code) == ("failed", "deadline_exceeded")
    now = await house.host.receipt(kept.id)
    assert (now.state, now.sender, now.deadline_at) == ("queued", "ann", kept.deadline_at)
    await house.host.continue_queue("k")
    assert (await house.end_of(kept)).state == "answered"
    assert (await house.types(kept.session_id)).count("message.ended") == 2


async def test_who_left_a_shared_turn_keeps_the_part_of_the_answer_that_was_said(house: House) -> None:
    house.agent.script = lambda text: [Say("one "), Hold("gate"), Say("two")]
    session_id = await house.open(settings={"collect_quiet_s": 0.2})
    first, second = [await house.send("k", text, when_busy="collect") for text in "ab"]
    await house.until(session_id, lambda session: session.running and session.running.touched)
    waiting = asyncio.ensure_future(house.end_of(first))
    await asyncio.sleep(0)
    await house.host.cancel_message(first.id)
    assert ((await waiting).state, (await waiting).reply) == ("cancelled", "one ")
    house.agent.release("gate")
    assert (await house.end_of(second)).reply == "one two"
    await house.change()
    assert (await house.host.receipt(first.id)).reply == "one "


# Places


async def test_a_session_with_a_long_queue_makes_room_after_each_turn_for_one_that_waits(house: House) -> None:
    await house.change(max_agents=1)
    for key in "ab":
        await house.open(key)
    held = await house.hold("a")
    long = [await house.send("a", f"a{number}") for number in range(3)]
    short = [await house.send("b", f"b{number}") for number in range(2)]
    house.agent.release("hold")
    ends = await house.ends_of([held, *long, *short])
    assert {end.state for end in ends} == {"answered"}
    assert house.prompts() == ["hold", "b0", "a0", "b1", "a1", "a2"]


async def test_a_session_that_nobody_waits_behind_keeps_its_agent_from_turn_to_turn(house: House) -> None:
    await house.change(max_agents=1)
    await house.open()
    await house.ends_of([await house.send("k", f"a{number}") for number in range(4)])
    assert len(house.agent.conversations) == 1


# A stop in good order


@pytest.mark.parametrize(
    ("on_crash", "touched", "state"),
    [
        ("interrupt", False, "interrupted"),
        ("retry_if_untouched", False, "answered"),
        ("retry_if_untouched", True, "interrupted"),
        ("resume", True, "answered"),
    ],
)
async def test_a_shutdown_that_cuts_a_turn_short_goes_by_on_crash(
    house: House, on_crash: str, touched: bool, state: str
) -> None:
    house.agent.script = lambda text: [*([Say("so far ")] if touched else []), Hold("gate"), Say("done")]
    session_id = await house.open(settings={"on_crash": on_crash})
    first = await house.send("k", "A")
    if touched:
        await house.until(session_id, lambda session: session.running and session.running.touched)
    else:
        await house.until(session_id, lambda session: session.running and house.prompts())
    second = await house.send("k", "B")
    await house.change()
    house.agent.release("gate")
    ends = await house.ends_of([first, second])
    assert [end.state for end in ends] == [state, "answered"]
    assert (ends[0].turn_id or "") < (ends[1].turn_id or "")
    assert len(house.prompts()) == (3 if state == "answered" else 2)
    turns = (await house.host.turns("k")).items
    assert turns[0].state == "interrupted"
    assert (await house.types(session_id)).count("message.ended") == 2


async def test_who_cancels_during_a_shutdown_is_not_answered_by_another_try(house: House) -> None:
    house.agent.script = lambda text: [IgnoreCancel(), Hold("gate"), Say("done")]
    session_id = await house.open(settings={"on_crash": "resume"})
    first = await house.send("k", "A")
    await house.until(session_id, lambda session: session.running and house.prompts())
    stopping = asyncio.ensure_future(house.host.stop())
    await house.until(session_id, lambda session: session.running and session.running.cancelling)
    turn_id = (await house.host.receipt(first.id)).turn_id or ""
    assert (await house.host.cancel_turn(turn_id)).confirmed
    await stopping
    await house.begin(house.line.store)
    assert (await house.end_of(first)).state == "interrupted"
    assert house.prompts() == ["A"]
