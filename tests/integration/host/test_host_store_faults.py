"""The store is away, in doubt, busy or damaged: it is told as such, nothing is half done, nothing said is lost."""

import asyncio

import pytest

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.ports.store import Commit, StoreDamaged
from antiphon.testing.scripted_agent import Hold, Say
from hostlab.house import WAIT_S, House, holds
from hostlab.line import write_beside
from hostlab.shelves import Shelf


async def away(_commit: Commit) -> None:
    raise errors.StoreUnavailable("The disk is full.", retry_after_s=5)


async def test_a_store_that_is_stuck_says_so_and_what_the_agent_said_meanwhile_is_committed_afterwards(
    house: House,
) -> None:
    """openclaw#99589"""
    await house.open()
    session_id = await house.open("other")
    held = await house.hold("k")
    house.line.before = away
    for key in ("k", "other"):
        with pytest.raises(errors.StoreUnavailable) as stuck:
            await house.send(key, "refused", idempotency_key="i", digest="d")
        assert (stuck.value.code, stuck.value.detail) == ("store_unavailable", "The disk is full.")
    house.agent.release("hold")
    async with asyncio.timeout(WAIT_S):
        while house.conversation().prompts and house.actor(held.session_id).hindrance is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (await house.host.receipt(held.id)).state == "running"
    house.line.before = None
    assert (await house.end_of(held)).reply == "so far answer to hold"
    assert (await house.types(session_id)).count("message.accepted") == 0
    assert (await house.ask("other", "refused", idempotency_key="i", digest="d")).state == "answered"
    assert house.prompts() == ["hold", "refused"]


@pytest.mark.parametrize("written", [True, False])
async def test_a_commit_of_unknown_outcome_is_looked_up_and_done_once(house: House, written: bool) -> None:
    """openclaw#129793"""
    await house.open()
    doubted: set[str] = set()

    async def lose(commit: Commit) -> None:
        kinds = "+".join(entry.type for entry in commit.entries)
        if kinds not in doubted:
            doubted.add(kinds)
            raise errors.StoreUnavailable("The connection is lost.", in_doubt=True)

    setattr(house.line, "after" if written else "before", lose)
    receipts = [await house.send("k", text) for text in "ABC"]
    assert [end.reply for end in await house.ends_of(receipts)] == [f"answer to {text}" for text in "ABC"]
    assert house.prompts() == ["A", "B", "C"]
    assert len(doubted) > 3
    types = await house.types(receipts[0].session_id)
    assert [types.count(kind) for kind in ("message.accepted", "turn.started", "turn.ended")] == [3, 3, 3]


async def test_readers_beside_writers_see_whole_states_that_only_grow(house: House) -> None:
    """openclaw#16516"""
    house.agent.script = lambda _text: [Say(f"{number} ") for number in range(40)]
    session_id = await house.open()
    whole = "".join(f"{number} " for number in range(40))
    reading = True

    async def read() -> int:
        last, looks = 0, 0
        while reading:
            await asyncio.sleep(0)
            session = await house.line.store.load(session_id)
            assert session is not None
            entries = await house.line.store.tail(session_id, before=None, limit=5)
            assert last <= session.sequence <= entries[-1].sequence
            last, looks = session.sequence, looks + 1
            for item in (await house.host.transcript("k")).items:
                assert item.role == "user" or whole.startswith(item.text)
        return looks

    readers = [asyncio.ensure_future(read()) for _ in range(4)]
    for _ in range(5):
        assert (await house.ask("k", "A")).reply == whole
    reading = False
    async with asyncio.timeout(WAIT_S):
        assert all(looks > 0 for looks in await asyncio.gather(*readers))


