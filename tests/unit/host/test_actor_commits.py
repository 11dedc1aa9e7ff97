"""What becomes of a batch when its commit does not simply succeed."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from antiphon.core import commands as c
from antiphon.core.decide import Given
from antiphon.core.errors import AntiphonError, Busy, Conflict, KeyReused, StoreUnavailable
from antiphon.core.step import Step
from antiphon.host.service import NewMessage, NewSession
from antiphon.ports.store import Commit, StoreDamaged
from antiphon.testing.scripted_agent import Hold, Say
from hostlab.stage import Awkward, Stage, in_virtual_time, staged

Meeting = Callable[[Commit], Awaitable[None]]


async def another_writes(stage: Stage, session_id: str, number: int) -> None:
    """Change metadata as another process does: nobody here is told."""
    session = await stage.store.memory.load(session_id)
    assert session is not None
    step = Step(session, Given(now=stage.clock.now()), session_id=session_id)
    step.take(c.PatchSession(changes={"labels": {"other": str(number)}}))
    assert step.session is not None
    await stage.store.memory.commit(
        Commit(session=step.session, expected=session.sequence, entries=tuple(step.entries))
    )


def always_first(stage: Stage, session_id: str, times: int = 1_000_000) -> tuple[Meeting, list[int]]:
    """Another writer that comes first, so many times; and the numbers of what it wrote."""
    written: list[int] = []

    async def meet(commit: Commit) -> None:
        if commit.session.id == session_id and len(written) < times:
            written.append(len(written))
            await another_writes(stage, session_id, len(written))

    return meet, written


def once_in_doubt(stage: Stage, *types: str, written: bool) -> None:
    """Let the outcome of the next commit that has an event of these types be unknown."""
    open_ = [True]

    async def fail(commit: Commit) -> None:
        if open_ and any(entry.type in types for entry in commit.entries):
            open_.clear()
            raise StoreUnavailable("The connection is lost.", in_doubt=True)

    if written:
        stage.store.after = fail
    else:
        stage.store.meeting = fail


# Other writers


@in_virtual_time
async def test_a_command_that_others_came_before_is_decided_anew_and_theirs_is_kept() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        stage.store.meeting, written = always_first(stage, session_id, times=3)
        view = await stage.host.patch_session("k", {"title": "mine"}, if_match=None)
        assert (view.title, view.labels, len(written)) == ("mine", {"other": "3"}, 3)


@in_virtual_time
async def test_when_the_tries_run_out_the_error_names_the_session_and_counts_them() -> None:
    async with staged(conflict_attempts=4) as stage:
        session_id = await stage.open("telegram:42")
        stage.store.meeting, written = always_first(stage, session_id)
        with pytest.raises(Conflict, match="telegram:42") as refused:
            await stage.host.patch_session("telegram:42", {"title": "mine"}, if_match=None)
        assert refused.value.ids == {"session_id": session_id, "attempts": 4}
        assert len(written) == 4


@in_virtual_time
async def test_after_the_tries_ran_out_the_next_command_starts_clean() -> None:
    async with staged(conflict_attempts=4) as stage:
        session_id = await stage.open()
        stage.store.meeting, _ = always_first(stage, session_id, times=4)
        with pytest.raises(Conflict):
            await stage.host.patch_session("k", {"title": "lost"}, if_match=None)
        assert (await stage.ask("k", "hello")).reply == "answer to hello"
        assert (await stage.host.session("k")).title is None


@in_virtual_time
async def test_the_pauses_between_the_tries_are_bounded_and_grow() -> None:
    async with staged(conflict_attempts=12) as stage:
        session_id = await stage.open()
        tries: list[float] = []
        meet, _ = always_first(stage, session_id)

        async def timed(commit: Commit) -> None:
            tries.append(stage.clock.monotonic())
            await meet(commit)

        stage.store.meeting = timed
        with pytest.raises(Conflict):
            await stage.host.patch_session("k", {"title": "mine"}, if_match=None)
        pauses = [after - before for before, after in pairwise(tries)]
        assert pauses[0] < 0.1 < max(pauses) <= 3.0
        assert sum(pauses[:4]) < sum(pauses[-4:])


@in_virtual_time
async def test_those_behind_a_command_whose_tries_ran_out_are_told_too() -> None:
    async with staged(conflict_attempts=3) as stage:
        session_id = await stage.open()
        actor = stage.actor(session_id)
        stage.store.meeting, _ = always_first(stage, session_id)
        first = asyncio.ensure_future(actor.ask(c.PatchSession(changes={"title": "first"})))
        await asyncio.sleep(0.001)
        behind = asyncio.ensure_future(actor.ask(c.PatchSession(changes={"title": "behind"})))
        outcomes = await asyncio.gather(first, behind, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Conflict, Conflict]


@in_virtual_time
async def test_another_session_does_not_notice_that_tries_run_out() -> None:
    async with staged(conflict_attempts=3) as stage:
        session_id = await stage.open()
        await stage.open("other")
        stage.store.meeting, _ = always_first(stage, session_id)
        patch = asyncio.ensure_future(stage.host.patch_session("k", {"title": "mine"}, if_match=None))
        assert (await stage.ask("other", "hello")).reply == "answer to hello"
        with pytest.raises(Conflict):
            await patch


@in_virtual_time
async def test_what_an_agent_says_while_others_always_come_first_is_kept_and_told_once_they_rest() -> None:
    async with staged(conflict_attempts=3) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        stage.store.meeting, written = always_first(stage, held.session_id, times=20)
        stage.agent.release("hold")
        assert (await stage.end_of(held.id)).reply == "so far answer to hold"
        assert len(written) == 20


@in_virtual_time
async def test_a_turn_whose_start_met_other_writers_until_the_tries_ran_out_starts_without_another_trigger() -> None:
    async with staged(conflict_attempts=3) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        meet, _ = always_first(stage, held.session_id, times=7)

        async def at_the_start(commit: Commit) -> None:
            if any(entry.type in ("turn.ended", "turn.started") for entry in commit.entries):
                await meet(commit)

        stage.store.meeting = at_the_start
        stage.agent.release("hold")
        assert (await stage.end_of(queued.id)).reply == "answer to queued"


# A store that is away


@in_virtual_time
async def test_a_command_that_the_store_can_not_take_is_refused_at_once_and_nothing_of_it_is_there() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        stage.store.away = True
        with pytest.raises(StoreUnavailable) as refused:
            await stage.actor(session_id).ask(c.PatchSession(changes={"title": "mine"}))
        assert "in_doubt" not in refused.value.ids
        stage.store.away = False
        assert (await stage.host.session("k")).title is None


@in_virtual_time
async def test_what_an_agent_says_while_the_store_is_away_is_committed_when_it_is_back() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        stage.store.away = True
        stage.agent.release("hold")
        await asyncio.sleep(30)
        stage.store.away = False
        assert (await stage.end_of(held.id)).reply == "so far answer to hold"


@in_virtual_time
async def test_a_message_that_waits_runs_once_the_store_is_back_though_nobody_asks_for_it() -> None:
    async with staged(max_agents=1) as stage:
        await stage.open()
        await stage.open("other")
        held = await stage.hold("other")
        waiting = await stage.send("k", "waiting")

        async def refuse(commit: Commit) -> None:
            if commit.session.key == "k":
                raise StoreUnavailable("The disk is full.")

        stage.store.meeting = refuse
        stage.agent.release("hold")
        await stage.end_of(held.id)
        await asyncio.sleep(5)
        assert (await stage.host.receipt(waiting.id)).waiting_for == (
            "the store to take it: the last attempt did not succeed"
        )
        stage.store.meeting = None
        assert (await stage.end_of(waiting.id)).reply == "answer to waiting"


@in_virtual_time
async def test_a_place_taken_for_a_turn_that_could_not_be_written_is_given_back_when_the_message_goes() -> None:
    async with staged(max_agents=1) as stage:
        session_id = await stage.open()
        await stage.open("other")
        held = await stage.hold("other")
        waiting = await stage.send("k", "waiting")

        async def refuse(commit: Commit) -> None:
            if commit.session.id == session_id and any(entry.type == "turn.started" for entry in commit.entries):
                raise StoreUnavailable("The disk is full.")

        stage.store.meeting = refuse
        stage.agent.release("hold")
        await stage.end_of(held.id)
        await asyncio.sleep(5)
        stage.store.meeting = None
        await stage.host.stop_session("k")
        assert (await stage.ask("other", "next")).reply == "answer to next"
        assert (await stage.host.receipt(waiting.id)).waiting_for == f"session {session_id} was stopped: resume it"


# An outcome that is unknown


@in_virtual_time
@pytest.mark.parametrize("away_s", [0.0, 20.0])
@pytest.mark.parametrize("written", [True, False])
async def test_what_an_agent_said_in_a_commit_of_unknown_outcome_is_told_once(written: bool, away_s: float) -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Say("one "), Hold("a"), Say("two "), Hold("b"), Say("three")]
        held = await stage.hold("k" if await stage.open() else "")

        async def lost(_commit: Commit) -> None:
            stage.store.after = stage.store.meeting = None
            stage.store.away = away_s > 0
            raise StoreUnavailable("The connection is lost.", in_doubt=True)

        if written:
            stage.store.after = lost
        else:
            stage.store.meeting = lost
        stage.agent.release("a")
        await asyncio.sleep(away_s)
        stage.store.away = False
        stage.agent.release("b")
        assert (await stage.end_of(held.id)).reply == "one two three"
        assert (await stage.types(held.session_id)).count("turn.text") == 3


@in_virtual_time
async def test_who_waits_for_a_commit_whose_outcome_stays_unknown_is_told_so_and_it_is_done_once() -> None:
    async with staged(conflict_attempts=3) as stage:
        session_id = await stage.open()

        async def lost(_commit: Commit) -> None:
            stage.store.after = None
            stage.store.away = True
            raise StoreUnavailable("The connection is lost.", in_doubt=True)

        stage.store.after = lost
        with pytest.raises(StoreUnavailable) as told:
            await stage.send(session_id, "hello", idempotency_key="key", digest="d")
        assert told.value.ids == {"in_doubt": True}
        stage.store.away = False
        again = await stage.ask("k", "hello", idempotency_key="key", digest="d")
        assert again.reply == "answer to hello"
        assert stage.prompts() == ["hello"]


@in_virtual_time
async def test_a_deletion_of_unknown_outcome_ends_its_agent_and_tells_who_waits() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        waiter = asyncio.ensure_future(stage.host.wait_message(held.id, None))
        await asyncio.sleep(0.01)
        once_in_doubt(stage, "session.deleted", written=True)
        await stage.host.delete_session("k")
        assert (await waiter).state == "cancelled"
        assert (await stage.host.status()).agents_open == 0


@in_virtual_time
@pytest.mark.parametrize("written", [True, False])
async def test_a_creation_of_unknown_outcome_is_found_out(written: bool) -> None:
    async with staged() as stage:
        once_in_doubt(stage, "session.created", written=written)
        new = NewSession(agent="scripted", key="k")
        if written:
            view, made = await stage.host.create_session(new, return_existing=False)
            assert (view.key, made) == ("k", True)
        else:
            with pytest.raises(StoreUnavailable) as refused:
                await stage.host.create_session(new, return_existing=False)
            assert "in_doubt" not in refused.value.ids
            assert await stage.store.memory.count() == 0


@in_virtual_time
async def test_the_feed_tells_of_a_session_whose_creation_was_of_unknown_outcome() -> None:
    async with staged() as stage:
        feed = stage.host.follow_all(after=None)
        told = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0.01)
        once_in_doubt(stage, "session.created", written=True)
        await stage.open()
        async with asyncio.timeout(5):
            assert (await told)[1].type == "session.created"
        await feed.aclose()


# Callers that leave, and batches


@in_virtual_time
async def test_a_creation_is_finished_though_its_caller_left() -> None:
    async with staged() as stage:
        began, gate = asyncio.Event(), asyncio.Event()

        async def slow(_commit: Commit) -> None:
            began.set()
            await gate.wait()

        stage.store.meeting = slow
        caller = asyncio.ensure_future(stage.open())
        await began.wait()
        caller.cancel()
        await asyncio.wait({caller})
        feed = stage.host.follow_all(after=None)
        told = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0.01)
        gate.set()
        async with asyncio.timeout(5):
            assert (await told)[1].data["key"] == "k"
        await feed.aclose()


@in_virtual_time
async def test_a_command_is_carried_out_though_its_caller_left() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        caller = asyncio.ensure_future(stage.actor(session_id).ask(c.PatchSession(changes={"title": "mine"})))
        await asyncio.sleep(0)
        caller.cancel()
        await stage.until(session_id, lambda session: session.title == "mine")


@in_virtual_time
async def test_a_key_whose_first_send_is_refused_in_the_same_batch_is_not_spent() -> None:
    async with staged() as stage:
        await stage.hold("k" if await stage.open() else "")
        sends = [stage.send("k", "hi", when_busy="refuse", idempotency_key="key", digest="d") for _ in range(3)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Busy] * 3


@in_virtual_time
async def test_one_key_with_two_bodies_in_one_batch_is_one_message_and_a_refusal() -> None:
    async with staged() as stage:
        await stage.open()
        first, other = await asyncio.gather(
            stage.send("k", "a", idempotency_key="key", digest="a"),
            stage.send("k", "b", idempotency_key="key", digest="b"),
            return_exceptions=True,
        )
        assert not isinstance(first, BaseException)
        assert isinstance(other, KeyReused)


@in_virtual_time
async def test_a_message_accepted_in_the_commit_that_deletes_its_session_is_told_as_cancelled() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        actor = stage.actor(session_id)
        sending, deleting = stage.host.send(session_id, NewMessage(text="late")), actor.ask(c.DeleteSession())
        receipt, _ = await asyncio.gather(sending, deleting)
        assert (receipt.state, receipt.turn_id is None) == ("cancelled", False)


@in_virtual_time
async def test_a_message_is_accepted_though_nothing_can_be_read_any_more() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.hold("k")

        async def unreadable(_method: str) -> None:
            raise StoreUnavailable("It can only be written.")

        stage.store.reading = unreadable
        receipt = await stage.send(session_id, "queued")
        assert (receipt.state, receipt.position) == ("queued", 1)


# Flaws and damage stay where they are


@in_virtual_time
async def test_a_command_that_meets_a_flaw_fails_alone_in_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Step.take

    def trip(self: Step, command: c.Command) -> object:
        if isinstance(command, c.PatchSession) and command.changes.get("title") == "trip":
            raise RuntimeError("a flaw")
        return take(self, command)

    monkeypatch.setattr(Step, "take", trip)
    async with staged() as stage:
        await stage.open()
        titles = ("one", "trip", "two")
        patches = [stage.host.patch_session("k", {"labels": {t: t}, "title": t}, if_match=None) for t in titles]
        outcomes = await asyncio.gather(*patches, return_exceptions=True)
        assert [isinstance(outcome, AntiphonError) for outcome in outcomes] == [False, True, False]
        view = await stage.host.session("k")
        assert (view.title, view.labels) == ("two", {"one": "one", "two": "two"})


@in_virtual_time
async def test_what_was_committed_is_not_done_again_when_telling_of_it_meets_a_flaw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with staged() as stage:
        session_id = await stage.open()
        publish = stage.host.context.fanout.publish

        def trip(session_id: str, entries: tuple[object, ...]) -> None:
            monkeypatch.setattr(stage.host.context.fanout, "publish", publish)
            raise RuntimeError("a flaw")

        monkeypatch.setattr(stage.host.context.fanout, "publish", trip)
        actor = stage.actor(session_id)
        await asyncio.gather(
            *[actor.ask(c.PatchSession(changes={"title": title})) for title in ("one", "two")], return_exceptions=True
        )
        await stage.ask("k", "hello")
        assert (await stage.types(session_id)).count("session.updated") == 2


@in_virtual_time
async def test_a_session_that_can_not_be_read_frees_its_place_for_the_others() -> None:
    async with staged(max_agents=1) as stage:
        session_id = await stage.open()
        await stage.open("other")
        await stage.ask("k", "hello")
        damaged = True

        async def damage(commit: Commit) -> None:
            if commit.session.id == session_id and damaged:
                raise StoreDamaged("It can't be read.", session_id=session_id)

        stage.store.meeting = damage
        with pytest.raises(StoreDamaged):
            await stage.host.patch_session("k", {"title": "mine"}, if_match=None)
        assert (await stage.ask("other", "hello")).reply == "answer to hello"
        damaged = False
        assert (await stage.ask("k", "again")).reply == "answer to again"


@in_virtual_time
async def test_a_session_that_comes_to_be_unreadable_in_its_turn_does_not_keep_the_others_waiting() -> None:
    async with staged(max_agents=1) as stage:
        held = await stage.hold("k" if await stage.open() else "")
        await stage.open("other")
        waiting = await stage.send("other", "hello")

        async def damage(commit: Commit) -> None:
            if commit.session.id == held.session_id:
                raise StoreDamaged("It can't be read.", session_id=held.session_id)

        stage.store.meeting = damage
        stage.agent.release("hold")
        assert (await stage.end_of(waiting.id)).reply == "answer to hello"


@in_virtual_time
async def test_an_agent_that_talks_without_end_waits_while_the_store_is_away() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Hold("go"), *[Say(f"{number} ") for number in range(5000)]]
        await stage.open()
        receipt = await stage.send("k", "count")
        await stage.until(receipt.session_id, lambda session: session.running is not None)
        stage.store.away = True
        stage.agent.release("go")
        await asyncio.sleep(60)
        conversation = stage.conversation()
        assert conversation._turn is not None
        assert len(conversation._turn.steps) > 4000
        stage.store.away = False
        end = await stage.end_of(receipt.id)
        assert end.reply == "".join(f"{number} " for number in range(5000))


@in_virtual_time
async def test_a_message_ends_though_its_receipt_could_not_be_read_for_who_waits() -> None:
    async with staged() as stage:
        stage.host.context.agents["awkward"] = Awkward()  # pyright: ignore[reportIndexIssue]
        held = await stage.hold("k" if await stage.open() else "")
        actor = stage.actor(held.session_id)
        actor._at_hand.lose()  # as of a turn that was begun in another life

        async def unreadable(method: str) -> None:
            if method == "reply":
                raise StoreUnavailable("It is away.")

        waiter = asyncio.ensure_future(stage.host.wait_message(held.id, None))
        await asyncio.sleep(0.01)
        stage.store.reading = unreadable
        stage.agent.release("hold")
        with pytest.raises(StoreUnavailable):
            await waiter
        stage.store.reading = None
        assert (await stage.end_of(held.id)).reply == "so far answer to hold"
