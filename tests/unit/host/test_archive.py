"""Sessions that are taken out of one host and into another, or the same."""

import asyncio
from typing import Any

import msgspec
import pytest

from antiphon.core.errors import InvalidRequest, NotFound, StoreUnavailable
from antiphon.core.evolve import fold
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import Ask, Say, UseTool
from hostlab.stage import Stage, in_virtual_time, staged


async def exported(stage: Stage, ref: str = "k") -> dict[str, Any]:
    """An export, as it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(await stage.host.export_session(ref)))


@in_virtual_time
async def test_a_copy_has_the_same_conversation_under_new_ids() -> None:
    async with staged() as stage:
        original = await stage.open(title="mine", labels={"a": "b"})
        first = await stage.ask("k", "hello", idempotency_key="key", digest="d")
        copy = await stage.host.import_session(await exported(stage))
        assert (copy.id != original, copy.key, copy.title, copy.labels) == (True, None, "mine", {"a": "b"})
        lines = [(item.role, item.text) for item in (await stage.host.transcript(copy.id)).items]
        assert lines == [("user", "hello"), ("assistant", "answer to hello")]
        ids = {item.message_id for item in (await stage.host.transcript(copy.id)).items}
        assert first.id not in ids
        assert await stage.host.receipt(first.id) == first, "the original is as it was"


@in_virtual_time
async def test_a_copy_keeps_its_key_where_that_is_free() -> None:
    async with staged() as stage:
        await stage.open()
        document = await exported(stage)
        await stage.host.delete_session("k")
        copy = await stage.host.import_session(document)
        assert (await stage.host.session("k")).id == copy.id


@in_virtual_time
async def test_a_copys_journal_folds_to_the_copy() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [UseTool("saw"), Say("done")]
        await stage.open()
        await stage.ask("k", "hello")
        copy = await stage.host.import_session(await exported(stage))
        entries = await stage.store.memory.entries(copy.id, after=0, limit=1000)
        assert fold(None, entries) == await stage.store.memory.load(copy.id)


@in_virtual_time
async def test_what_ran_when_it_was_exported_is_interrupted_in_the_copy_and_what_waited_waits_for_the_resume() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Ask("May I?")] if text == "ask" else [Say(f"answer to {text}")]
        held = await stage.hold("k" if await stage.open() else "", "ask")
        await stage.send("k", "queued")
        document = await exported(stage)
        copy = await stage.host.import_session(document)
        assert (copy.status, copy.queued) == ("stopped", 1)
        await stage.host.resume_session(copy.id)
        session = await stage.until(copy.id, lambda session: not session.running and not session.inbox)
        assert not session.permissions
        states = [(item.text, item.state) for item in (await stage.host.transcript(copy.id)).items]
        assert ("ask", "interrupted") in states
        assert ("answer to queued", "completed") in states
        assert (await stage.host.receipt(held.id)).state == "running", "the original goes on"


@in_virtual_time
async def test_a_copy_does_not_go_on_with_the_originals_conversation_in_the_agent() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.ask("k", "hello")
        copy = await stage.host.import_session(await exported(stage))
        assert (await stage.ask(copy.id, "again")).reply == "answer to again"
        assert [conversation.resumed_from for conversation in stage.agent.conversations] == [None, None]


@in_virtual_time
async def test_an_idempotency_key_counts_in_the_copy_too() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.ask("k", "hello", idempotency_key="key", digest="d")
        copy = await stage.host.import_session(await exported(stage))
        again = await stage.ask(copy.id, "hello", idempotency_key="key", digest="d")
        assert (again.session_id, again.reply) == (copy.id, "answer to hello")
        assert len(stage.prompts()) == 1


@in_virtual_time
async def test_ids_that_a_person_wrote_stay_as_they_were() -> None:
    async with staged() as stage:
        await stage.open()
        text = "msg_" + "0" * 32
        await stage.ask("k", text)
        copy = await stage.host.import_session(await exported(stage))
        assert (await stage.host.transcript(copy.id)).items[0].text == text


@in_virtual_time
async def test_a_session_that_is_deleted_while_it_is_exported_is_not_found() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Say(f"{number} ") for number in range(700)]
        await stage.open()
        await stage.ask("k", "count")
        pages = [0]

        async def slow(method: str) -> None:
            if method == "entries":
                pages[0] += 1
                if pages[0] == 2:
                    stage.store.reading = None
                    await stage.host.delete_session("k")

        stage.store.reading = slow
        with pytest.raises(NotFound):
            await stage.host.export_session("k")


@in_virtual_time
async def test_a_copy_whose_commit_is_of_unknown_outcome_is_found_out_and_told_of() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        await stage.send("k", "queued")
        document = await exported(stage)

        async def lost(_commit: Commit) -> None:
            stage.store.after = None
            raise StoreUnavailable("The connection is lost.", in_doubt=True)

        stage.store.after = lost
        feed = stage.host.follow_all(after=None)
        told = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0.01)
        copy = await stage.host.import_session(document)
        assert (await told)[1].session_id == copy.id
        await feed.aclose()
        assert (await stage.host.receipt(held.id)).state == "running", "the original goes on"


@in_virtual_time
@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: {},
        lambda document: document | {"antiphon_export": 2},
        lambda document: document | {"session": None},
        lambda document: document | {"session": "k"},
        lambda document: document | {"session": {"key": 7}},
        lambda document: document | {"session": {"key": "ses_1"}},
        lambda document: document | {"session": {"key": "a\nb"}},
        lambda document: document | {"entries": None},
        lambda document: document | {"entries": []},
        lambda document: document | {"entries": document["entries"][1:]},
        lambda document: document | {"entries": [*document["entries"], document["entries"][-1]]},
        lambda document: document | {"entries": [*document["entries"][:2], *document["entries"][3:]]},
        lambda document: document | {"entries": [{**entry, "type": "unknown"} for entry in document["entries"]]},
        lambda document: document | {"entries": [{**entry, "data": {}} for entry in document["entries"]]},
        lambda document: _with_settings(document, {"stall_after_s": "soon"}),
        lambda document: _with_settings(document, {"reset": "always"}),
    ],
)
async def test_what_is_no_whole_export_is_refused_and_nothing_is_made_of_it(spoil: Any) -> None:
    async with staged() as stage:
        await stage.open()
        await stage.ask("k", "hello")
        document = spoil(await exported(stage))
        with pytest.raises(InvalidRequest):
            await stage.host.import_session(document)
        assert await stage.store.memory.count() == 1


def _with_settings(document: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    created, *others = document["entries"]
    return document | {"entries": [created | {"data": created["data"] | {"settings": settings}}, *others]}


@in_virtual_time
async def test_an_import_is_finished_though_its_caller_left() -> None:
    async with staged() as stage:
        await stage.open()
        document = await exported(stage)
        began, gate = asyncio.Event(), asyncio.Event()

        async def slow(_commit: Commit) -> None:
            began.set()
            await gate.wait()

        stage.store.meeting = slow
        caller = asyncio.ensure_future(stage.host.import_session(document))
        await began.wait()
        caller.cancel()
        await asyncio.wait({caller})
        gate.set()
        await asyncio.sleep(1)
        assert await stage.store.memory.count() == 2
