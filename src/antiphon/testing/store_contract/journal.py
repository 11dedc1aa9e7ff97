"""The journal, the feed and replies."""

import asyncio

import pytest

from antiphon.core import events as e
from antiphon.ports.store import (
    Store,
)
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.suite import PATIENCE_S, Suite


class JournalContract(Suite):
    """The journal, the feed and replies."""

    async def test_entries_are_read_after_a_sequence_and_up_to_a_limit(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), draft.step(*[e.AgentLog(text=str(number)) for number in range(99)]))
        read = await store.entries("ses_1", after=40, limit=25)
        assert [entry.sequence for entry in read] == list(range(41, 66))
        assert [entry.sequence for entry in await store.entries("ses_1", after=98, limit=25)] == [99, 100]
        assert list(await store.entries("ses_1", after=100, limit=25)) == []
        assert [entry.sequence for entry in await store.tail("ses_1", before=None, limit=3)] == [98, 99, 100]
        assert [entry.sequence for entry in await store.tail("ses_1", before=50, limit=3)] == [47, 48, 49]
        assert [entry.sequence for entry in await store.tail("ses_1", before=3, limit=9)] == [1, 2]
        assert list(await store.tail("ses_1", before=1, limit=9)) == []

    async def test_a_page_of_entries_is_bounded_in_bytes_and_never_empty(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), *[draft.log("x" * 3_000_000) for _ in range(3)])
        await self.wrote(store, draft.log("y" * 9_000_000))
        after = 0
        sequences: list[list[int]] = []
        while page := await store.entries("ses_1", after=after, limit=99):
            sequences.append([entry.sequence for entry in page])
            after = page[-1].sequence
        assert [number for page in sequences for number in page] == [1, 2, 3, 4, 5]
        assert max(len(page) for page in sequences) <= 2
        assert sequences[-1] == [5]

    async def test_a_reply_is_the_text_of_its_turn(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        first = draft.turn("turn_1")
        await self.wrote(store, draft.start(first))
        assert await store.reply("turn_1") is None
        await self.wrote(store, draft.say(first, "Hel", "lo"))
        assert await store.reply("turn_1") == "Hello"
        assert await store.reply("turn_1", until=draft.session.sequence - 1) == "Hel"
        assert await store.reply("turn_of_nobody") is None
        await self.wrote(store, draft.end(first))
        await self.wrote(store, draft.accept("msg_1"))
        assert await store.answered("msg_1", "turn_1") == (await store.message("msg_1"), "Hello")
        assert await store.answered("msg_1", "turn_of_nobody") == (await store.message("msg_1"), None)
        assert await store.answered("msg_of_nobody", "turn_1") is None
        second = draft.turn("turn_2")
        await self.wrote(store, draft.start(second), draft.say(second, "other"), draft.end(second))
        for turn_id, text in (("turn_1", "Hello"), ("turn_2", "other")):
            turn = await store.turn(turn_id)
            assert turn is not None
            assert turn.state == "completed"
            assert await store.reply(turn_id) == text

    async def test_the_feed_holds_every_entry_once_in_an_order_that_stays(self, store: Store) -> None:
        start = await store.feed_end()
        drafts = [Draft(f"ses_{number}") for number in range(5)]
        for draft in drafts:
            await self.wrote(store, draft.create())

        async def write(draft: Draft) -> None:
            for count in range(1, 9):
                await store.commit(draft.step(*[e.AgentLog(text=str(count))] * (count % 4 + 1)))

        async def follow() -> list[tuple[str, int]]:
            seen: list[tuple[str, int]] = []
            position = start
            while len(seen) < 5 * (1 + 20):
                for one in await store.feed(after=position, limit=7):
                    seen.append((one.entry.session_id, one.entry.sequence))
                    position = one.position
                await asyncio.sleep(0)
            return seen

        async with asyncio.timeout(PATIENCE_S):
            async with asyncio.TaskGroup() as group:
                following = group.create_task(follow())
                for draft in drafts:
                    group.create_task(write(draft))
        seen = following.result()
        assert len(set(seen)) == len(seen) == 105
        for draft in drafts:
            assert [number for id, number in seen if id == draft.session.id] == list(range(1, 22))
        whole = await store.feed(after=start, limit=999)
        assert [(one.entry.session_id, one.entry.sequence) for one in whole] == seen
        assert list(await store.feed(after=whole[-1].position, limit=9)) == []
        assert list(await store.feed(after=await store.feed_end(), limit=9)) == []
        again = await store.feed(after=whole[50].position, limit=999)
        assert list(again) == list(whole[51:])

    @pytest.mark.parametrize("position", ["", "x", "-1", "1e3", "9" * 30, "\u0661", "1.2.3.4.5"])
    async def test_what_is_no_position_of_the_feed_is_refused(self, store: Store, position: str) -> None:
        await self.wrote(store, Draft("ses_1").create())
        with pytest.raises(ValueError, match=r"\w"):
            await store.feed(after=position, limit=5)
