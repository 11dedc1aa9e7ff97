"""What a commit writes, refuses, and leaves alone; messages, keys and claims."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.core import events as e
from antiphon.core.session import Usage
from antiphon.ports.store import (
    KEYS_MAX,
    KEYS_SLACK,
    KEYS_YOUNG_MS,
    Fenced,
    KeyedMessage,
    KeyTaken,
    Listed,
    NewText,
    SequenceMoved,
    Store,
    StoredMessage,
)
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.suite import ALL, PATIENCE_S, Suite


class CommitsContract(Suite):
    """What a commit writes, refuses, and leaves alone; messages, keys and claims."""

    # Commits

    async def test_what_a_commit_holds_is_there_when_it_returns(self, store: Store) -> None:
        draft = Draft("ses_1", key="k", title="T", labels={"a": "b"}, settings={"x": [1, {"y": None}]})
        await self.wrote(store, draft.create(), draft.accept("msg_1", "hi", idempotency_key="i", digest="d"))
        turn = draft.turn("turn_1", message_ids=("msg_1",))
        await self.wrote(store, draft.start(turn), draft.ask("perm_1", at=5))
        assert await store.load("ses_1") == draft.session
        assert await store.find("k") == "ses_1"
        assert [entry.type for entry in await store.entries("ses_1", after=0, limit=10)] == [
            "session.created",
            "message.accepted",
            "turn.started",
            "permission.requested",
        ]
        assert await store.message("msg_1") == StoredMessage(message=draft.message("msg_1", sequence=2), text="hi")
        assert await store.keyed("ses_1", "i") == KeyedMessage(message_id="msg_1", digest="d")
        assert await store.turn("turn_1") == turn
        permission = await store.permission("perm_1")
        assert permission is not None
        assert permission.question == "?"

    async def test_entries_come_back_as_they_were_written(self, store: Store) -> None:
        draft = Draft("ses_1")
        usage = Usage(input_tokens=2**40, output_tokens=1, cost_usd=0.1)
        commits = [
            draft.create(),
            draft.step(
                e.TurnText(turn_id="turn_1", text="a\0b \U0001f600 \u202e \ufffd\n"),
                e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="n", input={"deep": [1, 2.5, None, {"k": True}]}),
                e.TurnUsage(turn_id="turn_1", usage=usage),
                e.MessageEnded(message_id="msg_1", turn_id="turn_1", state="answered"),
            ),
        ]
        await self.wrote(store, *commits)
        written = [entry for commit in commits for entry in commit.entries]
        assert list(await store.entries("ses_1", after=0, limit=10)) == written

    async def test_what_was_never_written_is_not_there(self, store: Store) -> None:
        assert await store.load("ses_0") is None
        assert await store.find("k") is None
        assert await store.message("msg_0") is None
        assert await store.turn("turn_0") is None
        assert await store.permission("perm_0") is None
        assert await store.keyed("ses_0", "i") is None
        assert list(await store.entries("ses_0", after=0, limit=10)) == []
        assert list(await store.tail("ses_0", before=None, limit=10)) == []
        assert list(await store.unsettled()) == []
        assert await store.sessions(ALL, cursor=None, limit=10) == Listed(items=())
        assert await store.count() == 0

    async def test_a_commit_on_a_sequence_that_moved_writes_nothing(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        stale = Draft("ses_1")
        stale.session = draft.session
        await self.wrote(store, draft.log("first"))
        with pytest.raises(SequenceMoved):
            await store.commit(stale.accept("msg_1", idempotency_key="i"))
        assert await store.load("ses_1") == draft.session
        assert len(await store.entries("ses_1", after=0, limit=10)) == 2
        assert await store.message("msg_1") is None
        assert await store.keyed("ses_1", "i") is None

    async def test_a_commit_on_a_session_that_never_was_writes_nothing(self, store: Store) -> None:
        draft = Draft("ses_1", sequence=3)
        with pytest.raises(SequenceMoved):
            await store.commit(draft.log())
        assert await store.load("ses_1") is None

    async def test_a_session_is_made_once(self, store: Store) -> None:
        await self.wrote(store, Draft("ses_1", title="first").create())
        with pytest.raises(SequenceMoved):
            await store.commit(Draft("ses_1", title="second").create())
        session = await store.load("ses_1")
        assert session is not None
        assert session.title == "first"

    async def test_a_key_belongs_to_one_living_session(self, store: Store) -> None:
        draft = Draft("ses_1", key="k")
        await self.wrote(store, draft.create())
        with pytest.raises(KeyTaken) as taken:
            await store.commit(Draft("ses_2", key="k").create())
        assert taken.value.session_id == "ses_1"
        assert await store.load("ses_2") is None
        await self.wrote(store, draft.delete())
        assert await store.find("k") is None
        await self.wrote(store, Draft("ses_3", key="k").create())
        assert await store.find("k") == "ses_3"

    @pytest.mark.parametrize(
        "broken", ["sequence", "numbering", "foreign entry", "foreign record", "record twice", "empty"]
    )
    async def test_a_commit_that_does_not_fit_together_is_refused(self, store: Store, broken: str) -> None:
        draft, other = Draft("ses_1"), Draft("ses_2")
        await self.wrote(store, draft.create(), other.create())
        before = draft.session
        good = draft.accept("msg_1")
        entries, message = good.entries, good.messages[0]
        bad: dict[str, Any] = {
            "sequence": {"entries": entries * 2},
            "numbering": {"entries": (replace(entries[0], sequence=entries[0].sequence + 1),)},
            "foreign entry": {"entries": other.log().entries},
            "foreign record": {"messages": (other.message("msg_2"),)},
            "record twice": {"messages": (message, message)},
            "empty": {"session": Draft("ses_3").session, "expected": 0, "entries": (), "messages": (), "texts": ()},
        }[broken]
        with pytest.raises(ValueError, match=r"\w"):
            await store.commit(replace(good, **bad))
        assert await store.load("ses_1") == before
        assert await store.message("msg_1") is None

    async def test_of_many_commits_on_one_sequence_one_is_written(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        rivals = [Draft("ses_1") for _ in range(20)]
        for rival in rivals:
            rival.session = draft.session
        commits = [rival.accept(f"msg_{number}") for number, rival in enumerate(rivals)]
        outcomes = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
        written = [commit for commit, outcome in zip(commits, outcomes, strict=True) if outcome is None]
        assert [type(outcome) for outcome in outcomes if outcome is not None] == [SequenceMoved] * 19
        assert list(await store.entries("ses_1", after=1, limit=99)) == list(written[0].entries)
        stored = await store.messages([f"msg_{number}" for number in range(20)])
        assert [one.message for one in stored] == list(written[0].messages)

    async def test_a_refused_commit_spoils_none_beside_it(self, store: Store) -> None:
        drafts = [Draft(f"ses_{number}", key=f"k{number % 10}") for number in range(30)]
        outcomes = await asyncio.gather(*[store.commit(one.create()) for one in drafts], return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["KeyTaken"] * 20 + ["NoneType"] * 10
        listed = await store.sessions(ALL, cursor=None, limit=99)
        assert {session.key for session in listed.items} == {f"k{number}" for number in range(10)}

    async def test_a_cancelled_commit_is_whole_or_absent_and_the_store_goes_on(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        before = draft.session
        task = asyncio.ensure_future(store.commit(draft.accept("msg_1", "text")))  # noqa: TID251  # awaited below
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.done()
        other = Draft("ses_2")
        await self.wrote(store, other.create())
        session, message = await store.load("ses_1"), await store.message("msg_1")
        assert (session, message) in [
            (before, None),
            (draft.session, StoredMessage(message=draft.message("msg_1", sequence=2), text="text")),
        ]

    # Messages and their keys

    async def test_an_edit_changes_the_text_and_keeps_the_key(self, store: Store) -> None:
        draft = Draft("ses_1")
        files = ({"name": "a", "bytes": [1]},)
        await self.wrote(
            store, draft.create(), draft.accept("msg_1", "old", files=files, idempotency_key="i", digest="d")
        )
        edited = e.MessageEdited(message_id="msg_1", text="new")
        await self.wrote(store, draft.step(edited, texts=(NewText(message_id="msg_1", text="new", files=files),)))
        stored = await store.message("msg_1")
        assert stored == StoredMessage(message=draft.message("msg_1", sequence=2), text="new", files=files)
        assert await store.keyed("ses_1", "i") == KeyedMessage(message_id="msg_1", digest="d")

    async def test_keys_count_within_their_session(self, store: Store) -> None:
        for number in (1, 2):
            draft = Draft(f"ses_{number}")
            await self.wrote(store, draft.create(), draft.accept(f"msg_{number}", idempotency_key="same", digest=None))
        assert await store.keyed("ses_1", "same") == KeyedMessage(message_id="msg_1", digest=None)
        assert await store.keyed("ses_2", "same") == KeyedMessage(message_id="msg_2", digest=None)

    async def test_a_key_is_spent_once(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), draft.accept("msg_1", idempotency_key="i"))
        before = draft.session
        with pytest.raises(ValueError, match=r"\w"):
            await store.commit(draft.accept("msg_2", idempotency_key="i"))
        assert await store.load("ses_1") == before
        assert await store.message("msg_2") is None

    async def test_of_too_many_keys_the_oldest_are_forgotten_but_none_of_the_last_seven_days(
        self, store: Store
    ) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())

        async def spend(name: str, count: int, at: int) -> None:
            draft.session = replace(draft.session, active_at=at)
            ids = [f"msg_{name}_{number}" for number in range(count)]
            events = [
                e.MessageAccepted(message_id=id, text="", when_busy="queue", place=0, idempotency_key=id) for id in ids
            ]
            texts = tuple(NewText(message_id=id, text="", idempotency_key=id) for id in ids)
            await self.wrote(store, draft.step(*events, texts=texts))

        async def kept(*names: str) -> list[bool]:
            await self.wrote(store, draft.step(*[e.AgentLog(text="…")] * KEYS_SLACK))
            keys = [f"msg_{name}_{number}" for name in names for number in (0, 299)]
            return [await store.keyed("ses_1", key) is not None for key in keys]

        late = 3000 + KEYS_YOUNG_MS
        await spend("first", 300, 1000)
        await spend("second", 300, 2000)
        await spend("young", KEYS_MAX - 600, 3000)
        await spend("new", 300, late)
        assert await kept("first", "second", "young", "new") == [False] * 2 + [True] * 6
        await spend("newest", 600, late)
        assert await kept("second", "young", "new", "newest") == [False] * 2 + [True] * 6

    @pytest.mark.parametrize("text", ["", "\0", "a\0b", "\U0001f600\u202e", "x" * 2_000_000, "\r\n\t\x1b[0m"])
    async def test_texts_come_back_as_they_were(self, store: Store, text: str) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), draft.accept("msg_1", text))
        stored = await store.message("msg_1")
        assert stored is not None
        assert stored.text == text

    async def test_messages_come_in_the_order_asked_for(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), *[draft.accept(f"msg_{number}") for number in range(200)])
        asked = [f"msg_{number}" for number in (150, 3, 999, 77)]
        assert [one.message.id for one in await store.messages(asked)] == ["msg_150", "msg_3", "msg_77"]
        every = [f"msg_{number}" for number in reversed(range(200))]
        assert [one.message.id for one in await store.messages(every)] == every
        assert list(await store.messages([])) == []

    # Claims

    async def test_fences_grow_and_an_older_one_writes_nothing(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        first = await store.claim("ses_1", "host-1")
        assert first is not None
        await self.wrote(store, draft.log(fence=first))
        await store.release("ses_1", first)
        second = await store.claim("ses_1", "host-1")
        assert second is not None
        assert second > first
        before = draft.session
        with pytest.raises(Fenced):
            await store.commit(draft.log(fence=first))
        assert await store.load("ses_1") == before
        draft.session = before
        await self.wrote(store, draft.log(fence=second), draft.log(fence=None))
        await store.release("ses_1", first)
        await self.wrote(store, draft.log(fence=second))
        assert await store.load("ses_1") == draft.session

    async def test_fences_grow_over_a_restart(self, store: Store) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        first = await store.claim("ses_1", "host-1")
        again = await self.reopen(store)
        try:
            second = await again.claim("ses_1", "host-2")
            assert first is not None
            assert second is not None
            assert second > first
            with pytest.raises(Fenced):
                await again.commit(draft.log(fence=first))
        finally:
            await again.close()
