"""Where a simulated host's process runs, dies, and is started again; and what can befall it there."""

import asyncio
import contextvars
from typing import TYPE_CHECKING

from antiphon.core.errors import StoreUnavailable
from antiphon.host.host import Host
from antiphon.ports.agent import Capabilities
from antiphon.ports.peers import LEASE_S
from antiphon.store.memory import MemoryStore
from antiphon.testing.simulation.agent import SimulatedAgent
from antiphon.testing.simulation.peers import ShakyPeers
from antiphon.testing.simulation.store import ShakyStore
from antiphon.testing.simulation.wire import Life, named

if TYPE_CHECKING:
    from antiphon.testing.simulation.world import World

EVERYTHING = Capabilities(steer=True, interrupt=True, resume=True, permissions=True, rollback=True, usage=True)
AGENTS = {"able": EVERYTHING, "plain": Capabilities(interrupt=True)}
STOP_S = 60.0
LEAVE_S = 1.0
"""How long calls may take to come to their end after the host's stop, besides their reads of the store."""


class Slot:
    """A machine with a host on it.

    Attributes:
        name: What its hosts are called among those of other slots; empty where there is one.
        life: The host that runs, or the last one that did.
        up: Set while the host serves.
    """

    def __init__(self, world: "World", name: str = "") -> None:
        self.name = name
        self.life: Life | None = None
        self.up = asyncio.Event()
        self._world = world
        self._memory: MemoryStore | None = None
        self._stopping: Life | None = None

    @property
    def door(self) -> Life | None:
        """The host, where it can be called."""
        life = self.life
        return life if life and life.serving and life.host else None

    # Its process

    async def keep_up(self) -> None:
        """Start the host, and start it again whenever it has died. Runs until the world is over."""
        world = self._world
        while not world.over:
            life = world.new_life(self.name)
            self.life = life
            world.trace.note("host starts", life.number, *([self.name] if self.name else []))
            started = life.spawn(self._start(life))
            await asyncio.wait({started, life.died}, return_when=asyncio.FIRST_COMPLETED)
            if not life.dead and started.exception():
                if not isinstance(started.exception(), StoreUnavailable):
                    world.ledger.finding(f"P13: a host does not start: {started.exception()!r}")
                self.kill()
            if not life.dead:
                life.serving = True
                self.up.set()
                await asyncio.wait({life.died})
            await asyncio.sleep(world.wire.random())

    async def _start(self, life: Life) -> None:
        world = self._world
        memory = self._memory = world.shelf.memory.join(world.clock) if self.name else None
        store = ShakyStore(
            world.shelf, life, self.kill, world.plan, memory=memory, machine=world.machine, stall=self.stall
        )
        peers = memory.peers if memory else None
        life.host = Host(
            store=store,
            agents={name: SimulatedAgent(name, world.machine, able) for name, able in AGENTS.items()},
            clock=world.clock,
            ids=world.ids,
            settings=world.settings,
            workspace=lambda _session_id: "/",
            seed=world.wire.randint(0, 1 << 30),
            peers=ShakyPeers(peers, store) if peers else None,
            name=self.name,
        )
        await life.host.start()

    def kill(self) -> None:
        """Kill the host's process, in the middle of whatever it does."""
        life = self.life
        if life is None or life.dead:
            return
        self._world.deaths += 1
        self._world.trace.note("host dies", life.number)
        self.up.clear()
        self._world.machine.perish(life)
        self._end(life)

    def _end(self, life: Life) -> None:
        life.die()
        if self._memory:
            self._memory.lose()

    async def restart(self, *, hurry: bool = False) -> None:
        """Stop the host in good order, while clients go on asking, and check that nothing of it is left."""
        world, life = self._world, self.life
        if life is None or life.host is None or not life.serving or life is self._stopping:
            return
        self._stopping = life
        began = world.clock.monotonic()
        stopped = life.spawn(life.host.stop())
        if hurry:
            life.host.hurry()
        await asyncio.wait({stopped, life.died}, timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED)
        if life.dead:
            return
        if not stopped.done():
            world.ledger.finding("P3: the host does not stop")
        elif error := stopped.exception():
            world.ledger.finding(f"P3: the host stops with {error!r}")
        life.serving = False
        world.trace.note("host stopped", life.number, world.clock.monotonic() - began)
        await asyncio.sleep(LEAVE_S + world.weather.slow_s * 8)
        if not life.dead:
            self._check_left(life, began)
            self.up.clear()
            self._end(life)

    def _check_left(self, life: Life, began: float) -> None:
        if self.name and life.was_ill(began):
            return
        for task in life.left():
            self._world.ledger.finding(f"P3: a task is left after the host's stop: {named(task)}")
        if left := len(self._world.machine.living(life)):
            self._world.ledger.finding(f"P14: {left} agents are left after the host's stop")

    # What befalls one of several

    async def freeze(self, seconds: float) -> None:
        """Let the host stand still for so long."""
        if life := self.door:
            self._world.trace.note("freezes", self.name, seconds)
            life.freeze()
            await asyncio.sleep(seconds)
            life.thaw()
            self._world.trace.note("goes on", self.name)

    def stall(self) -> None:
        """Let the host stand still, for longer than its lease, in the middle of what it does just now."""
        life, seconds = self.life, LEASE_S + 2 * self._world.wire.random()
        if life and life.serving and not life.dead:
            self._world.trace.note("stalls", self.name, seconds)
            life.freeze()
            self._world.loop.call_later(seconds, life.thaw, context=contextvars.Context())

    async def cut_off(self, seconds: float) -> None:
        """Cut the host off from the store for so long: its claims are free, until it takes up what is left of them."""
        life, memory = self.life, self._memory
        if life is None or memory is None or life.dead or life.cut:
            return
        life.cut = True
        memory.lose()
        await asyncio.sleep(seconds)
        life.cut, life.ill_at = False, self._world.clock.monotonic()
        if not life.dead:
            memory.regain()
            self._world.trace.note("is back", self.name)

    async def mute(self, seconds: float) -> None:
        """Let what the host tells of itself get lost for so long."""
        if memory := self._memory:
            memory.mute()
            await asyncio.sleep(seconds)
            memory.mute(muted=False)
            self._world.trace.note("is heard", self.name)
