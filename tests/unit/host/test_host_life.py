"""A host from its start, on what another left, to its stop, in the middle of whatever is asked of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.core import commands as c
from antiphon.core.errors import AntiphonError, Draining, NotFound, StoreUnavailable
from antiphon.host.service import NewMessage
from antiphon.host.views import EventView, Receipt
from antiphon.ports.store import Commit, StoreDamaged
from antiphon.testing.scripted_agent import Hold, IgnoreCancel, Say
from hostlab.stage import FaultyStore, Stage, in_virtual_time, staged


@asynccontextmanager
async def left_running(texts: list[str], **settings: Any) -> AsyncGenerator[tuple[FaultyStore, list[Receipt]], None]:
    """What a host leaves that is cut off in the middle of a turn, with further messages waiting."""
    stage = Stage(**settings)
    await stage.host.start()
    await stage.open()
    receipts = [await stage.hold("k", texts[0]), *[await stage.send("k", text) for text in texts[1:]]]
    store = FaultyStore()
    store.memory, store.ids = stage.store.memory, stage.store.ids
    dead = [task for task in asyncio.all_tasks() if task.get_name().startswith(("host:", "actor:", "driver:"))]
    stage.store.away = True
    for task in dead:
        task.cancel()
    await asyncio.wait(dead)
    yield store, receipts


# Starting on what another host left


@in_virtual_time
async def test_a_turn_of_another_life_is_interrupted_and_the_queue_runs() -> None:
    async with left_running(["hold", "queued"]) as (store, (held, queued)), staged(store=store) as stage:
        end = await stage.end_of(held.id)
        assert (end.state, end.reply) == ("interrupted", "so far ")
        assert (await stage.end_of(queued.id)).reply == "answer to queued"
        assert stage.prompts() == ["queued"]


@in_virtual_time
async def test_a_session_whose_recovery_the_store_did_not_take_is_settled_before_anything_else_happens_in_it() -> None:
    """Otherwise the turn of another life would be taken for one that is still to be begun, and prompted once more."""
    async with left_running(["hold"]) as (store, (held,)):
        stage = Stage(store=store)

        async def refuse(_commit: Commit) -> None:
            raise StoreUnavailable("The disk is full.")

        store.meeting = refuse
        await stage.host.start()
        assert 10 <= stage.clock.monotonic() < 12, "it does not wait for ever"
        store.meeting = None
        assert (await stage.ask("k", "hello")).reply == "answer to hello"
        assert (await stage.end_of(held.id)).state == "interrupted"
        assert stage.prompts() == ["hello"]
        await stage.host.stop()


@in_virtual_time
async def test_a_session_that_could_not_be_settled_at_the_start_is_settled_once_the_store_is_back() -> None:
    async with left_running(["hold", "queued"]) as (store, (held, queued)):
        stage = Stage(store=store)

        async def refuse(_commit: Commit) -> None:
            raise StoreUnavailable("The disk is full.")

        store.meeting = refuse
        await stage.host.start()
        store.meeting = None
        assert (await stage.end_of(queued.id)).reply == "answer to queued"
        assert (await stage.end_of(held.id)).state == "interrupted"
        await stage.host.stop()


@in_virtual_time
async def test_a_session_that_can_not_be_read_keeps_no_host_from_starting() -> None:
    async with left_running(["hold"]) as (store, (held,)):
        stage = Stage(store=store)
        load = store.memory.load

        async def damaged(session_id: str) -> Any:
            if session_id == held.session_id:
                raise StoreDamaged("It can't be read.", session_id=session_id)
            return await load(session_id)

        store.memory.load = damaged  # pyright: ignore[reportAttributeAccessIssue]
        await stage.host.start()
        assert stage.clock.monotonic() < 1
        await stage.open("other")
        assert (await stage.ask("other", "hello")).reply == "answer to hello"
        with pytest.raises(StoreUnavailable):
            await stage.send("k", "hello")
        store.memory.load = load
        assert (await stage.ask("k", "hello")).reply == "answer to hello"
        await stage.host.stop()


# Stopping


@in_virtual_time
async def test_a_stop_while_the_store_is_away_is_over_in_bounded_time_and_tells_who_waits() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        actor = stage.actor(held.session_id)
        gate = asyncio.Event()

        async def hang(_commit: Commit) -> None:
            await gate.wait()

        stage.store.meeting = hang
        patch = asyncio.ensure_future(actor.ask(c.PatchSession(changes={"title": "mine"})))
        behind = asyncio.create_task(_later(actor, c.PatchSession(changes={"title": "behind"})))
        await asyncio.sleep(0.1)
        began = stage.clock.monotonic()
        await stage.host.stop()
        assert stage.clock.monotonic() - began < 30
        with pytest.raises(StoreUnavailable) as told:
            await patch
        assert told.value.ids == {"in_doubt": True}
        with pytest.raises(Draining):
            await behind


async def _later(actor: Any, command: c.Command) -> Any:
    await asyncio.sleep(0.05)
    return await actor.ask(command)


@in_virtual_time
async def test_what_an_agent_came_to_before_the_stop_is_in_the_journal_after_it() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "hello")

        async def slow(_commit: Commit) -> None:
            await asyncio.sleep(0.5)

        stage.store.meeting = slow
        await stage.host.stop()
        session = await stage.store.memory.load(session_id)
        assert session is not None
        assert session.agent_run is None


@in_virtual_time
async def test_waiters_are_told_how_things_stand_when_the_host_stops() -> None:
    async with staged(drain_s=0.1, cancel_grace_s=0.2) as stage:
        stage.agent.script = lambda _text: [Say("so far "), IgnoreCancel(), Hold("never")]
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        assert held.turn_id is not None
        waits = (
            stage.host.wait_message(held.id, None),
            stage.host.wait_message(queued.id, None),
            stage.host.wait_turn(held.turn_id, None),
        )
        waiting = asyncio.gather(*waits)
        await asyncio.sleep(0.01)
        await stage.host.stop()
        async with asyncio.timeout(1):
            ended, waits_on, turn = await waiting
        assert (ended.state, ended.reply, turn.state) == ("interrupted", "so far ", "interrupted")
        assert (waits_on.state, waits_on.waiting_for) == ("queued", "the host to start again: it is shutting down")


@in_virtual_time
async def test_who_asks_a_host_that_has_stopped_is_refused_or_told_what_stands_and_starts_nothing() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        done = await stage.ask("k", "hello")
        await stage.host.stop()
        assert (await stage.host.wait_message(done.id, None)).reply == "answer to hello"
        assert done.turn_id is not None
        assert (await stage.host.wait_turn(done.turn_id, None)).state == "completed"
        host = stage.host
        for refused in (
            host.send("k", NewMessage(text="late")),
            host.patch_session("k", {"title": "late"}, if_match=None),
            host.clear_session("k"),
            host.stop_session("k"),
            host.resume_session("k"),
            host.delete_session(session_id),
            host.cancel_turn(done.turn_id),
            host.withdraw_message(done.id),
        ):
            with pytest.raises(Draining):
                await refused


@in_virtual_time
async def test_whatever_is_asked_of_a_stopping_host_gets_an_answer() -> None:
    async with staged(drain_s=1.0) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        asked: list[asyncio.Task[Any]] = []

        async def go_on_asking() -> None:
            for number in range(60):
                host = stage.host
                asked.append(asyncio.ensure_future(host.patch_session("k", {"title": f"{number}"}, if_match=None)))
                asked.append(asyncio.ensure_future(host.wait_message(held.id, None)))
                asked.append(asyncio.ensure_future(host.clear_session("k")))
                await asyncio.sleep(0.05)

        asking = asyncio.ensure_future(go_on_asking())
        await asyncio.sleep(0.1)
        await stage.host.stop()
        await asking
        done, pending = await asyncio.wait(asked, timeout=1)
        assert not pending
        errors = [task.exception() for task in done]
        assert all(error is None or isinstance(error, AntiphonError) for error in errors)


@in_virtual_time
async def test_a_stop_in_a_hurry_gives_running_turns_no_time() -> None:
    async with staged(drain_s=3600.0) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        stopping = asyncio.ensure_future(stage.host.stop())
        await asyncio.sleep(1)
        stage.host.hurry()
        await stopping
        assert stage.clock.monotonic() < 5
        message = await stage.store.memory.message(held.id)
        assert message is not None
        assert message.message.state in ("interrupted", "running")


@in_virtual_time
async def test_followers_come_to_their_end_when_the_host_stops() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")

        async def follow(events: Any) -> list[Any]:
            return [event async for event in events]

        followers = [
            asyncio.ensure_future(follow(stage.host.follow("k", after=None))),
            asyncio.ensure_future(follow(stage.host.follow_all(after=None))),
            asyncio.ensure_future(follow(stage.host.follow_message(held.id))),
        ]
        await asyncio.sleep(0.01)
        await stage.host.stop()
        async with asyncio.timeout(1):
            session, _feed, message = await asyncio.gather(*followers)
        assert isinstance(session[0], EventView)
        assert isinstance(message[-1], Receipt)


# Actors come and go


@in_virtual_time
async def test_quiet_actors_are_put_to_sleep_and_wake_up_with_everything() -> None:
    async with staged(agent_idle_s=1.0, awake_idle_s=5.0) as stage:
        await stage.open()
        await stage.ask("k", "first")
        await asyncio.sleep(20)
        assert (await stage.host.status()).sessions_awake == 0
        assert (await stage.ask("k", "second")).reply == "answer to second"


@in_virtual_time
async def test_a_waiter_that_left_does_not_keep_a_session_awake() -> None:
    async with staged(agent_idle_s=1.0, awake_idle_s=5.0) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        assert held.turn_id is not None
        waiter = asyncio.ensure_future(stage.host.wait_turn(held.turn_id, None))
        await asyncio.sleep(0.1)
        waiter.cancel()
        stage.agent.release("hold")
        await stage.end_of(held.id)
        await asyncio.sleep(20)
        assert (await stage.host.status()).sessions_awake == 0


@in_virtual_time
async def test_a_command_that_comes_as_its_actor_falls_asleep_is_carried_out() -> None:
    async with staged(agent_idle_s=0.5, awake_idle_s=1.0) as stage:
        await stage.open()
        for number in range(80):
            assert (await stage.host.patch_session("k", {"title": f"{number}"}, if_match=None)).title == f"{number}"
            await asyncio.sleep(0.9 + number / 100)


@in_virtual_time
async def test_names_that_no_session_has_leave_no_actors_behind() -> None:
    async with staged(awake_idle_s=1.0) as stage:
        for number in range(50):
            with pytest.raises(NotFound):
                await stage.send(f"ses_{number:032x}", "hello")
        await asyncio.sleep(5)
        assert (await stage.host.status()).sessions_awake == 0


@in_virtual_time
async def test_a_session_that_can_not_be_read_for_long_keeps_the_others_from_nothing() -> None:
    async with staged(awake_idle_s=1.0, permission_deadline_s=1.0) as stage:
        session_id = await stage.open()
        await stage.open("other")

        async def damaged(commit: Commit) -> None:
            if commit.session.id == session_id:
                raise StoreDamaged("It can't be read.")

        stage.store.meeting = damaged
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await stage.send("k", "hello")
            await asyncio.sleep(2)
        assert (await stage.ask("other", "hello")).reply == "answer to hello"


# Waiting


@in_virtual_time
async def test_who_waits_for_a_message_of_a_session_that_is_deleted_gets_its_receipt() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        waiting = asyncio.gather(*[stage.host.wait_message(receipt.id, None) for receipt in (held, queued)])
        await asyncio.sleep(0.01)
        await stage.host.delete_session("k")
        states = [(receipt.state, receipt.reply) for receipt in await waiting]
        assert states == [("cancelled", "so far "), ("cancelled", None)]


@in_virtual_time
async def test_a_session_deleted_between_a_waiters_two_looks_still_gives_it_its_receipt() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        deleted = asyncio.Event()

        async def slow(method: str) -> None:
            if method == "message":
                await deleted.wait()

        stage.actor(held.session_id)._at_hand.lose()  # so that its receipt is read from the store
        stage.store.reading = slow
        waiter = asyncio.ensure_future(stage.host.wait_message(held.id, None))
        await asyncio.sleep(0.01)
        await stage.host.delete_session("k")
        deleted.set()
        assert (await waiter).state == "cancelled"


@in_virtual_time
async def test_who_comes_to_wait_just_after_the_deletion_gets_the_receipt_and_who_only_looks_finds_nothing() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        await stage.host.delete_session("k")
        assert (await stage.host.wait_message(held.id, None)).state == "cancelled"
        (told,) = [item async for item in stage.host.follow_message(held.id)]
        assert isinstance(told, Receipt)
        assert told.state == "cancelled"
        with pytest.raises(NotFound):
            await stage.host.receipt(held.id)
        with pytest.raises(NotFound):
            await stage.host.wait_message(stage.ids.new("msg"), None)


@in_virtual_time
async def test_a_wait_for_a_turn_ends_with_the_turn_and_not_before_its_start_is_durable() -> None:
    async with staged() as stage:
        await stage.open()
        started = asyncio.Event()

        async def slow(commit: Commit) -> None:
            if any(entry.type == "turn.started" for entry in commit.entries):
                started.set()
                await asyncio.sleep(1)

        stage.store.after = slow
        sending = asyncio.ensure_future(stage.send("k", "hold"))
        await started.wait()
        (running,) = (await stage.host.turns("k")).items
        waiter = asyncio.ensure_future(stage.host.wait_turn(running.id, None))
        await sending
        await asyncio.sleep(1)
        assert not waiter.done()
        stage.agent.release("hold")
        assert (await waiter).state == "completed"


@in_virtual_time
async def test_a_receipt_read_while_its_session_is_deleted_is_whole_or_not_found() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        done = await stage.ask("k", "hello")
        reading, gate = asyncio.Event(), asyncio.Event()

        async def slow(method: str) -> None:
            if method == "reply":
                reading.set()
                await gate.wait()

        stage.store.reading = slow
        looking = asyncio.ensure_future(stage.host.receipt(done.id))
        await reading.wait()
        await stage.host.delete_session(session_id)
        gate.set()
        with pytest.raises(NotFound):
            await looking


@in_virtual_time
async def test_a_follower_of_a_message_is_told_its_answer_and_last_its_receipt() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")

        async def follow(message_id: str) -> list[Any]:
            return [item async for item in stage.host.follow_message(message_id)]

        both = asyncio.gather(follow(held.id), follow(queued.id))
        await asyncio.sleep(0.01)
        stage.agent.release("hold")
        for items, reply in zip(await both, ("so far answer to hold", "answer to queued"), strict=True):
            assert "".join(item.data["text"] for item in items[:-1] if item.type == "turn.text") == reply
            assert items[-1].reply == reply


@in_virtual_time
async def test_a_viewer_that_was_behind_when_its_session_was_deleted_is_told_of_the_gap() -> None:
    async with staged() as stage:
        await stage.open()
        stage.agent.script = lambda _text: [Say(f"{number} ") for number in range(3000)]
        events = stage.host.follow("k", after=None)
        first = await anext(events)
        await stage.ask("k", "count")
        await stage.host.delete_session("k")
        rest = [event async for event in events]
        assert first.type == "session.created"
        kinds = [event.type for event in rest]
        assert kinds[-2:] == ["gap", "session.deleted"]
        told_of = int(rest[-3].cursor.rpartition(":")[2]) if len(rest) > 2 else 1
        assert rest[-2].data == {"asked_for": f"memory:{told_of}"}
        assert int(rest[-1].cursor.rpartition(":")[2]) > told_of + 1