async def test_no_lock_is_held_over_an_agents_work(house: House) -> None:
    """openclaw#86801"""
    session_id = await house.open()
    await house.open("other")
    held = await house.hold("k")
    async with asyncio.timeout(WAIT_S):
        await write_beside(house.line.store, session_id, c.PatchSession(changes={"title": "T"}))
        assert (await house.ask("other", "B")).state == "answered"
        await house.host.patch_session("k", {"model": "m"}, if_match=None)
    house.agent.release("hold")
    assert (await house.end_of(held)).state == "answered"
    view = await house.host.session("k")
    assert (view.title, view.model) == ("T", "m")


@pytest.mark.parametrize("shelf", ["sqlite", "postgres"], indirect=True)
async def test_a_row_that_can_not_be_read_is_trouble_of_its_session_only_also_over_a_restart(
    house: House, shelf: Shelf
) -> None:
    """openclaw#105578"""
    bad = await house.open("bad")
    await house.open("good")
    held = await house.hold("bad")
    waiting = await house.hold("good", "hold good")
    store = await house.fall()
    await shelf.spoil(bad)
    await house.begin(store)
    assert (await house.end_of(waiting)).state == "interrupted"
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await house.send("bad", "B")
        assert (await house.ask("good", "B")).state == "answered"
    assert [session.key for session in (await house.host.sessions()).items] == ["good"]
    assert (await house.host.receipt(held.id)).state == "running"


@pytest.mark.parametrize("shelf", ["sqlite", "postgres"], indirect=True)
async def test_a_session_that_can_not_be_read_any_more_leaves_the_line_for_an_agent(house: House, shelf: Shelf) -> None:
    """Else nobody behind it would ever be answered."""
    await house.change(max_agents=1)
    bad = await house.open("bad")
    await house.open("good")
    held = await house.hold("good")
    await house.host.resume_session("bad")
    async with asyncio.timeout(WAIT_S):
        while not house.host.context.places.waits(house.actor(bad)):  # noqa: ASYNC110
            await asyncio.sleep(0)
    await shelf.spoil(bad)
    house.line.before = away
    with pytest.raises(errors.StoreUnavailable):
        await house.send("bad", "A")
    house.line.before = None
    with pytest.raises(StoreDamaged):
        await house.send("bad", "A")
    await house.open("third")
    house.agent.release("hold")
    assert (await house.end_of(held)).state == "answered"
    assert (await house.ask("third", "B")).state == "answered"


async def test_a_store_that_is_away_at_the_start_is_settled_as_soon_as_it_is_back(house: House) -> None:
    """openclaw#98920"""
    house.agent.script = lambda text: [Say("so far "), Hold("never")] if text == "A" else [Say(f"answer to {text}")]
    await house.open()
    held = await house.hold("k", "A")
    queued = await house.send("k", "B")
    store = await house.fall()
    met = 0

    async def away_at_first(_commit: Commit) -> None:
        nonlocal met
        met += 1
        if met < 4:
            raise errors.StoreUnavailable("It is away.")

    await house.begin(store, before=away_at_first)
    ends = await house.ends_of([held, queued])
    assert [end.state for end in ends] == ["interrupted", "answered"]
    assert met >= 4


async def test_a_waiter_of_a_message_that_ends_while_the_store_fails_a_read_gets_its_receipt(house: House) -> None:
    await house.open()
    held = await house.hold("k")
    waiting = asyncio.ensure_future(house.end_of(held))
    faults = 0

    async def fail_once(commit: Commit) -> None:
        nonlocal faults
        if holds(commit, "turn.ended") and not faults:
            faults += 1
            raise errors.StoreUnavailable("It is away.")

    house.line.before = fail_once
    house.agent.release("hold")
    async with asyncio.timeout(WAIT_S):
        assert (await waiting).reply == "so far answer to hold"
    assert faults == 1


