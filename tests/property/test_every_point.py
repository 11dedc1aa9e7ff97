"""One scene, spoilt at every single point: at each commit in each way, with each caller leaving at each of its waits.

What a random search may miss is looked for here one by one. The scene has a bit of everything; its agents behave.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.host.views import Receipt
from antiphon.testing.simulation.ledger import Attempt, Patch
from antiphon.testing.simulation.loop import VirtualLoop
from antiphon.testing.simulation.run import Simulation
from antiphon.testing.simulation.weather import Weather
from antiphon.testing.simulation.wire import Gone
from antiphon.testing.simulation.world import World

FATES = ("crash_before", "crash_after", "away", "doubt_lost", "doubt_written", "rival")
WAITS_MAX = 40
Work = Callable[[Host], Coroutine[Any, Any, Any]]


class Scene:
    """What is asked of the host, one thing after another.

    Attributes:
        calls: How many things were asked.
        over: Whether it is over: from then on nothing goes wrong any more.
        commits: How many commits there were until then.
    """

    def __init__(self, world: World, leave: tuple[int, int] | None) -> None:
        self.world = world
        self.leave = leave
        self.calls = self.commits = 0
        self.over = False
        self.left = False
        self.known: list[Receipt] = []

    async def play(self) -> None:
        world = self.world
        await self.send("a", "queue")
        await self.send("a", "queue", key="once")
        await self.send("a", "queue", key="once", again=True)
        await self.send("a", "steer")
        await self.send("a", "collect")
        await self.send("a", "collect")
        await self.patch("a", {"title": None})
        await asyncio.sleep(0.05)
        await self.each(
            -1, "edit", lambda one: lambda host: host.edit_message(one, text=self.edited(one), when_busy=None)
        )
        await self.each(-2, "withdraw", lambda one: lambda host: host.withdraw_message(one))
        await self.call("cancel", self.cancel("a"))
        await self.send("b", "interrupt")
        await self.send("b", "refuse")
        await self.send("b", "interrupt")
        await self.each(0, "wait", lambda one: lambda host: host.wait_message(one, 3.0))
        world.ledger.wanted.add("clear")
        world.ledger.clears_unknown += 1
        await self.call("clear", lambda host: host.clear_session("b"))
        world.ledger.wanted.add("stop")
        await self.call("stop", lambda host: host.stop_session("a"))
        await self.call("resume", lambda host: host.resume_session("a"))
        await self.patch("a", {"labels": {"mine": None}})
        await self.send("c", "queue")
        world.ledger.wanted.add("delete")
        await self.call("delete", lambda host: host.delete_session("c"))
        await self.call("export", self.copy)
        await self.send("a", "queue")
        await self.each(-1, "wait", lambda one: lambda host: host.wait_message(one, 3.0))
        self.over, self.commits = True, world.shelf.commits

    async def call(self, what: str, work: Work) -> Any:
        """Ask; None when no answer came, or a refusal."""
        await asyncio.wait_for(self.world.up.wait(), 60)
        number, self.calls = self.calls, self.calls + 1
        if self.leave and self.leave[0] == number:
            self.world.leave_at, self.left = self.leave[1], True
        try:
            return await self.world.call(what, work)
        except Gone:
            return None
        except AntiphonError as error:
            return error
        finally:
            self.world.leave_at = None

    async def send(self, ref: str, mode: str, *, key: str | None = None, again: bool = False) -> None:
        ledger = self.world.ledger
        token = ledger.attempts[-1].token if again else ledger.token()
        attempt = Attempt(token=token, ref=ref, key=key, when_busy=mode)
        ledger.attempts.append(attempt)
        message: Any = NewMessage(text=token, when_busy=mode, idempotency_key=key, digest=token)
        create = NewSession(agent="able", key=ref)
        answer = await self.call(f"send {token}", lambda host: host.send(ref, message, create=create))
        if isinstance(answer, Receipt):
            attempt.outcome, attempt.receipt = "accepted", answer
            ledger.receipts.append(answer)
            self.known.append(answer)
        elif answer is not None:
            attempt.outcome = "unknown" if answer.ids.get("in_doubt") else "refused"
            attempt.code = answer.code

    async def patch(self, ref: str, shape: dict[str, Any]) -> None:
        token = self.world.ledger.token()
        changes: dict[str, Any] = {
            name: dict.fromkeys(value, token) if isinstance(value, dict) else token for name, value in shape.items()
        }
        patch = Patch(value=token, changes=changes)
        self.world.ledger.patches.append(patch)
        answer = await self.call("patch", lambda host: host.patch_session(ref, changes, if_match=None))
        if isinstance(answer, AntiphonError):
            patch.outcome = "unknown" if answer.ids.get("in_doubt") else "refused"
        elif answer is not None:
            patch.outcome = "accepted"

    async def each(self, place: int, what: str, work: Callable[[str], Work]) -> None:
        """Do something with the message that became known at that place."""
        if len(self.known) > abs(place):
            answer = await self.call(what, work(self.known[place].id))
            if isinstance(answer, Receipt):
                self.world.ledger.receipts.append(answer)

    def edited(self, message_id: str) -> str:
        text = self.world.ledger.token()
        self.world.ledger.edits[text] = message_id
        return text

    def cancel(self, ref: str) -> Work:
        async def cancel(host: Host) -> None:
            turn_id = (await host.session(ref)).turn_id
            if turn_id is None:
                return
            self.world.ledger.cancels.add(turn_id)
            done = await host.cancel_turn(turn_id)
            if done.confirmed:
                self.world.ledger.confirmed[turn_id] = done.state
                assert not self.world.machine.works_on(turn_id), f"P9: {turn_id} is confirmed and goes on"

        return cancel

    async def copy(self, host: Host) -> Any:
        return await host.import_session(await host.export_session("a"))


def played(
    *, seed: int = 1, plan: Callable[[int], str] | None = None, leave: tuple[int, int] | None = None, **settings: Any
) -> tuple[World, Scene]:
    """The scene, played to its end and checked."""
    loop = VirtualLoop()
    try:
        happens = plan or (lambda _number: "")
        world = World(
            seed, loop, weather=Weather(open_slow_s=0.02), plan=lambda number: "" if scene.over else happens(number)
        )
        world.settings = HostSettings(
            **{"max_agents": 2, "cancel_grace_s": 0.5, "close_patience_s": 0.1, "drain_s": 0.1} | settings
        )
        world.machine.limit = world.settings.max_agents
        scene, simulation = Scene(world, leave), Simulation(world)

        async def play() -> None:
            simulation.begin()
            await scene.play()
            await simulation.end()

        with world.watched_log():
            loop.run_until_complete(asyncio.wait_for(play(), 900))
        return world, scene
    finally:
        loop.close()


@pytest.fixture(scope="module")
def calm() -> tuple[World, Scene]:
    """The scene without any trouble."""
    world, scene = played()
    assert not world.ledger.findings
    return world, scene


def test_the_scene_has_a_bit_of_everything(calm: tuple[World, Scene]) -> None:
    world, _ = calm
    types = {entry.type for story in world.shelf.chronicle.stories.values() for entry in story.entries}
    assert types >= {
        "message.edited",
        "message.withdrawn",
        "turn.cancel_requested",
        "session.cleared",
        "session.stopped",
        "session.resumed",
        "session.deleted",
        "session.updated",
    }
    ends = {message.state for story in world.shelf.chronicle.stories.values() for message in story.messages.values()}
    assert ends >= {"answered", "cancelled", "withdrawn"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("on_crash", ["interrupt", "resume"])
@pytest.mark.parametrize("fate", FATES)
def test_no_commit_that_does_not_simply_succeed_breaks_a_promise(
    fate: str, on_crash: str, calm: tuple[World, Scene]
) -> None:
    for place in range(calm[1].commits):
        world, _ = played(plan=lambda number, place=place: fate if number == place else "", on_crash=on_crash)
        assert not world.ledger.findings, f"{fate} at commit {place}: {world.ledger.findings}"


@pytest.mark.timeout(300)
def test_no_two_crashes_in_a_row_break_a_promise(calm: tuple[World, Scene]) -> None:
    """The second one hits what the next host does about the first."""
    for place in range(calm[1].commits):
        fates = {place: "crash_after", place + 1: "crash_before", place + 2: "crash_after"}
        world, _ = played(plan=lambda number, fates=fates: fates.get(number, ""))
        assert not world.ledger.findings, f"crashes at commit {place} and behind it: {world.ledger.findings}"


@pytest.mark.timeout(300)
def test_no_caller_that_leaves_at_any_of_its_waits_breaks_a_promise(calm: tuple[World, Scene]) -> None:
    world, scene = calm
    for call in range(scene.calls):
        for wait in range(WAITS_MAX):
            world, again = played(leave=(call, wait))
            assert not world.ledger.findings, f"call {call} left at wait {wait}: {world.ledger.findings}"
            if "left" not in {what for _, what, _ in world.trace._notes}:
                break
            assert again.left
