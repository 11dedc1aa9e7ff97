"""Deletion, restarts and the end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.ports.store import (
    KeyedMessage,
    SequenceMoved,
    Store,
)
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.suite import ALL, PATIENCE_S, Suite


class LifeContract(Suite):
    """Deletion, restarts and the end."""

    # Deletion

    async def test_a_deleted_session_is_gone_at_once_and_its_rows_in_small_steps(self, store: Store) -> None:
        start = await store.feed_end()
        gone, kept = Draft("ses_1", key="k"), Draft("ses_2")
        for draft in (gone, kept):
            own = draft.session.id
            turn = draft.turn(f"turn_{own}", first_sequence=1)
            await self.wrote(store, draft.create(), draft.accept(f"msg_{own}", idempotency_key="i"), draft.start(turn))
            await self.wrote(store, draft.say(turn, *"abcdefghij"), draft.ask(f"perm_{own}", at=1))
        assert await store.gone("msg_ses_1") is None, "its session lives"
        await self.wrote(store, gone.delete())
        last = await store.gone("msg_ses_1")
        assert last is not None
        assert last.id == "msg_ses_1"
        assert await store.gone("msg_ses_2") is None
        assert await store.load("ses_1") is None
        assert await store.count() == 1
        assert await store.message("msg_ses_1") is None
        assert list(await store.messages(["msg_ses_1", "msg_ses_2"])) == [await store.message("msg_ses_2")]
        assert await store.turn("turn_ses_1") is None
        assert await store.permission("perm_ses_1") is None
        assert await store.keyed("ses_1", "i") is None
        assert list(await store.entries("ses_1", after=0, limit=99)) == []
        assert await store.reply("turn_ses_1") is None
        assert await store.answered("msg_ses_1", "turn_ses_1") is None
        assert [
            one.id for one in (await store.permissions(state=None, session_id=None, cursor=None, limit=9)).items
        ] == ["perm_ses_2"]
        assert [one.id for one in (await store.sessions(ALL, cursor=None, limit=9)).items] == ["ses_2"]
        assert (await store.turns("ses_1", generation=None, cursor=None, limit=9)).items == ()
        assert (await store.transcript("ses_1", generation=1, cursor=None, limit=9)).items == ()
        with pytest.raises(SequenceMoved):
            await store.commit(gone.log())
        with pytest.raises(SequenceMoved):
            await store.commit(Draft("ses_1").create())

        end = await store.feed_end()
        steps: list[int] = []
        async with asyncio.timeout(PATIENCE_S):
            while taken := await store.purge(4):
                steps.append(taken)
        assert sum(steps) >= 15 + 4
        assert max(steps) <= 8
        assert await store.purge(4) == 0
        assert await store.gone("msg_ses_1") is None, "it was purged"
        assert await store.load("ses_2") == kept.session
        assert await store.reply("turn_ses_2") == "abcdefghij"
        assert len(await store.entries("ses_2", after=0, limit=99)) == kept.session.sequence
        assert {one.entry.session_id for one in await store.feed(after=start, limit=99)} == {"ses_2"}
        await self.wrote(store, kept.log("after the purge"))
        assert [one.entry.data for one in await store.feed(after=end, limit=9)] == [{"text": "after the purge"}]

    # Its life

    async def test_everything_is_there_after_a_restart(self, store: Store) -> None:
        draft = Draft("ses_1", key="k")
        await self.wrote(store, draft.create(), draft.accept("msg_1", "hi", idempotency_key="i", digest="d"))
        epoch, position, message = store.epoch, await store.feed_end(), await store.message("msg_1")
        again = await self.reopen(store)
        try:
            assert again.epoch == epoch
            assert ":" not in epoch
            assert await again.load("ses_1") == draft.session
            assert await again.find("k") == "ses_1"
            assert await again.message("msg_1") == message
            assert await again.keyed("ses_1", "i") == KeyedMessage(message_id="msg_1", digest="d")
            await self.wrote(again, draft.log("new"))
            assert [one.entry.data for one in await again.feed(after=position, limit=9)] == [{"text": "new"}]
        finally:
            await again.close()

    async def test_closing_twice_is_closing_once_and_ends_the_notices(self, store: Store) -> None:
        await self.wrote(store, Draft("ses_1").create())
        notices: AsyncIterator[Any] = store.notices()

        async def read() -> list[Any]:
            return [notice async for notice in notices]

        async with asyncio.timeout(PATIENCE_S):
            reading = asyncio.ensure_future(read())  # noqa: TID251  # awaited below
            await asyncio.sleep(0)
            await store.close()
            await store.close()
            await reading
