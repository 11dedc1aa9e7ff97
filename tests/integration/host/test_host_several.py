"""Several hosts over one store: who owns a session, what a guest may do, and what happens when that changes."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.host.service import NewSession
from antiphon.ports.store import Commit
from antiphon.store.memory import MemoryStore
from antiphon.testing.scripted_agent import Ask, Say
from hostlab.house import BriskClock, holds
from hostlab.line import write_beside
from hostlab.town import WAIT_S, CommonMemory, CommonPostgres, Resident, Town
from real_postgres import RealPostgres

_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "postgres"])
async def town(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Town]:
    clock = BriskClock()
    if request.param == "postgres":
        server: RealPostgres = request.getfixturevalue("real_postgres")
        common = CommonPostgres(server.url, f"town_{next(_numbers)}")
    else:
        common = CommonMemory(clock)
    town = Town(common, clock, str(tmp_path))
    yield town
    await town.leave()


in_memory = pytest.mark.parametrize("town", ["memory"], indirect=True)
"""For what only that store can be made to do; PostgreSQL itself is tried by the end-to-end tests and by chaos."""


async def opened(at: Resident, key: str = "k", **fields: object) -> str:
    """A session that this host owns."""
    new = NewSession(agent="scripted", key=key, **fields)  # pyright: ignore[reportArgumentType]
    view, _ = await at.host.create_session(new, return_existing=False)
    assert (await at.ask(key, "hello")).reply == "answer to hello"
    await at.owns(view.id)
    return view.id


async def test_the_owner_answers_what_is_sent_at_any_door(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    end = await beta.ask("k", "A")
    assert (end.state, end.reply) == ("answered", "answer to A")
    assert (alpha.answered, beta.answered) == (["hello", "A"], [])


async def test_a_door_that_hears_nothing_still_decides_by_what_is_stored(town: Town) -> None:
    """A refusal for what was over before, or by a host that does not know yet, would be a lie."""
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    alpha.line.deaf = beta.line.deaf = True
    await write_beside(beta.line.store, session_id, c.StopSession())
    with pytest.raises(errors.AntiphonError) as stopped:
        await alpha.send("k", "A")
    assert stopped.value.code == "session_stopped"
    await write_beside(beta.line.store, session_id, c.ResumeSession())
    assert (await alpha.ask("k", "B")).reply == "answer to B"
    await beta.host.patch_session(session_id, {"title": "t"}, if_match=None)
    assert (await alpha.host.session(session_id)).title == "t"


@pytest.mark.parametrize("door", ["the owner's", "another"])
async def test_a_command_with_nothing_to_do_looks_first_at_what_others_just_did(town: Town, door: str) -> None:
    """What was accepted at one door a moment ago is cancelled at the other: its notice need not have come yet."""
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    await beta.ask("k", "A")
    await alpha.hold("k")
    here, there = (alpha, beta) if door == "the owner's" else (beta, alpha)
    here.line.deaf = True
    waiting = await there.send("k", "B")
    assert [one.id for one in (await here.host.cancel_queue("k")).items] == [waiting.id]


async def test_what_is_written_between_the_two_reads_of_a_look_is_news_too(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that read the journal before it was written, and the session after that, must not miss it."""
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    alpha.line.deaf = True
    actor, written = alpha.host.actor(session_id), asyncio.Event()
    store, before = alpha.line.store, await alpha.line.store.load(session_id)

    async def entries(id: str, *, after: int, limit: int) -> object:
        found = await store.entries(id, after=after, limit=limit)
        if not written.is_set():
            await write_beside(beta.line.store, session_id, c.PauseQueue())
            written.set()
        return found

    async def load(id: str) -> object:
        await written.wait()
        return await store.load(id)

    monkeypatch.setattr(alpha.line, "entries", entries, raising=False)
    monkeypatch.setattr(alpha.line, "load", load, raising=False)
    session, news = await actor._look(before)  # pyright: ignore[reportPrivateUsage]
    assert session is not None
    assert before is not None
    assert [entry.sequence for entry in news] == [*range(before.sequence + 1, session.sequence + 1)] != []


