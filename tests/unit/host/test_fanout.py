import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.core import commands as c
from antiphon.core.decide import Given
from antiphon.core.events import Entry
from antiphon.core.session import Session
from antiphon.core.step import Step
from antiphon.host.fanout import PAGE, RECENT_MAX, Fanout, Topic
from antiphon.host.views import Receipt
from antiphon.ports.store import Commit
from hostlab.stage import FaultyStore, in_virtual_time

SESSION = "ses_1"


class Journal:
    """A session in a store, and the fan-out that is told of what is written to it, or not."""

    def __init__(self) -> None:
        self.store = FaultyStore()
        self.reads = 0
        self.store.reading = self._count
        self.fanout = Fanout(self.store)  # pyright: ignore[reportArgumentType]
        self.session: Session | None = None

    async def _count(self, method: str) -> None:
        self.reads += method == "entries"

    async def write(self, *commands: c.Command) -> tuple[Entry, ...]:
        """Commit, and tell nobody."""
        step = Step(self.session, Given(now=1), session_id=SESSION)
        for command in commands:
            step.take(command)
        assert step.session is not None
        entries = tuple(step.entries)
        expected = self.session.sequence if self.session else 0
        await self.store.commit(Commit(session=step.session, expected=expected, entries=entries))
        self.session = step.session
        return entries

    async def tell(self, *commands: c.Command) -> None:
        """Commit, and tell."""
        self.fanout.publish(SESSION, await self.write(*commands))


def titled(number: int) -> c.PatchSession:
    return c.PatchSession(changes={"title": f"title {number}"})


CREATE = c.CreateSession(session_id=SESSION, agent="a")


async def told(entries: AsyncGenerator[Entry, None], count: int) -> list[int]:
    """The sequences of the next entries; short when there are no more."""
    found: list[int] = []
    async with asyncio.timeout(5):
        async for entry in entries:
            found.append(entry.sequence)
            if len(found) == count:
                break
    return found


async def following(journal: Journal, after: int = 0) -> tuple[AsyncGenerator[Entry, None], "asyncio.Task[Any]"]:
    """A follower that has read all there is and waits for the next entry."""
    entries = journal.fanout.follow(SESSION, after)
    waiting = asyncio.ensure_future(anext(entries))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    return entries, waiting


@in_virtual_time
async def test_a_follower_is_told_what_was_there_and_then_what_happens() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    await journal.tell(titled(1))
    entries = journal.fanout.follow(SESSION, 0)
    assert await told(entries, 2) == [1, 2]
    await journal.tell(titled(2), titled(3))
    assert await told(entries, 2) == [3, 4]
    await entries.aclose()


@in_virtual_time
async def test_a_follower_that_keeps_up_reads_from_memory() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    reads = journal.reads
    await journal.tell(titled(1))
    assert (await waiting).sequence == 2
    assert journal.reads == reads
    await entries.aclose()


@in_virtual_time
async def test_a_follower_that_fell_behind_reads_on_from_the_store_without_a_gap() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    for number in range(RECENT_MAX + PAGE):
        await journal.tell(titled(number))
    assert (await waiting).sequence == 2
    assert await told(entries, RECENT_MAX + PAGE - 1) == list(range(3, RECENT_MAX + PAGE + 2))
    await entries.aclose()


@in_virtual_time
async def test_what_another_writer_wrote_in_between_is_neither_left_out_nor_told_twice() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    await journal.tell(titled(1))
    await journal.write(titled(2))  # by somebody of whom this host does not hear
    await journal.tell(titled(3))
    assert (await waiting).sequence == 2
    assert await told(entries, 2) == [3, 4]
    await journal.tell(titled(4))
    assert await told(entries, 1) == [5]
    await entries.aclose()


@in_virtual_time
async def test_a_follower_hears_of_another_writer_when_the_host_does() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    await journal.write(titled(1))
    journal.fanout.moved(SESSION)
    assert (await waiting).sequence == 2
    await entries.aclose()


@in_virtual_time
async def test_what_another_host_wrote_is_told_also_when_it_is_heard_of_before_an_own_commit_that_came_first() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    own = await journal.write(titled(1))  # its answer is still under way
    await journal.write(titled(2))
    journal.fanout.moved(SESSION, 3)
    journal.fanout.publish(SESSION, own)
    assert (await waiting).sequence == 2
    assert await told(entries, 1) == [3]
    await entries.aclose()


@in_virtual_time
async def test_entries_that_are_told_of_late_are_told_once_and_in_order() -> None:
    journal = Journal()
    created = await journal.write(CREATE)
    entries = journal.fanout.follow(SESSION, 0)
    waiting = asyncio.ensure_future(anext(entries))
    changed = await journal.write(titled(1), titled(2))
    journal.fanout.publish(SESSION, changed)
    journal.fanout.publish(SESSION, created)
    assert (await waiting).sequence == 1
    assert await told(entries, 2) == [2, 3]
    await entries.aclose()


@in_virtual_time
async def test_following_ends_with_the_deletion() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    await journal.tell(titled(1))
    await journal.tell(c.DeleteSession())
    assert (await waiting).sequence == 2
    assert await told(entries, 10) == [3]


@in_virtual_time
async def test_a_follower_that_was_behind_at_the_deletion_is_told_the_end_and_comes_to_its_own() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    for number in range(RECENT_MAX + 10):
        await journal.tell(titled(number))
    await journal.tell(c.DeleteSession())
    assert (await waiting).type == "session.deleted", "what it missed went with the session"
    assert await told(entries, 10) == []


