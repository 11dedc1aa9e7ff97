"""Lists by page, and what is found in them."""

from typing import Any

import pytest

from antiphon.ports.store import (
    SessionQuery,
    Store,
    StoredMessage,
)
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.suite import ALL, Suite, pages


class ListsContract(Suite):
    """Lists by page, and what is found in them."""

    async def test_sessions_are_listed_newest_activity_first(self, store: Store) -> None:
        times = [5, 3, 9, 3, 7]
        drafts = [Draft(f"ses_{number}", active_at=at) for number, at in enumerate(times)]
        await self.wrote(store, *[draft.create() for draft in drafts])
        newest = ["ses_2", "ses_4", "ses_0", "ses_3", "ses_1"]
        for limit in (1, 2, 3, 5, 9):
            items = await pages(lambda cursor, limit=limit: store.sessions(ALL, cursor=cursor, limit=limit))
            assert await store.count() == 5
            assert [session.id for session in items] == newest
            assert items[0] == drafts[2].session
        await self.wrote(store, drafts[1].log(active_at=8))
        page = await store.sessions(ALL, cursor=None, limit=2)
        assert [session.id for session in page.items] == ["ses_2", "ses_1"]

    async def test_a_session_that_moves_between_two_pages_is_not_left_out(self, store: Store) -> None:
        drafts = [Draft(f"ses_{number}", active_at=100 + number) for number in range(10)]
        await self.wrote(store, *[draft.create() for draft in drafts])
        met: list[str] = []
        cursor: str | None = None
        for turn in range(20):
            page = await store.sessions(ALL, cursor=cursor, limit=3)
            met += [session.id for session in page.items]
            if turn < 3:
                await self.wrote(store, drafts[turn].log(active_at=200 + turn), drafts[9].log(active_at=300 + turn))
            cursor = page.next_cursor
            if cursor is None:
                break
        assert cursor is None
        assert set(met) == {draft.session.id for draft in drafts}

    async def test_sessions_are_found_by_what_they_are(self, store: Store) -> None:
        await self.wrote(
            store,
            Draft("ses_1", key="telegram:42", labels={"team": "a", "env": "x"}).create(),
            Draft("ses_2", title="Straße 50%_", labels={"team": "ab"}, agent="claude").create(),
            Draft(
                "ses_3", title="Ärger\0!", labels={"te": 'am","a', 'q"': '"]["team","z'}, lifecycle="stopped"
            ).create(),
        )

        async def found(**query: Any) -> list[str]:
            page = await store.sessions(SessionQuery(**query), cursor=None, limit=9)
            return sorted(session.id for session in page.items)

        assert await found(labels=(("team", "a"),)) == ["ses_1"]
        assert await found(labels=(("team", "a"), ("env", "x"))) == ["ses_1"]
        assert await found(labels=(("team", "a"), ("env", "y"))) == []
        assert await found(labels=(("team", "z"),)) == []
        assert await found(labels=(('q"', '"]["team","z'),)) == ["ses_3"]
        assert await found(agent="claude") == ["ses_2"]
        assert await found(text="GRAM:4") == ["ses_1"]
        assert await found(text="STRASSE") == ["ses_2"]
        assert await found(text="ärger") == ["ses_3"]
        assert await found(text="%") == ["ses_2"]
        assert await found(text="50__") == []
        assert await found(text="") == ["ses_1", "ses_2", "ses_3"]
        assert await found(statuses=("stopped",)) == ["ses_3"]
        assert await found(statuses=("dormant", "stopped")) == ["ses_1", "ses_2", "ses_3"]
        assert await found(statuses=("running", "idle")) == []
        assert await found(statuses=("dormant",), agent="echo", text="telegram") == ["ses_1"]

    async def test_unsettled_sessions_are_told(self, store: Store) -> None:
        waiting, quiet, gone = Draft("ses_1"), Draft("ses_2"), Draft("ses_3")
        await self.wrote(store, waiting.create(), quiet.create(), gone.create())
        await self.wrote(
            store, waiting.log(inbox=(waiting.message("msg_1"),)), gone.log(inbox=(gone.message("msg_2"),))
        )
        assert sorted(await store.unsettled()) == ["ses_1", "ses_3"]
        await self.wrote(store, gone.delete())
        assert list(await store.unsettled()) == ["ses_1"]
        assert [
            one.id for one in (await store.sessions(SessionQuery(statuses=("starting",)), cursor=None, limit=9)).items
        ] == ["ses_1"]
        await self.wrote(store, waiting.log(inbox=()))
        assert list(await store.unsettled()) == []

    async def test_a_transcript_holds_a_generations_messages_in_the_order_accepted(self, store: Store) -> None:
        draft = Draft("ses_1")
        ids = ["msg_9", "msg_3", "msg_5", "msg_1"]
        await self.wrote(store, draft.create(), *[draft.accept(id, f"text {id}") for id in ids])
        moved = draft.message("msg_5", sequence=4, generation=2, state="running")
        await self.wrote(store, draft.log(generation=2, messages=(moved,)), draft.accept("msg_0", "later"))

        async def transcript(generation: int, limit: int) -> list[StoredMessage]:
            return await pages(
                lambda cursor: store.transcript("ses_1", generation=generation, cursor=cursor, limit=limit)
            )

        for limit in (1, 2, 9):
            assert [one.message.id for one in await transcript(1, limit)] == ["msg_9", "msg_3", "msg_1"]
            assert [one.text for one in await transcript(2, limit)] == ["text msg_5", "later"]
        assert (await transcript(2, 9))[0].message == moved
        assert await transcript(3, 9) == []

    async def test_turns_are_listed_oldest_first(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        for number in (3, 1, 2):
            turn = draft.turn(f"turn_{number}")
            await self.wrote(store, draft.start(turn), draft.end(turn))
        await self.wrote(store, draft.log(generation=2, turns=(draft.turn("turn_0", generation=2),)))

        async def turns(generation: int | None, limit: int) -> list[str]:
            items = await pages(lambda cursor: store.turns("ses_1", generation=generation, cursor=cursor, limit=limit))
            return [turn.id for turn in items]

        for limit in (1, 2, 9):
            assert await turns(None, limit) == ["turn_3", "turn_1", "turn_2", "turn_0"]
            assert await turns(1, limit) == ["turn_3", "turn_1", "turn_2"]
            assert await turns(2, limit) == ["turn_0"]

    async def test_permissions_are_listed_newest_first(self, store: Store) -> None:
        one, two = Draft("ses_1"), Draft("ses_2")
        await self.wrote(store, one.create(), two.create())
        await self.wrote(store, one.ask("perm_1", at=3), two.ask("perm_2", at=5), one.ask("perm_3", at=5))
        await self.wrote(store, one.ask("perm_1", at=3, state="allowed", by="p"))

        async def found(state: str | None, session_id: str | None, limit: int = 1) -> list[str]:
            items = await pages(
                lambda cursor: store.permissions(state=state, session_id=session_id, cursor=cursor, limit=limit)
            )
            return [permission.id for permission in items]

        assert await found(None, None) == ["perm_3", "perm_2", "perm_1"]
        assert await found(None, None, limit=9) == ["perm_3", "perm_2", "perm_1"]
        assert await found("pending", None) == ["perm_3", "perm_2"]
        assert await found("allowed", None) == ["perm_1"]
        assert await found(None, "ses_1") == ["perm_3", "perm_1"]
        assert await found("pending", "ses_1") == ["perm_3"]
        assert await found(None, "ses_9") == []

    @pytest.mark.parametrize("cursor", ["", "x", "%", "\u00e9", "WyJ0dXJucyIsMV0", "bnVsbA", "e30", "W10", "MTI"])
    async def test_what_is_no_cursor_is_refused(self, store: Store, cursor: str) -> None:
        await self.wrote(store, Draft("ses_1").create())
        with pytest.raises(ValueError, match=r"\w"):
            await store.sessions(ALL, cursor=cursor, limit=5)
        with pytest.raises(ValueError, match=r"\w"):
            await store.turns("ses_1", generation=None, cursor=cursor, limit=5)
        with pytest.raises(ValueError, match=r"\w"):
            await store.transcript("ses_1", generation=1, cursor=cursor, limit=5)
        with pytest.raises(ValueError, match=r"\w"):
            await store.permissions(state=None, session_id=None, cursor=cursor, limit=5)
