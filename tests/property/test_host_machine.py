"""A host under several writers, other people's commits, crashes and callers that leave: Hypothesis looks for trouble.

Each rule does one thing and lets the host go on for a few turns of its event loop, so that much is under way at once.
The time is virtual. After every rule the journals must be whole; in the end all must settle, and all promises hold.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.views import Receipt
from antiphon.testing.simulation.checker import check_journals
from antiphon.testing.simulation.ledger import Attempt, Patch
from antiphon.testing.simulation.loop import VirtualLoop
from antiphon.testing.simulation.run import Simulation
from antiphon.testing.simulation.weather import Weather
from antiphon.testing.simulation.wire import Gone
from antiphon.testing.simulation.world import World

REFS = ("s0", "s1")
FATES = ("", "rival", "away", "doubt_lost", "doubt_written", "crash_before", "crash_after")
MODES = (None, "queue", "refuse", "steer", "collect", "interrupt", "rollback")
TROUBLES = ("deaf", "dies", "raises", "doubles", "begins", "asks", "open_fails", "read_away")

refs = st.sampled_from(REFS)
picks = st.integers(0, 5)
leaves = st.one_of(st.none(), st.integers(0, 8))
"""At which of its waits the caller leaves, if it does."""


class HostMachine(RuleBasedStateMachine):
    """One host after another over one store."""

    def __init__(self) -> None:
        super().__init__()
        self.fates: dict[int, str] = {}
        self.calls: list[asyncio.Task[None]] = []
        self.known: list[Receipt] = []
        self.sent: list[Attempt] = []
        self.pace = 6
        self.loop = VirtualLoop()

    @initialize(seed=st.integers(0, 7))
    def begin(self, seed: int) -> None:
        self.world = World(seed, self.loop, weather=Weather(), plan=lambda number: self.fates.pop(number, ""))
        self.simulation = Simulation(self.world)
        self.watched = self.world.watched_log()
        self.watched.__enter__()
        self.go(self._begin())
        self.let_go_on(30)

    async def _begin(self) -> None:
        self.simulation.begin()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._end()
        finally:
            self.loop.close()

    def _end(self) -> None:
        self.fates.clear()
        try:
            self.go(self._all_answered())
            self.go(asyncio.wait_for(self.simulation.end(), 600))
        finally:
            self.watched.__exit__(None, None, None)
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.let_go_on(5)
        assert not self.world.ledger.findings, self.world.ledger.findings

    async def _all_answered(self) -> None:
        self.world.weather.clear_up()
        if self.calls:
            await asyncio.wait(self.calls, timeout=120)
        assert all(call.done() for call in self.calls), "P3: a caller waits for ever"

    # The loop

    def go(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def let_go_on(self, steps: int) -> None:
        async def turn() -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        self.go(turn())

    def ask(self, what: str, work: Callable[[Host], Coroutine[Any, Any, Any]], told: Callable[[Any], None]) -> None:
        """Ask the host for something and let it begin; `told` is called with a result or a refusal."""

        async def call() -> None:
            try:
                told(await self.world.call(what, work))
            except Gone:
                return
            except AntiphonError as error:
                told(error)

        self.go(asyncio.wait_for(self.world.up.wait(), 60))  # who finds nobody there learns nothing
        self.calls.append(self.loop.create_task(call()))
        self.let_go_on(self.pace)

    def asked(self, what: str, work: Callable[[Host], Coroutine[Any, Any, Any]], leave: int | None) -> None:
        with self.leaving(leave):
            self.ask(what, work, self.see)

    def leaving(self, leave: int | None) -> Any:
        self.world.leave_at = leave
        return _Reset(self.world)

    def see(self, result: Any) -> None:
        if isinstance(result, Receipt):
            self.world.ledger.receipts.append(result)
            self.known.append(result)

    # Writers

    @rule(ref=refs, mode=st.sampled_from(MODES))
    def send_and_stay(self, ref: str, mode: str | None) -> None:
        self.send(ref, mode, keyed=True, leave=None)

    @rule(ref=refs, modes=st.lists(st.sampled_from(MODES), min_size=2, max_size=4))
    def send_several_at_once(self, ref: str, modes: list[str | None]) -> None:
        pace, self.pace = self.pace, 0
        for mode in modes:
            self.send(ref, mode, keyed=False, leave=None)
        self.pace = pace
        self.let_go_on(pace)

    @rule(ref=refs, mode=st.sampled_from(MODES), keyed=st.booleans(), leave=leaves)
    def send(self, ref: str, mode: str | None, keyed: bool, leave: int | None) -> None:
        token = self.world.ledger.token()
        attempt = Attempt(token=token, ref=ref, key=f"key-{token}" if keyed else None, when_busy=mode)
        self.sent.append(attempt)
        self._send(attempt, leave)

    @precondition(lambda self: any(attempt.key for attempt in self.sent))
    @rule(pick=picks, leave=leaves)
    def send_again(self, pick: int, leave: int | None) -> None:
        keyed = [attempt for attempt in self.sent if attempt.key]
        old = keyed[-1 - pick % len(keyed)]
        self._send(Attempt(token=old.token, ref=old.ref, key=old.key, when_busy=old.when_busy), leave)

    @precondition(lambda self: any(attempt.key for attempt in self.sent))
    @rule(pick=picks)
    def send_something_else_under_a_spent_key(self, pick: int) -> None:
        keyed = [attempt for attempt in self.sent if attempt.key]
        old = keyed[-1 - pick % len(keyed)]
        self._send(Attempt(token=self.world.ledger.token(), ref=old.ref, key=old.key, when_busy=None), None)

    def _send(self, attempt: Attempt, leave: int | None) -> None:
        self.world.ledger.attempts.append(attempt)
        message: Any = NewMessage(
            text=attempt.token,
            when_busy=attempt.when_busy,
            idempotency_key=attempt.key,
            digest=f"{attempt.token}/{attempt.when_busy}",
        )
        create = NewSession(agent="able", key=attempt.ref)

        def told(result: Any) -> None:
            if isinstance(result, AntiphonError):
                attempt.outcome = "unknown" if result.ids.get("in_doubt") else "refused"
                attempt.code = result.code
            else:
                attempt.outcome, attempt.receipt = "accepted", result
                self.see(result)

        with self.leaving(leave):
            self.ask(f"send {attempt.token}", lambda host: host.send(attempt.ref, message, create=create), told)

    @rule(ref=refs, field=st.sampled_from(("title", "model", "labels", "settings")), leave=leaves)
    def patch(self, ref: str, field: str, leave: int | None) -> None:
        token = self.world.ledger.token()
        changes: dict[str, Any] = {field: {"mine": token} if field in ("labels", "settings") else token}
        patch = Patch(value=token, changes=changes)
        self.world.ledger.patches.append(patch)

        def told(result: Any) -> None:
            refused = isinstance(result, AntiphonError)
            doubtful = refused and bool(result.ids.get("in_doubt"))
            patch.outcome = "unknown" if doubtful else "refused" if refused else "accepted"

        with self.leaving(leave):
            self.ask(f"patch {token}", lambda host: host.patch_session(ref, changes, if_match=None), told)

    @rule(ref=refs, what=st.sampled_from(("clear", "stop", "resume", "delete")), leave=leaves)
    def turn_the_session(self, ref: str, what: str, leave: int | None) -> None:
        self.world.ledger.wanted.add(what)
        self.world.ledger.clears_unknown += what == "clear"
        does: dict[str, Callable[[Host], Coroutine[Any, Any, Any]]] = {
            "clear": lambda host: host.clear_session(ref),
            "stop": lambda host: host.stop_session(ref),
            "resume": lambda host: host.resume_session(ref),
            "delete": lambda host: host.delete_session(ref),
        }
        self.asked(f"{what} {ref}", does[what], leave)

    @rule(ref=refs)
    def reorder(self, ref: str) -> None:
        async def backwards(host: Host) -> Any:
            waiting = [receipt.id for receipt in (await host.queue(ref)).items]
            return await host.reorder(ref, tuple(reversed(waiting)))

        self.asked(f"reorder {ref}", backwards, None)

    @precondition(lambda self: self.known)
    @rule(pick=picks, what=st.sampled_from(("wait", "withdraw", "edit", "hasten", "look")), leave=leaves)
    def turn_to_a_message(self, pick: int, what: str, leave: int | None) -> None:
        message_id = self.known[-1 - pick % len(self.known)].id
        text = self.world.ledger.token()
        if what == "edit":
            self.world.ledger.edits[text] = message_id
        does: dict[str, Callable[[Host], Coroutine[Any, Any, Any]]] = {
            "wait": lambda host: host.wait_message(message_id, 5.0),
            "withdraw": lambda host: host.withdraw_message(message_id),
            "edit": lambda host: host.edit_message(message_id, text=text, when_busy=None),
            "hasten": lambda host: host.edit_message(message_id, text=None, when_busy="interrupt"),
            "look": lambda host: host.receipt(message_id),
        }
        self.asked(f"{what} {message_id}", does[what], leave)

    @rule(ref=refs, leave=leaves)
    def cancel(self, ref: str, leave: int | None) -> None:
        async def cancel(host: Host) -> Any:
            turn_id = (await host.session(ref)).turn_id
            if turn_id is None:
                return None
            self.world.ledger.cancels.add(turn_id)
            done = await host.cancel_turn(turn_id)
            if done.confirmed:
                self.world.ledger.confirmed[turn_id] = done.state
                assert not self.world.machine.works_on(turn_id), f"P9: {turn_id} is confirmed and goes on"
            return done

        self.asked(f"cancel in {ref}", cancel, leave)

    @rule()
    def answer_a_question(self) -> None:
        async def answer(host: Host) -> Any:
            for asked in (await host.permissions(state="pending")).items[:1]:
                await host.answer_permission(asked.id, decision="allow", option_id=None, note=None, by="me")

        self.asked("answer", answer, None)

    # What happens to the host

    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=6), ahead=st.integers(0, 2))
    def commits_will_not_simply_succeed(self, fates: list[str], ahead: int) -> None:
        for number, fate in enumerate(fates, self.world.shelf.commits + ahead):
            self.fates[number] = fate

    @rule()
    def other_writers_come_first_again_and_again(self) -> None:
        self.fates.update((self.world.shelf.commits + number, "rival") for number in range(12))

    @rule(seconds=st.sampled_from((0.01, 0.3)))
    def the_store_goes_away(self, seconds: float) -> None:
        self.world.shelf.away_until = self.world.clock.monotonic() + seconds

    @rule()
    def the_host_is_killed(self) -> None:
        self.go(self._kill())

    async def _kill(self) -> None:
        self.world.kill()

    @rule(hurry=st.booleans())
    def the_host_is_started_anew(self, hurry: bool) -> None:
        self.go(self.world.restart(hurry=hurry))

    @rule(trouble=st.sampled_from(TROUBLES), rate=st.sampled_from((0.0, 0.6)))
    def agents_change_their_ways(self, trouble: str, rate: float) -> None:
        setattr(self.world.weather, trouble, rate)

    @rule(pace=st.sampled_from((0.0, 0.05)), steps=st.sampled_from((0, 6, 40)))
    def everything_changes_its_pace(self, pace: float, steps: int) -> None:
        self.world.weather.slow_s, self.pace = pace, steps

    @rule(seconds=st.sampled_from((0.02, 0.2, 0.6, 3.0)))
    def time_passes(self, seconds: float) -> None:
        self.go(asyncio.sleep(seconds))

    # What holds all the time

    @invariant()
    def journals_are_whole(self) -> None:
        if not hasattr(self, "world"):
            return
        findings = [*self.world.ledger.findings, *check_journals(self.world)]
        assert not findings, findings


class _Reset:
    """For as long as it is entered, a call leaves at a certain wait."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> None:
        """The world has been told already."""

    def __exit__(self, *_error: object) -> None:
        self._world.leave_at = None


LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
TestHostMachine = pytest.mark.timeout(0 if LONG else 300)(HostMachine.TestCase)
TestHostMachine.settings = settings() if LONG else settings(max_examples=300)
