"""What happens when time passes and nobody says anything: bursts end, deadlines pass, also while no host runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.core.decide import Rules
from antiphon.core.errors import NotEditable, QueueFull
from antiphon.core.session import Deadline
from antiphon.host.views import Receipt
from antiphon.ports.agent import Capabilities
from antiphon.ports.store import Commit
from antiphon.testing.scripted_agent import Hold, IgnoreCancel, Say
from antiphon.testing.simulation.loop import VirtualClock, VirtualLoop
from hostlab.stage import FaultyStore, Stage, in_virtual_time, staged


async def burst(stage: Stage, texts: str, *, pause_s: float = 0.1, **fields: Any) -> list[Receipt]:
    """Messages to be collected, one after another."""
    receipts: list[Receipt] = []
    for text in texts:
        receipts.append(await stage.send("k", text, when_busy="collect", **fields))
        await stage.clock.sleep(pause_s)
    return receipts


async def ends_of(stage: Stage, receipts: list[Receipt]) -> list[Receipt]:
    return [await stage.end_of(receipt.id) for receipt in receipts]


@asynccontextmanager
async def crashed(stage: Stage, *, after_s: float = 0.0, **settings: Any) -> AsyncGenerator[Stage, None]:
    """The next host, a while after this one was cut off."""
    store = FaultyStore()
    store.memory, store.ids = stage.store.memory, stage.store.ids
    stage.store.away = True
    dead = [task for task in asyncio.all_tasks() if task.get_name().startswith(("host:", "actor:", "driver:"))]
    for task in dead:
        task.cancel()
    await asyncio.wait(dead)
    await stage.clock.sleep(after_s)
    async with staged(store=store, **settings) as following:
        yield following


# Bursts


@in_virtual_time
async def test_a_burst_is_answered_by_one_turn_once_half_a_second_was_quiet() -> None:
    async with staged() as stage:
        await stage.open()
        first, *others = await burst(stage, "abc")
        now = await stage.host.receipt(first.id)
        assert (now.state, now.position) == ("queued", 1)
        assert "further messages to be collected with it, until " in (now.waiting_for or "")
        ends = await ends_of(stage, [first, *others])
        assert {(end.state, end.delivered_as, end.turn_id) for end in ends} == {
            ("answered", "collect", ends[0].turn_id)
        }
        assert stage.prompts() == ["a\n\nb\n\nc"]
        turn = await stage.host.turn(ends[0].turn_id or "")
        assert seconds_between(ends[-1].accepted_at, turn.started_at) == pytest.approx(0.5, abs=0.05)


def seconds_between(start: str | None, end: str | None) -> float:
    def seconds(at: str | None) -> float:
        assert at is not None
        hours, minutes, rest = at[11:-1].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(rest)

    return seconds(end) - seconds(start)


@in_virtual_time
async def test_a_burst_that_does_not_end_is_waited_for_five_times_as_long_and_no_longer() -> None:
    async with staged() as stage:
        await stage.open()
        receipts = await burst(stage, "abcdefghij", pause_s=0.4)
        ends = await ends_of(stage, receipts)
        first, last = ends[0], ends[-1]
        assert first.turn_id != last.turn_id
        assert seconds_between(first.accepted_at, first.started_at) == pytest.approx(2.5, abs=0.05)


@in_virtual_time
async def test_a_full_burst_runs_at_once_and_one_more_is_refused_while_a_turn_runs() -> None:
    async with staged(rules=Rules(collect_max=3, collect_quiet_s=60)) as stage:
        await stage.open()
        ends = await ends_of(stage, await burst(stage, "abc", pause_s=0))
        assert seconds_between(ends[0].accepted_at, ends[0].started_at) < 0.1
        await stage.hold("k")
        waiting = await burst(stage, "def", pause_s=0)
        with pytest.raises(QueueFull) as full:
            await burst(stage, "g")
        assert full.value.retry_after_s
        others = await stage.send("k", "h")
        stage.agent.release("hold")
        assert {end.state for end in await ends_of(stage, [*waiting, others])} == {"answered"}


@in_virtual_time
async def test_beyond_the_cap_the_oldest_are_given_by_their_beginnings_and_their_receipts_say_so() -> None:
    async with staged(rules=Rules(collect_max=2, collect_overflow="summarise")) as stage:
        await stage.open()
        await stage.hold("k")
        long = await stage.send("k", "x" * 500, when_busy="collect", files=({"path": "/etc/hostname"},))
        short = await stage.send("k", "short", when_busy="collect")
        others = await burst(stage, "ab", pause_s=0)
        stage.agent.release("hold")
        ends = await ends_of(stage, [long, short, *others])
        assert len({end.turn_id for end in ends}) == 1
        assert [end.substitute for end in ends] == ["summary", "summary", None, None]
        left_out = "… [left out, as many messages came at once: 300 more characters and 1 file]"
        assert stage.prompts()[1] == f"{'x' * 200}{left_out}\n\nshort\n\na\n\nb"


@in_virtual_time
async def test_senders_are_kept_apart_unless_the_session_wants_them_together() -> None:
    async with staged() as stage:
        for key, settings in (("apart", {}), ("together", {"collect_senders": "together"})):
            await stage.open(key, settings=settings)
            receipts = [
                await stage.send(key, f"{sender}{n}", when_busy="collect", sender=sender)
                for n in range(2)
                for sender in ("ann", "bob")
            ]
            ends = await ends_of(stage, receipts)
            assert [end.sender for end in ends] == ["ann", "bob", "ann", "bob"]
        assert stage.prompts() == ["ann0\n\nann1", "bob0\n\nbob1", "ann0\n\nbob0\n\nann1\n\nbob1"]


@in_virtual_time
async def test_a_burst_ends_in_time_although_the_host_was_killed_in_the_middle_of_it() -> None:
    stage = Stage()
    await stage.host.start()
    await stage.open()
    receipts = await burst(stage, "ab")
    async with crashed(stage, after_s=0.2) as following:
        receipts += await burst(following, "c")
        ends = await ends_of(following, receipts)
        assert len({end.turn_id for end in ends}) == 1
        assert following.prompts() == ["a\n\nb\n\nc"]


@pytest.mark.parametrize("act", ["withdraw", "cancel", "stop", "clear", "edit"])
@in_virtual_time
async def test_a_burst_that_is_interfered_with_loses_nobody(act: str) -> None:
    async with staged() as stage:
        await stage.open()
        first, second = await burst(stage, "ab")
        host = stage.host
        if act == "withdraw":
            await host.withdraw_message(first.id)
        elif act == "cancel":
            assert (await host.cancel_message(first.id)).confirmed
        elif act == "stop":
            await host.stop_session("k")
            await stage.clock.sleep(10)
            assert "was stopped" in ((await host.receipt(first.id)).waiting_for or "")
            await host.resume_session("k")
        elif act == "clear":
            await host.clear_session("k")
        else:
            await host.edit_message(first.id, text="new", when_busy="queue")
        ends = await ends_of(stage, [first, second])
        assert ends[1].state == "answered"
        assert ends[0].state == {"withdraw": "withdrawn", "cancel": "cancelled"}.get(act, "answered")
        assert (ends[0].turn_id == ends[1].turn_id) == (act in ("stop", "clear"))
        assert ends[1].generation == (2 if act == "clear" else 1)


@in_virtual_time
async def test_the_agent_of_a_burst_that_waits_can_make_room_for_another_session() -> None:
    async with staged(max_agents=1, rules=Rules(collect_quiet_s=600)) as stage:
        await stage.open("k")
        await stage.open("other")
        await stage.ask("k", "warm")
        (waiting,) = await burst(stage, "a")
        assert (await stage.ask("other", "b")).state == "answered"
        assert (await stage.host.receipt(waiting.id)).state == "queued"
        assert (await stage.host.wait_message(waiting.id, 3600)).state == "answered"


@in_virtual_time
async def test_a_clock_that_was_set_back_keeps_no_burst_waiting() -> None:
    async with staged() as stage:
        await stage.open()
        (first,) = await burst(stage, "a", pause_s=0)
        stage.clock.shift_ms = -3_600_000
        assert (await stage.host.wait_message(first.id, 3)).state == "answered"


class Hasty(VirtualClock):
    """A clock that moves on at each look, and by which everybody wakes so much too early."""

    def __init__(self, loop: VirtualLoop, early_s: float) -> None:
        super().__init__(loop)
        self._looks, self._early_s = 0, early_s

    def now(self) -> int:
        self._looks += 1
        return super().now() + self._looks

    async def sleep(self, seconds: float) -> None:
        await super().sleep(max(0.0, seconds - self._early_s))


@in_virtual_time
async def test_a_burst_that_ends_between_two_looks_at_the_clock_is_not_forgotten() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for number in range(40):
        stage = Stage()
        stage.host.context.clock = Hasty(loop, number / 1000)
        await stage.host.start()
        await stage.open()
        receipt = await stage.send("k", f"a{number}", when_busy="collect")
        assert (await stage.host.wait_message(receipt.id, 30)).state == "answered"
        await stage.host.stop()


# Deadlines


@in_virtual_time
async def test_a_message_that_waits_too_long_fails_by_itself_and_the_turn_goes_on() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k")
        late = await stage.send("k", "late", deadline=Deadline(waiting_ms=5000))
        assert (await stage.host.receipt(late.id)).deadline_at is not None
        end = await stage.end_of(late.id)
        assert (end.state, end.turn_id, end.reply) == ("failed", None, None)
        assert end.error is not None
        assert end.error.code == "deadline_exceeded"
        assert seconds_between(end.accepted_at, end.ended_at) == pytest.approx(5, abs=0.05)
        stage.agent.release("hold")
        assert (await stage.end_of(held.id)).state == "answered"
        assert stage.prompts() == ["hold"]


@in_virtual_time
async def test_a_turn_that_runs_too_long_is_stopped_and_its_part_is_kept() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k", deadline=Deadline(running_ms=5000, waiting_ms=1))
        queued = await stage.send("k", "queued")
        end = await stage.end_of(held.id)
        assert (end.state, end.reply) == ("failed", "so far ")
        assert end.error is not None
        assert end.error.code == "deadline_exceeded"
        turn = await stage.host.turn(end.turn_id or "")
        assert (turn.state, turn.error) == ("failed", end.error)
        assert (await stage.end_of(queued.id)).reply == "answer to queued"


@in_virtual_time
async def test_an_agent_that_ignores_its_stop_is_killed_before_the_message_is_told_to_have_failed() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Say("so far "), IgnoreCancel(), Hold("never")]
        await stage.open()
        held = await stage.hold("k", deadline=Deadline(total_ms=2000))
        end = await stage.end_of(held.id)
        assert end.state == "failed"
        assert seconds_between(end.accepted_at, end.ended_at) >= 3, "the grace that a cancel has"
        assert (await stage.types(held.session_id)).index("agent.exited") < len(await stage.types(held.session_id)) - 1


@in_virtual_time
async def test_in_a_shared_turn_only_who_is_out_of_time_fails_and_its_reply_stays_as_it_was() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Say("one "), Hold("gate"), Say("two")]
        await stage.open()
        short = await stage.send("k", "a", when_busy="collect", deadline=Deadline(total_ms=3000))
        long = await stage.send("k", "b", when_busy="collect", deadline=Deadline(total_ms=50_000))
        end = await stage.end_of(short.id)
        assert (end.state, end.reply) == ("failed", "one ")
        stage.agent.release("gate")
        other = await stage.end_of(long.id)
        assert (other.state, other.reply, other.turn_id) == ("answered", "one two", end.turn_id)
        assert await stage.host.receipt(short.id) == end


@pytest.mark.parametrize("state", ["queued", "running", "paused", "stopped"])
@in_virtual_time
async def test_a_deadline_that_passes_while_no_host_runs_is_told_once_at_the_next_start(state: str) -> None:
    stage = Stage()
    await stage.host.start()
    session_id = await stage.open()
    if state == "queued":
        await stage.hold("k")
    if state == "paused":
        await stage.host.pause_queue("k")
    send = stage.hold if state == "running" else stage.send
    receipt = await send("k", "hold a", deadline=Deadline(total_ms=5000))
    if state == "stopped":
        await stage.host.stop_session("k")
    async with crashed(stage, after_s=60) as following:
        end = await following.end_of(receipt.id)
        assert end.state == ("failed" if state not in ("running", "stopped") else end.state)
        assert end.state in ("failed", "interrupted", "cancelled")
        assert (await following.types(session_id)).count("message.ended") == (2 if state == "queued" else 1)
        assert "hold a" not in following.prompts()


@in_virtual_time
async def test_a_session_with_a_deadline_is_not_put_to_sleep_before_it_has_passed() -> None:
    async with staged(awake_idle_s=1) as stage:
        await stage.open()
        await stage.host.pause_queue("k")
        late = await stage.send("k", "late", deadline=Deadline(waiting_ms=50_000))
        assert (await stage.end_of(late.id)).state == "failed"


@in_virtual_time
async def test_a_wait_that_ends_first_changes_nothing_and_a_deadline_is_not_a_wait() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k", deadline=Deadline(total_ms=30_000))
        assert (await stage.host.wait_message(held.id, 5)).state == "running"
        stage.agent.release("hold")
        assert (await stage.end_of(held.id)).state == "answered"


# What was done instead


@in_virtual_time
async def test_receipts_say_what_was_done_instead_of_what_the_agent_cannot_do() -> None:
    async with staged() as stage:
        stage.agent.capabilities = Capabilities(interrupt=True)
        await stage.open()
        held = await stage.hold("k")
        steer = await stage.send("k", "steer", when_busy="steer")
        assert (steer.substitute, steer.delivered_as) == ("queue", None)
        assert "takes no message into a running turn" in (steer.waiting_for or "")
        back = await stage.send("k", "back", when_busy="rollback")
        ends = await ends_of(stage, [held, steer, back])
        assert [(end.state, end.delivered_as, end.substitute) for end in ends] == [
            ("cancelled", "turn", None),
            ("answered", "turn", "queue"),
            ("answered", "turn", "interrupt"),
        ]
        assert not (await stage.host.turn(held.turn_id or "")).rolled_back


@in_virtual_time
async def test_what_the_agent_can_do_is_done_without_a_substitute() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k")
        steer = await stage.send("k", "steer", when_busy="steer")
        await stage.until(held.session_id, lambda session: not session.inbox)
        stage.agent.release("hold")
        end = await stage.end_of(steer.id)
        assert (end.delivered_as, end.turn_id, end.substitute) == ("steer", held.turn_id, None)
        idle = await stage.ask("k", "idle", when_busy="steer")
        assert (idle.delivered_as, idle.substitute) == ("turn", None)


# Cancels


@in_virtual_time
async def test_a_message_is_cancelled_where_it_is_and_no_other_with_it() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k")
        waiting, other = [await stage.send("k", text) for text in "ab"]
        cancelled = await stage.host.cancel_message(waiting.id)
        assert (cancelled.turn_id, cancelled.state, cancelled.confirmed) == (None, "cancelled", True)
        assert (await stage.host.cancel_message(waiting.id)).state == "cancelled"
        running = await stage.host.cancel_message(held.id)
        assert (running.turn_id, running.state, running.confirmed) == (held.turn_id, "cancelled", True)
        assert (await stage.end_of(other.id)).state == "answered"
        with pytest.raises(NotEditable):
            await stage.host.cancel_message(other.id)


@in_virtual_time
async def test_a_message_that_shares_its_turn_leaves_it_and_the_turn_goes_on() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Say("one "), Hold("gate"), Say("two")]
        session_id = await stage.open()
        first, second = await burst(stage, "ab", pause_s=0)
        await stage.until(session_id, lambda session: bool(session.running and session.running.touched))
        cancelled = await stage.host.cancel_message(first.id)
        assert (cancelled.state, cancelled.confirmed, cancelled.message_ids) == ("cancelled", False, (first.id,))
        stage.agent.release("gate")
        assert (await stage.end_of(second.id)).reply == "one two"
        assert (await stage.host.receipt(first.id)).reply == "one "


@in_virtual_time
async def test_all_that_waits_is_cancelled_with_the_turn_or_without_it() -> None:
    async with staged() as stage:
        await stage.open()
        held = await stage.hold("k")
        waiting = [await stage.send("k", text) for text in "ab"]
        page = await stage.host.cancel_queue("k")
        assert [(item.id, item.state) for item in page.items] == [(one.id, "cancelled") for one in waiting]
        assert (await stage.host.receipt(held.id)).state == "running"
        third = await stage.send("k", "c")
        cancelled = await stage.host.cancel_turn(held.turn_id or "", queue=True)
        assert (cancelled.confirmed, cancelled.message_ids) == (True, (third.id,))
        assert {end.state for end in await ends_of(stage, [held, third])} == {"cancelled"}
        assert stage.prompts() == ["hold"]


@in_virtual_time
async def test_a_deadline_that_has_passed_costs_nothing_while_the_store_is_away() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.hold("k")
        late = await stage.send("k", "late", deadline=Deadline(waiting_ms=1000))
        stage.store.away = True
        looks = 0

        async def count(_commit: Commit) -> None:
            nonlocal looks
            looks += 1

        stage.store.meeting = count
        await stage.clock.sleep(60)
        stage.store.away = False
        stage.actor(session_id).wake()
        assert (await stage.end_of(late.id)).state == "failed"
        assert looks < 5
