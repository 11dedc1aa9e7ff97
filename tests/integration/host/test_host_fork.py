"""A session that begins where a turn of another one ended: with its transcript, on an agent that remembers it."""

import pytest

from antiphon.core import errors
from antiphon.ports.agent import Capabilities
from hostlab.house import House

FORKING = Capabilities(interrupt=True, resume=True, fork=True)


async def fork(house: House, ref: str = "k", **which: str | None) -> str:
    fields = {"turn_id": None, "key": None, "title": None} | which
    return (await house.host.fork_session(ref, **fields)).id


async def test_a_fork_has_the_transcript_up_to_its_turn_and_begins_there(house: House) -> None:
    house.agent.capabilities = FORKING
    await house.open(settings={"x": 1}, title="T")
    first, second = await house.ask("k", "A"), await house.ask("k", "B")
    copy = await fork(house, turn_id=first.turn_id, key="fork")
    assert await house.transcript("fork") == [("user", "A"), ("assistant", "answer to A")]
    view = await house.host.session("fork")
    assert view.forked_from == {"session_id": first.session_id, "turn_id": first.turn_id}
    assert (view.status, view.title, view.settings, view.queued) == ("dormant", "T", {"x": 1}, 0)
    assert (await house.ask("fork", "C")).reply == "answer to C"
    assert house.conversation().spec.fork_from == f"after {first.turn_id}"
    assert [text for role, text in await house.transcript("k") if role == "user"] == ["A", "B"]
    assert (await house.host.receipt(second.id)).state == "answered"
    await house.die()
    assert (await house.ask("fork", "D")).state == "answered"
    entries = await house.line.store.entries(copy, after=0, limit=1000)
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))


async def test_what_waited_behind_the_turn_is_not_part_of_the_fork_and_a_pause_neither(house: House) -> None:
    house.agent.capabilities = FORKING
    await house.open()
    held = await house.hold("k")
    await house.send("k", "B")
    await house.host.pause_queue("k")
    house.agent.release("hold")
    await house.end_of(held)
    await fork(house, key="fork", title="another")
    view = await house.host.session("fork")
    assert (view.queued, view.paused_at, view.title) == (0, None, "another")
    assert [text for role, text in await house.transcript("fork") if role == "user"] == ["hold"]
    assert (await house.ask("fork", "C")).state == "answered"
    assert (await house.host.session("k")).queued == 1


async def test_a_fork_of_a_fork_can_begin_before_the_fork(house: House) -> None:
    house.agent.capabilities = FORKING
    await house.open()
    first = await house.ask("k", "A")
    await house.ask("k", "B")
    await fork(house, key="one")
    turns = (await house.host.turns("one")).items
    await fork(house, "one", turn_id=turns[0].id, key="two")
    await house.ask("two", "C")
    assert house.conversation().spec.fork_from == f"after {first.turn_id}"
    assert [text for role, text in await house.transcript("two") if role == "user"] == ["A", "C"]


async def test_a_clear_of_a_fork_begins_with_nothing(house: House) -> None:
    house.agent.capabilities = FORKING
    await house.open()
    await house.ask("k", "A")
    await fork(house, key="fork")
    await house.host.clear_session("fork")
    await house.ask("fork", "B")
    assert house.conversation().spec.fork_from is None


async def test_a_place_from_which_no_session_can_begin_is_refused_and_says_why(house: House) -> None:
    await house.open()
    await house.ask("k", "A")
    with pytest.raises(errors.ForkUnavailable) as unable:
        await fork(house)
    assert "can't begin a conversation" in unable.value.detail
    house.agent.capabilities = FORKING
    held = await house.hold("k")
    with pytest.raises(errors.ForkUnavailable) as running:
        await fork(house, turn_id=held.turn_id)
    assert "is running" in running.value.detail
    await house.host.cancel_turn(held.turn_id or "")
    with pytest.raises(errors.ForkUnavailable):
        await fork(house, turn_id=held.turn_id)
    await house.open("other")
    with pytest.raises(errors.NotFound):
        await fork(house, "other", turn_id=held.turn_id)
    with pytest.raises(errors.ForkUnavailable):
        await fork(house, "other")
    with pytest.raises(errors.Exists):
        await fork(house, key="other")
