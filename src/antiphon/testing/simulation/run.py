"""One simulation from its seed to its verdict."""

import asyncio
import contextlib
import gc
from collections.abc import Coroutine
from typing import Any

import msgspec

from antiphon.core.deadlines import next_deadline
from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.testing.simulation.checker import check
from antiphon.testing.simulation.client import Client
from antiphon.testing.simulation.freezing import FreezingLoop
from antiphon.testing.simulation.loop import Stuck, VirtualLoop
from antiphon.testing.simulation.mishaps import Mishaps
from antiphon.testing.simulation.patrol import Patrol
from antiphon.testing.simulation.viewer import Overseer, Viewer
from antiphon.testing.simulation.wire import Gone
from antiphon.testing.simulation.world import World

SETTLE_S = 90.0
LIMIT_S = 900.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation came to.

    Attributes:
        findings: Every promise that was broken, in words; none is how it should be.
        digest: Equal for two simulations that went the same way.
        trace: What happened, line by line; only when it was asked for, or something was found.
        seconds: How much virtual time it took.
        commits, messages, deaths: How much there was of each.
    """

    seed: int
    findings: tuple[str, ...]
    digest: str
    trace: tuple[str, ...]
    seconds: float
    commits: int
    messages: int
    deaths: int


def simulate(seed: int, *, hosts: int = 1, trace: bool = False) -> Outcome:
    """Run the simulation of a seed, with so many hosts over one store.

    Equal seeds and numbers of hosts go the same way, in whichever process.
    """
    loop = FreezingLoop() if hosts > 1 else VirtualLoop()
    collecting = gc.isenabled()
    gc.disable()  # no destructor runs at a moment of its own
    try:
        world = World(seed, loop, hosts=hosts)
        with world.watched_log():
            _play(world, Simulation(world))
        return _outcome(world, trace=trace)
    finally:
        loop.close()
        if collecting:
            gc.enable()


def _play(world: World, simulation: "Simulation") -> None:
    loop = world.loop
    try:
        loop.run_until_complete(asyncio.wait_for(simulation.run(), LIMIT_S))
    except Stuck as error:
        world.ledger.finding(f"P11: stuck: {error}")
    except TimeoutError:
        world.ledger.finding(f"P11: not over after {LIMIT_S} s")
    _end_tasks(world)


def _end_tasks(world: World) -> None:
    """Nothing may outlive a simulation."""
    loop = world.loop
    for _ in range(50):
        left = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=lambda task: task.get_name())
        if not left:
            break
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_asyncgens())


def _outcome(world: World, *, trace: bool) -> Outcome:
    findings = tuple(dict.fromkeys(world.ledger.findings))
    return Outcome(
        seed=world.seed,
        findings=findings,
        digest=world.trace.digest(),
        trace=tuple(world.trace.lines()) if trace or findings else (),
        seconds=world.loop.seconds,
        commits=world.shelf.commits,
        messages=sum(len(story.messages) for story in world.shelf.chronicle.stories.values()),
        deaths=world.deaths,
    )


class Simulation:
    """Clients, viewers and accidents, then peace, and what must hold in it.

    Between `begin` and `end` anybody may ask the host for anything through the world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice("plot")
        self._viewers: list[Viewer] = []
        self._overseer = Overseer(world)
        self._keeper: asyncio.Task[None] | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._peace = False
        self._mishaps = Mishaps(world, world.dice("mishaps"))
        self._set_back_ms = 0
        """How far the wall clock was set back, in all."""

    async def run(self) -> None:
        """Everything, from the first start of the host to its end."""
        world, dice = self._world, self._dice
        refs = tuple(f"s{number}" for number in range(dice.randint(1, 3)))
        clients = [Client(world, number, refs) for number in range(dice.randint(2, 4))]
        actions = dice.randint(4, 14) * (2 if world.shared else 1)
        self.begin()
        async with asyncio.TaskGroup() as everybody:
            accidents = everybody.create_task(self._accidents())
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(client.live(actions))
            self._peace = True
            await accidents
        await self.end()

    def begin(self) -> None:
        """Start the hosts, and viewers of everything."""
        self._keeper = self._start(self._world.keep_up())
        self._watchers = [self._start(self._overseer.watch()), self._start(self._send_viewers())]
        if self._world.shared:
            self._watchers.append(self._start(Patrol(self._world).walk()))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def end(self) -> None:
        """Let nothing go wrong any more, wait until all has settled, stop the host, and check what it has left."""
        world = self._world
        world.weather.clear_up()
        world.shelf.away_until = 0.0
        world.trace.note("peace")
        if world.shared:
            await self._mishaps.over()
        await self._settle()
        for watcher in self._watchers:
            watcher.cancel()
        await world.shut_down()
        await self._dismiss()
        check(world, self._viewers, self._overseer)

    async def _dismiss(self) -> None:
        """End the simulation's own tasks. A flaw in one of them is raised."""
        tasks = [*self._watchers, *([self._keeper] if self._keeper else [])]
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _accidents(self) -> None:
        """What happens at some time, whatever the host does."""
        world, dice = self._world, self._dice
        weather = world.weather
        due = [
            *["kill"] * weather.kills,
            *["restart"] * weather.restarts,
            *["outage"] * weather.outages,
            *["damage"] * weather.damages,
            *["clock"] * weather.clock_jumps,
        ]
        if world.shared:
            due += ["mishap"] * len(self._mishaps.due)
            dice.shuffle(self._mishaps.due)
        dice.shuffle(due)
        for accident in due:
            await asyncio.sleep(1.5 * dice.random())
            if self._peace:
                return
            world.trace.note("accident", accident)
            slot = self._mishaps.slot() if world.shared else world.slots[0]
            if accident == "mishap":
                self._mishaps.begin(self._mishaps.due.pop())
            elif accident == "kill":
                slot.kill()
            elif accident == "restart":
                await slot.restart(hurry=dice.random() < 0.3)
            elif accident == "outage":
                world.shelf.away_until = world.clock.monotonic() + dice.random()
            elif accident == "damage":
                world.shelf.damaged.update(list(world.shelf.chronicle.stories)[:1])
            else:
                jump_ms = dice.randint(-600_000, 600_000)
                world.clock.shift_ms += jump_ms
                self._set_back_ms += max(0, -jump_ms)

    async def _send_viewers(self) -> None:
        """One viewer for every session that comes to be, as soon as it is noticed; sometimes a second."""
        number, known = 0, set[str]()
        while True:
            for session_id in list(self._world.shelf.chronicle.stories):
                if session_id in known:
                    continue
                known.add(session_id)
                for _ in range(self._dice.choice((1, 1, 2))):
                    viewer = Viewer(self._world, number, session_id)
                    self._viewers.append(viewer)
                    self._watchers.append(self._start(viewer.watch()))
                    number += 1
            await asyncio.sleep(0.1)

    async def _settle(self) -> None:
        """Wait until nothing is left to do: people answer what they are asked, and the rest goes by itself."""
        world = self._world
        await world.all_up()
        # Deadlines go by the wall clock: where it was set back, so is all that it decides.
        until = world.clock.monotonic() + SETTLE_S + self._set_back_ms / 1000
        while self._unsettled() or self._behind():
            if world.clock.monotonic() > until:
                for finding in (*self._unsettled(), *self._behind()):
                    world.ledger.finding(finding)
                return
            await self._answer_questions()
            await asyncio.sleep(0.25)

    def _unsettled(self) -> list[str]:
        """What has not come to rest."""
        found: list[str] = []
        for story in self._world.shelf.readable():
            session = story.session
            if session.running:
                found.append(f"P11: {session.id} still runs {session.running.turn.id}")
            elif session.may_run:
                found.append(f"P3: {session.id} still lets {session.inbox[0].id} wait")
            elif (at := next_deadline(session)) is not None and at <= self._world.clock.now():
                found.append(f"P3: {session.id} still keeps a message that is out of time")
        return found

    def _behind(self) -> list[str]:
        """Which viewers have not been told everything."""
        stories, readable = self._world.shelf.chronicle.stories, self._world.shelf.readable()
        found: list[str] = []
        for viewer in self._viewers:
            last, end = viewer.seen[-1][0] if viewer.seen else 0, stories[viewer.session_id].session.sequence
            if stories[viewer.session_id] in readable and last != end:
                found.append(f"P12: a viewer of {viewer.session_id} has seen {last} of {end}")
        for story in readable:
            seen = self._overseer.seen.get(story.session.id, [0])
            if seen[-1] != story.session.sequence:
                found.append(f"P12: the feed has told {seen[-1]} of {story.session.sequence} of {story.session.id}")
        return found

    async def _answer_questions(self) -> None:
        async def answer(host: Host) -> None:
            for asked in (await host.permissions(state="pending")).items:
                with contextlib.suppress(AntiphonError):  # one of a damaged session holds up no other
                    await host.answer_permission(asked.id, decision="allow", option_id=None, note=None, by="peace")

        try:
            await self._world.call("answer all", answer, patient=True)
        except (Gone, AntiphonError):
            return
