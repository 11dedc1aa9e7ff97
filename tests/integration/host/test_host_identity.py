"""Messages to a key while others write to its session: what differs never conflicts, who it is always counts."""

import asyncio
from itertools import count

import pytest

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.host.service import NewSession
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import Say
from hostlab.house import House, holds
from hostlab.line import write_beside


async def test_rapid_messages_beside_a_second_writer_are_all_accepted_and_its_metadata_is_kept_field_by_field(
    house: House,
) -> None:
    """openclaw#98672"""
    house.agent.script = lambda text: [Say(f"answer to {text}")]
    numbers, rivals, clears = count(1), list[str](), 0

    async def write(commit: Commit) -> None:
        nonlocal clears
        number = next(numbers)
        if commit.expected == 0 or number % 3:
            return
        changes = {"labels": {f"rival-{number}": "here"}, "settings": {"of rival": number}}
        await write_beside(house.line.store, commit.session.id, c.PatchSession(changes=changes))
        rivals.append(f"rival-{number}")
        if number % 9 == 0:
            clears += 1
            await write_beside(house.line.store, commit.session.id, c.ClearSession())

    house.line.before = write

    async def patch(number: int) -> None:
        await house.host.patch_session("k", {"labels": {f"own-{number}": "here"}}, if_match=None)

    first = await house.send("k", "0", create=True)
    receipts = await asyncio.gather(*[house.send("k", str(number), create=True) for number in range(1, 20)])
    await asyncio.gather(*[patch(number) for number in range(10)])
    ends = await house.ends_of([first, *receipts])
    house.line.before = None
    session = await house.line.store.load(first.session_id)
    assert session is not None
    assert house.line.moved >= len(rivals) > 3
    assert clears >= 1
    assert set(session.labels) == {*rivals, *[f"own-{number}" for number in range(10)]}
    assert session.settings == {"of rival": int(rivals[-1].partition("-")[2])}
    assert session.generation == 1 + clears
    for number, end in enumerate(ends):
        own = f"answer to {number}"
        assert (end.state, end.reply) in {("answered", own), ("cancelled", own), ("cancelled", None)}
    assert sum(end.state == "cancelled" for end in ends) <= clears
    assert (await house.ask("k", "after all")).reply == "answer to after all"


async def test_metadata_written_as_a_message_begins_a_new_generation_is_kept_and_the_generation_begins_once(
    house: House,
) -> None:
    """openclaw#98672"""
    session_id = await house.open(settings={"reset": {"idle_minutes": 5}})
    await house.ask("k", "A")
    house.clock.ahead_ms = 6 * 60_000
    met = 0

    async def write(commit: Commit) -> None:
        nonlocal met
        if holds(commit, "session.cleared") and met < 2:
            met += 1
            await write_beside(house.line.store, session_id, c.PatchSession(changes={"title": f"T{met}"}))

    house.line.before = write
    end = await house.ask("k", "B")
    assert (met, house.line.moved) == (2, 2)
    assert (end.generation, end.reply) == (2, "answer to B")
    view = await house.host.session("k")
    assert (view.title, view.generation, view.settings) == ("T2", 2, {"reset": {"idle_minutes": 5}})


async def test_where_nobody_else_writes_nothing_ever_conflicts(house: House) -> None:
    """openclaw#96698"""

    async def live(key: str) -> None:
        receipts = [await house.send(key, str(number), create=True) for number in range(5)]
        await house.host.patch_session(key, {"title": key}, if_match=None)
        await house.host.clear_session(key)
        await house.ends_of(receipts)

    await asyncio.gather(*[live(f"k{number}") for number in range(8)])
    assert house.line.moved == 0


async def test_a_clear_among_other_writes_is_one_rotation_and_unrelated_writes_stay(house: House) -> None:
    """openclaw#101250"""
    session_id = await house.open()
    held = await house.hold("k")
    written = 0

    async def write(commit: Commit) -> None:
        nonlocal written
        if holds(commit, "session.cleared") and not written:
            written += 1
            await write_beside(house.line.store, session_id, c.PatchSession(changes={"title": "T", "model": "m"}))

    house.line.before = write
    cleared, _ = await asyncio.gather(
        house.host.clear_session("k"), house.host.patch_session("k", {"labels": {"a": "1"}}, if_match=None)
    )
    assert cleared.generation == 2
    assert (await house.end_of(held)).state == "cancelled"
    view = await house.host.session("k")
    assert (view.generation, view.title, view.model, view.labels) == (2, "T", "m", {"a": "1"})
    session = await house.until(session_id, lambda session: not session.running)
    assert session.resume_token is None
    assert (await house.types(session_id)).count("session.cleared") == 1
    assert (await house.ask("k", "B")).generation == 2