async def test_a_turn_that_has_ended_at_one_door_is_no_reason_to_refuse_at_another(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    for number in range(10):
        here, there = (alpha, beta) if number % 2 else (beta, alpha)
        assert (await here.ask("k", f"{number}a", when_busy="refuse")).state == "answered"
        assert (await there.ask("k", f"{number}b", when_busy="refuse")).state == "answered"


async def test_what_an_agent_asks_is_answered_at_another_door(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    alpha.agent.script = lambda text: [Ask("May I?"), Say(f"did {text}")]
    receipt = await beta.send("k", "A")
    session = await beta.until(session_id, lambda session: session.permissions)
    view = await beta.host.answer_permission(
        session.permissions[0].id, decision="allow", option_id=None, note=None, by="b"
    )
    assert view.state == "allowed"
    assert (await beta.end_of(receipt)).reply == "did A"


async def test_a_turn_is_cancelled_at_another_door_and_the_agent_confirms(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    held = await beta.hold("k")
    assert held.turn_id is None or held.state == "running"
    turn_id = (await beta.host.receipt(held.id)).turn_id
    assert turn_id
    async with asyncio.timeout(WAIT_S):
        cancelled = await beta.host.cancel_turn(turn_id)
    assert (cancelled.state, cancelled.confirmed) == ("cancelled", True)
    assert (await beta.end_of(held)).state == "cancelled"


async def test_a_session_is_stopped_at_another_door_once_its_agent_is_gone(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    await beta.until(session_id, lambda session: session.agent_run)
    async with asyncio.timeout(WAIT_S):
        stopped = await beta.host.stop_session("k")
    assert stopped.status == "stopped"
    session = await beta.line.store.load(session_id)
    assert session is not None and session.agent_run is None


async def test_one_who_waits_hears_that_another_host_deleted_the_session(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    held = await alpha.hold("k")
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        waits = [group.create_task(each.host.wait_message(held.id, None)) for each in (alpha, beta)]
        await asyncio.sleep(0)
        await beta.host.delete_session("k")
    assert {task.result().state for task in waits} == {"cancelled"}
    with pytest.raises(errors.NotFound):
        await alpha.host.receipt(held.id)


async def test_a_label_moves_a_session_to_the_host_that_it_names(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    await alpha.host.patch_session("k", {"labels": {"host": "beta"}}, if_match=None)
    assert (await alpha.ask("k", "A")).reply == "answer to A"
    await alpha.owns_not(session_id)
    assert (await alpha.ask("k", "B")).reply == "answer to B"
    await beta.owns(session_id)
    assert beta.answered[-1] == "B"


async def test_a_session_bound_to_a_host_that_is_away_waits_and_says_so(town: Town) -> None:
    beta = await town.settle("beta")
    await beta.host.create_session(
        NewSession(agent="scripted", key="k", labels={"host": "alpha"}), return_existing=False
    )
    receipt = await beta.send("k", "A")
    assert receipt.state == "queued"
    assert "host alpha" in (receipt.waiting_for or "")
    alpha = await town.settle("alpha")
    assert (await beta.end_of(receipt)).reply == "answer to A"
    assert alpha.answered == ["A"]


async def test_a_session_stays_with_the_machines_that_have_its_directory(town: Town, tmp_path: Path) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    place = tmp_path / "project"
    place.mkdir()
    session_id = await opened(alpha, cwd=str(place))
    place.rmdir()  # as it looks from the other machine
    await alpha.host.drain_host("alpha", drained=True)
    await alpha.owns_not(session_id)
    receipt = await beta.send("k", "A")
    async with asyncio.timeout(WAIT_S):
        while "working directory" not in ((await beta.host.receipt(receipt.id)).waiting_for or ""):
            await beta.host.wait_message(receipt.id, 0.01)
    place.mkdir()
    assert (await beta.end_of(receipt)).reply == "answer to A"
    assert beta.answered == ["A"]


async def test_a_host_without_a_place_leaves_its_sessions_to_one_that_has_some(town: Town) -> None:
    alpha, beta = await town.settle("alpha", max_agents=1), await town.settle("beta")
    await opened(alpha, "k")
    held = await alpha.hold("k")
    view, _ = await alpha.host.create_session(NewSession(agent="scripted", key="l"), return_existing=False)
    assert (await alpha.ask("l", "A")).reply == "answer to A"
    assert beta.answered == ["A"]
    await beta.owns(view.id)
    alpha.agent.release("hold")
    assert (await alpha.end_of(held)).state == "answered"


async def test_a_drained_host_keeps_what_runs_hands_over_what_waits_and_takes_back_when_told(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    held = await alpha.hold("k")
    queued = await alpha.send("k", "A")
    assert (await beta.host.drain_host("alpha", drained=True)).state in ("drained", "serving")
    assert (await alpha.host.receipt(held.id)).state == "running"
    alpha.agent.release("hold")
    assert (await alpha.end_of(held)).reply == "so far answer to hold"
    assert (await alpha.end_of(queued)).reply == "answer to A"
    await alpha.owns_not(session_id)
    assert (await alpha.ask("k", "B")).reply == "answer to B"
    await beta.owns(session_id)
    assert beta.answered[-1] == "B"
    with pytest.raises(errors.NotFound):
        await beta.host.drain_host("gamma", drained=True)


async def test_what_waits_at_a_host_that_stops_is_answered_by_another(town: Town) -> None:
    alpha, beta = await town.settle("alpha", drain_s=WAIT_S), await town.settle("beta")
    await opened(alpha)
    held = await alpha.hold("k")
    queued = [await beta.send("k", f"{number}") for number in range(3)]
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(alpha.host.stop())
        alpha.agent.release("hold")
    assert (await beta.end_of(held)).state == "answered"
    assert [(await beta.end_of(receipt)).reply for receipt in queued] == [f"answer to {number}" for number in range(3)]


@in_memory
async def test_an_owner_that_was_cut_off_counts_for_nothing_when_it_comes_back(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    session_id = await opened(alpha)
    held = await alpha.hold("k")
    store = alpha.line.store
    assert isinstance(store, MemoryStore)
    store.lose()
    assert (await beta.end_of(held)).state == "interrupted"
    assert (await beta.ask("k", "A")).reply == "answer to A"
    alpha.agent.release("hold")  # what its agent says now is nobody's
    store.regain()
    assert (await alpha.ask("k", "B")).reply == "answer to B"
    assert beta.answered == ["A", "B"]
    said = [item.text for item in (await beta.host.transcript("k")).items if item.role == "assistant"]
    assert said == ["answer to hello", "so far ", "answer to A", "answer to B"]
    assert alpha.host.actor(session_id).agent_pid is None


@in_memory
async def test_an_owner_that_was_cut_off_for_a_moment_goes_on_with_its_turn(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    held = await alpha.hold("k")
    store = alpha.line.store
    assert isinstance(store, MemoryStore)
    store.lose()
    with pytest.raises(errors.StoreUnavailable):
        await alpha.host.receipt(held.id)
    alpha.agent.release("hold")
    store.regain()
    assert (await beta.end_of(held)).reply == "so far answer to hold"
    assert beta.answered == []


async def test_an_owners_own_commit_of_unknown_outcome_is_not_taken_for_anothers(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    doubts = 0

    async def doubt(commit: Commit) -> None:
        nonlocal doubts
        if holds(commit, "turn.text"):
            doubts += 1
            raise errors.StoreUnavailable("The line was cut.", in_doubt=True)

    alpha.line.after = doubt
    held = await beta.hold("k")
    alpha.agent.release("hold")
    end = await beta.end_of(held)
    assert (end.state, end.reply) == ("answered", "so far answer to hold")
    assert doubts
    assert (alpha.answered, beta.answered) == (["hello", "hold"], [])


async def test_a_host_that_stops_is_heard_of_until_its_agents_are_gone(town: Town) -> None:
    """Else the others would take its sessions over while an agent that is slow to end still works."""
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await opened(alpha)
    ending, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(commit: Commit) -> None:
        if holds(commit, "agent.exited"):
            ending.set()
            await go_on.wait()

    async def seen_at() -> int:
        return next(peer.seen_at for peer in await beta.line.peers.hosts() if peer.name == "alpha")

    alpha.line.before = slowly
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(alpha.host.stop())
        await ending.wait()
        while not alpha.host._closing:  # pyright: ignore[reportPrivateUsage]  # from here on its actors are closed
            await alpha.host.context.clock.sleep(0.1)
        heard = {await seen_at()}
        while len(heard) < 4:  # one announcement may have been on its way
            await alpha.host.context.clock.sleep(0.1)
            heard.add(await seen_at())
        go_on.set()


async def test_a_single_host_has_nobody_to_hand_over_to(town: Town) -> None:
    alpha = await town.settle("alpha")
    [view] = (await alpha.host.hosts()).items
    assert (view.name, view.state, view.this) == ("alpha", "serving", True)