async def test_neither_agent_nor_viewer_hears_of_what_is_not_durable(house: House) -> None:
    session_id = await house.open()
    seen: list[str] = []

    async def view() -> None:
        async for event in house.host.follow("k", after=None):
            seen.append(event.type)  # noqa: PERF401 - it is looked at meanwhile

    viewing = asyncio.ensure_future(view())
    await house.ask("k", "A")
    async with asyncio.timeout(WAIT_S):
        while seen.count("message.ended") < 1:  # noqa: ASYNC110 - what a viewer has seen has no event
            await asyncio.sleep(0)
    before, tried, go_on = list(seen), asyncio.Event(), asyncio.Event()

    async def stuck(_commit: Commit) -> None:
        tried.set()
        await go_on.wait()

    house.line.before = stuck
    sending = asyncio.ensure_future(house.ask("k", "B"))
    async with asyncio.timeout(WAIT_S):
        await tried.wait()
    for _ in range(10):
        await asyncio.sleep(0)  # whoever was told something acts on it now
    assert (seen, house.prompts(), sending.done()) == (before, ["A"], False)
    go_on.set()
    async with asyncio.timeout(WAIT_S):
        assert (await sending).reply == "answer to B"
        while seen != await house.types(session_id):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0)
    viewing.cancel()
    await asyncio.wait([viewing], timeout=WAIT_S)


async def test_a_waiter_misses_no_end_that_comes_while_it_looks(house: House) -> None:
    house.agent.script = lambda text: [Hold("gate"), Say(f"answer to {text}")]
    session_id = await house.open(settings={"on_crash": "retry_if_untouched"})
    receipt = await house.send("k", "A")
    await house.until(session_id, lambda session: session.running and house.prompts())
    await house.die()
    read = house.line.store.message

    async def end_meanwhile(message_id: str) -> object:
        found = await read(message_id)
        house.agent.release("gate")
        await house.until(session_id, lambda session: session.running is None)
        return found

    house.line.message = end_meanwhile  # pyright: ignore[reportAttributeAccessIssue]  # it comes before the store's
    async with asyncio.timeout(WAIT_S):
        end = await house.host.wait_message(receipt.id, None)
    assert (end.state, end.reply) == ("answered", "answer to A")


@pytest.mark.parametrize("shelf", ["memory", "sqlite"], indirect=True)
async def test_who_is_told_that_a_commit_is_in_doubt_is_told_when_to_ask_again(house: House) -> None:
    await house.open()

    async def away(commit: Commit) -> None:
        if holds(commit, "message.accepted"):
            raise errors.StoreUnavailable("The line was cut.", retry_after_s=7, in_doubt=True)

    house.line.before = away
    with pytest.raises(errors.StoreUnavailable) as told:
        await house.send("k", "A")
    assert (told.value.retry_after_s, told.value.ids["in_doubt"]) == (7, True)


@pytest.mark.parametrize("shelf", ["memory", "sqlite"], indirect=True)
async def test_an_agent_from_before_a_session_was_lost_is_not_heard_any_more(house: House) -> None:
    session_id = await house.open()
    await house.ask("k", "A")
    before = house.actor(session_id)._desk  # pyright: ignore[reportPrivateUsage]  # what its driver reports to
    fence = await house.line.store.claim(session_id, "another host")
    assert fence is not None
    assert (await house.ask("k", "B")).reply == "answer to B"
    await before.report(c.AgentWrote(text="from the past"))
    assert (await house.ask("k", "C")).reply == "answer to C"
    said = [entry.data.get("text") for entry in await house.line.store.entries(session_id, after=0, limit=1000)]
    assert "from the past" not in said
    await house.line.store.release(session_id, fence)


@pytest.mark.parametrize("shelf", ["memory", "sqlite"], indirect=True)
async def test_a_host_that_was_fenced_off_claims_its_session_anew(house: House) -> None:
    """Letta (source)"""
    session_id = await house.open()
    await house.ask("k", "A")
    fence = await house.line.store.claim(session_id, "another host")
    assert fence is not None
    async with asyncio.timeout(WAIT_S):
        assert (await house.ask("k", "B")).reply == "answer to B"
    await house.line.store.release(session_id, fence)
    assert (await house.ask("k", "C")).reply == "answer to C"