async def test_a_session_that_always_moves_is_a_conflict_with_its_name_and_troubles_nobody_else(house: House) -> None:
    """openclaw#99589"""
    await house.change(conflict_attempts=4)
    session_id = await house.open("moving")
    await house.open("still")
    numbers = count(1)

    async def write(commit: Commit) -> None:
        if commit.session.id == session_id:
            changes = {"settings": {"number": next(numbers)}}
            await write_beside(house.line.store, session_id, c.PatchSession(changes=changes))

    house.line.before = write
    for _ in range(2):
        with pytest.raises(errors.Conflict) as conflict:
            await house.send("moving", "A", idempotency_key="i", digest="d")
        assert conflict.value.ids == {"session_id": session_id, "attempts": 4}
        assert "'moving'" in conflict.value.detail
        assert (await house.ask("still", "B")).state == "answered"
    assert next(numbers) == 9
    house.line.before = None
    end = await house.ask("moving", "A", idempotency_key="i", digest="d")
    assert (end.state, end.reply) == ("answered", "answer to A")
    assert (await house.types(session_id)).count("message.accepted") == 1
    assert (await house.host.session("moving")).settings == {"number": 8}


async def test_what_an_agent_says_while_its_session_always_moves_is_written_once_it_rests(house: House) -> None:
    await house.change(conflict_attempts=3)
    session_id = await house.open()
    held = await house.hold("k")
    met = 0

    async def write(commit: Commit) -> None:
        nonlocal met
        if met < 7:
            met += 1
            await write_beside(house.line.store, session_id, c.PatchSession(changes={"title": str(met)}))

    house.line.before = write
    house.agent.release("hold")
    assert (await house.end_of(held)).reply == "so far answer to hold"
    assert met == 7
    assert (await house.host.session("k")).title == "7"


async def test_upkeep_in_the_background_makes_no_message_stale(house: House) -> None:
    """adk-python#5194"""
    await house.change(agent_idle_s=0.0, awake_idle_s=0.0)
    session_id = await house.open()
    for number in range(8):
        assert (await house.ask("k", str(number))).reply == f"answer to {number}"
        if number % 2:
            await house.until_away(session_id)
    assert house.line.moved == 0
    assert house.prompts() == [str(number) for number in range(8)]


async def test_a_message_to_a_key_whose_session_is_deleted_in_the_same_moment_makes_a_new_one(house: House) -> None:
    session_id = await house.open()
    deleted = False

    async def delete(commit: Commit) -> None:
        nonlocal deleted
        if holds(commit, "message.accepted") and not deleted:
            deleted = True
            await write_beside(house.line.store, session_id, c.DeleteSession())

    house.line.before = delete
    end = await house.end_of(await house.send("k", "A", create=True))
    assert end.session_id != session_id
    assert (end.state, end.session_key, end.generation) == ("answered", "k", 1)
    deleted, session_id = False, end.session_id
    with pytest.raises(errors.NotFound) as gone:
        await house.send("k", "B")
    assert gone.value.code == "session_not_found"


async def test_a_message_sent_as_the_session_is_cleared_runs_in_the_new_generation(house: House) -> None:
    """openclaw#101250"""
    session_id = await house.open()
    await house.ask("k", "A")
    cleared = False

    async def clear(commit: Commit) -> None:
        nonlocal cleared
        if holds(commit, "message.accepted") and not cleared:
            cleared = True
            await write_beside(house.line.store, session_id, c.ClearSession())

    house.line.before = clear
    end = await house.ask("k", "B")
    assert (end.state, end.generation) == ("answered", 2)
    assert await house.transcript("k") == [("user", "B"), ("assistant", "answer to B")]
    assert house.conversation().spec.generation == 2


async def test_an_edit_meant_for_another_revision_is_refused_and_one_without_a_revision_wins_its_own_field(
    house: House,
) -> None:
    session_id = await house.open(title="before")
    seen = (await house.host.session("k")).revision
    await write_beside(house.line.store, session_id, c.PatchSession(changes={"model": "m"}))
    with pytest.raises(errors.PreconditionFailed):
        await house.host.patch_session("k", {"title": "stale"}, if_match=seen)
    view = await house.host.patch_session("k", {"title": "last"}, if_match=None)
    assert (view.title, view.model) == ("last", "m")


async def test_a_key_is_taken_by_one_session_whoever_asks_for_it_at_once(house: House) -> None:
    """openclaw#99197"""

    async def create() -> str:
        try:
            view, _ = await house.host.create_session(NewSession(agent="scripted", key="k"), return_existing=False)
        except errors.Exists as taken:
            return taken.ids["session_id"]
        return view.id

    assert len(set(await asyncio.gather(*[create() for _ in range(10)]))) == 1
    assert await house.line.store.count() == 1