@in_virtual_time
async def test_following_a_session_that_was_deleted_meanwhile_ends() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    await journal.tell(c.DeleteSession())
    assert await told(journal.fanout.follow(SESSION, 1), 10) == []


@in_virtual_time
async def test_a_slow_follower_holds_up_neither_the_writer_nor_another_follower() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    slow = journal.fanout.follow(SESSION, 0)
    assert await told(slow, 1) == [1]  # and then it reads no more
    quick, waiting = await following(journal, after=1)
    await journal.tell(titled(1))
    assert (await waiting).sequence == 2
    await slow.aclose()
    await quick.aclose()


@in_virtual_time
async def test_all_followers_come_to_their_end_when_the_host_closes() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    feed = journal.fanout.follow_all("1")
    feeding = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)
    journal.fanout.close()
    for ended in (waiting, feeding):
        with pytest.raises(StopAsyncIteration):
            await ended
    assert journal.fanout.viewers == 0
    await entries.aclose()


@in_virtual_time
async def test_a_follower_in_the_middle_of_a_page_ends_soon_after_the_host_closes() -> None:
    journal = Journal()
    await journal.tell(CREATE, *[titled(number) for number in range(50)])
    entries = journal.fanout.follow(SESSION, 0)
    assert await told(entries, 1) == [1]
    journal.fanout.close()
    assert len(await told(entries, 50)) < 2


@in_virtual_time
async def test_nothing_is_kept_for_a_session_that_nobody_follows() -> None:
    journal = Journal()
    await journal.tell(CREATE)
    entries, waiting = await following(journal, after=1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await entries.aclose()
    await journal.tell(titled(1))
    assert journal.fanout.viewers == 0
    assert await told(journal.fanout.follow(SESSION, 0), 2) == [1, 2]


@in_virtual_time
async def test_the_feed_tells_of_all_sessions_in_their_order() -> None:
    journal = Journal()
    feed = journal.fanout.follow_all("0")
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)
    await journal.tell(CREATE)
    assert (await waiting)[1].type == "session.created"
    await journal.tell(titled(1))
    assert (await anext(feed))[1].sequence == 2
    await feed.aclose()


# Waiting for a message's end


def receipt(message_id: str) -> Receipt:
    values: dict[str, Any] = dict.fromkeys(Receipt.__struct_fields__)
    return Receipt(**(values | {"id": message_id, "session_id": SESSION, "generation": 1, "state": "answered"}))


@in_virtual_time
async def test_everyone_who_waits_for_a_message_is_told_of_its_end_and_nobody_else() -> None:
    fanout = Journal().fanout
    with fanout.waiting("msg_1") as one, fanout.waiting("msg_1") as two, fanout.waiting("msg_2") as other:
        fanout.ended(receipt("msg_1"))
        assert (one.result(), two.result(), other.done()) == (receipt("msg_1"), receipt("msg_1"), False)


@in_virtual_time
async def test_a_waiter_that_leaves_changes_nothing_for_the_others() -> None:
    fanout = Journal().fanout
    with fanout.waiting("msg_1") as stays:
        with fanout.waiting("msg_1"):
            pass
        assert fanout.awaited("msg_1")  # noqa: PGH005 - it is no mock
        fanout.ended(receipt("msg_1"))
        assert stays.done()
    assert not fanout.awaited("msg_1")


@in_virtual_time
async def test_waiters_look_for_themselves_when_the_host_closes_or_has_closed() -> None:
    fanout = Journal().fanout
    with fanout.waiting("msg_1") as early:
        fanout.close()
        assert early.cancelled()
    with fanout.waiting("msg_1") as late:
        assert late.cancelled()


def test_the_memory_of_a_session_is_bounded_also_when_its_events_are_large() -> None:
    topic = Topic()
    large = [
        Entry(
            session_id=SESSION, sequence=n, generation=1, type="turn.tool_ended", at=1, data={"output": "x" * (1 << 20)}
        )
        for n in range(1, 11)
    ]
    for entry in large:
        topic.add((entry,))
    assert [entry.sequence for entry in topic.recent] == [8, 9, 10]
    assert topic.after(6) is None
    assert [entry.sequence for entry in topic.after(7) or ()] == [8, 9, 10]
    topic.add((msgspec.structs.replace(large[0], sequence=11, data={"text": "x" * (9 << 20)}),))
    assert [entry.sequence for entry in topic.recent] == [11], "the newest is kept, however large it is"


@pytest.mark.parametrize(
    ("ended", "woken", "turn_id"),
    [
        (None, True, None),
        ({}, False, None),
        ({"msg_2": "turn_2"}, False, None),
        ({"msg_1": "turn_1"}, True, "turn_1"),
        ({"msg_1": None}, True, None),
    ],
)
async def test_who_waits_for_a_message_is_woken_when_it_may_have_ended(
    ended: dict[str, str | None] | None, woken: bool, turn_id: str | None
) -> None:
    journal = Journal()
    with journal.fanout.moves(SESSION, "msg_1") as its_end, journal.fanout.moves(SESSION) as anything:
        journal.fanout.moved(SESSION, 3, ended)
        assert anything.is_set()
        assert (its_end.is_set(), its_end.turn_id) == (woken, turn_id)
