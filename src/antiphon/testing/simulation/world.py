"""The world of a simulation: the host that lives and dies in it, and how clients reach it."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from antiphon.core.errors import AntiphonError, StoreUnavailable
from antiphon.host.host import Host
from antiphon.ports.agent import Capabilities
from antiphon.testing.simulation.agent import SimulatedAgent
from antiphon.testing.simulation.ledger import Ledger
from antiphon.testing.simulation.loop import CountedIds, VirtualClock, VirtualLoop
from antiphon.testing.simulation.machine import Machine
from antiphon.testing.simulation.store import ShakyStore, Shelf
from antiphon.testing.simulation.trace import Trace
from antiphon.testing.simulation.weather import Weather, drawn, settings
from antiphon.testing.simulation.wire import LIFE, Gone, Leaving, Life, own_tasks

T = TypeVar("T")

EVERYTHING = Capabilities(steer=True, interrupt=True, resume=True, permissions=True, rollback=True, usage=True)
AGENTS = {"able": EVERYTHING, "plain": Capabilities(interrupt=True)}
STOP_S = 60.0
LEAVE_S = 1.0
"""How long calls may take to come to their end after the host's stop, besides their reads of the store."""
STEPS_MAX = 12
"""At which wait of its call a caller leaves at the latest."""


class World:
    """Everything that a simulation is made of.

    Attributes:
        seed: What all dice come from.
        weather: How much trouble there is just now.
        plan: What happens at each commit, instead of what the weather says.
        up: Set while the host serves.
        deaths: How often it has died.
        leave_at: At which wait of its call the next caller leaves, whatever the weather says.
    """

    def __init__(
        self, seed: int, loop: VirtualLoop, *, weather: Weather | None = None, plan: Callable[[int], str] | None = None
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.weather = weather or drawn(self.dice("weather"))
        self.settings = settings(self.dice("settings"))
        self.plan = plan
        self.clock = VirtualClock(loop)
        self.ids = CountedIds()
        self.trace = Trace(loop)
        self.ledger = Ledger()
        self.shelf = Shelf(
            clock=self.clock, dice=self.dice("store"), weather=self.weather, ledger=self.ledger, trace=self.trace
        )
        self.machine = Machine(
            loop,
            dice=self.dice("agents"),
            ids=self.ids,
            weather=self.weather,
            ledger=self.ledger,
            trace=self.trace,
            limit=self.settings.max_agents,
        )
        self.life: Life | None = None
        self._wire = self.dice("wire")
        self._lives: list[Life] = []
        self._over = False
        self.up = asyncio.Event()
        self.deaths = 0
        self.leave_at: int | None = None
        own_tasks(loop)

    def dice(self, what: str) -> random.Random:
        """A source of chance of its own for each purpose."""
        return random.Random(f"{self.seed}/{what}")  # noqa: S311 - repeatable on purpose

    # The host's process

    async def keep_up(self) -> None:
        """Start the host, and start it again whenever it has died. Runs until `shut_down`."""
        while not self._over:
            life = Life(self.loop, len(self._lives) + 1)
            self._lives.append(life)
            self.life = life
            self.trace.note("host starts", life.number)
            started = life.spawn(self._start(life))
            await asyncio.wait({started, life.died}, return_when=asyncio.FIRST_COMPLETED)
            if not life.dead and started.exception():
                if not isinstance(started.exception(), StoreUnavailable):
                    self.ledger.finding(f"P13: a host does not start: {started.exception()!r}")
                self.kill()
            if not life.dead:
                life.serving = True
                self.up.set()
                await asyncio.wait({life.died})
            await asyncio.sleep(self._wire.random())

    async def _start(self, life: Life) -> None:
        life.host = Host(
            store=ShakyStore(self.shelf, life, self.kill, self.plan),
            agents={name: SimulatedAgent(name, self.machine, able) for name, able in AGENTS.items()},
            clock=self.clock,
            ids=self.ids,
            settings=self.settings,
            workspace=lambda _session_id: "/",
            seed=self._wire.randint(0, 1 << 30),
        )
        await life.host.start()

    def kill(self) -> None:
        """Kill the host's process, in the middle of whatever it does."""
        life = self.life
        if life is None or life.dead:
            return
        self.deaths += 1
        self.trace.note("host dies", life.number)
        self.up.clear()
        self.machine.perish(life)
        life.die()

    async def shut_down(self) -> None:
        """Stop the host in good order, for good."""
        await self.up.wait()
        self._over = True
        await self.restart()
        await asyncio.sleep(0.01)

    async def restart(self, *, hurry: bool = False) -> None:
        """Stop the host in good order, while clients go on asking, and check that nothing of it is left."""
        life = self.life
        if life is None or life.host is None or not life.serving:
            return
        began = self.clock.monotonic()
        stopped = life.spawn(life.host.stop())
        if hurry:
            life.host.hurry()
        await asyncio.wait({stopped, life.died}, timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED)
        if life.dead:
            return
        if not stopped.done():
            self.ledger.finding("P3: the host does not stop")
        elif error := stopped.exception():
            self.ledger.finding(f"P3: the host stops with {error!r}")
        life.serving = False
        self.trace.note("host stopped", life.number, self.clock.monotonic() - began)
        await asyncio.sleep(LEAVE_S + self.weather.slow_s * 8)
        if not life.dead:
            self._check_left(life)
            self.up.clear()
            life.die()

    def _check_left(self, life: Life) -> None:
        for task in life.left():
            self.ledger.finding(f"P3: a task is left after the host's stop: {_named(task)}")
        if self.machine.living:
            self.ledger.finding(f"P14: {self.machine.living} agents are left after the host's stop")

    @property
    def draining(self) -> bool:
        """Whether the host is about to stop, or does not serve."""
        life = self.life
        return life is None or life.host is None or not life.serving or life.host.context.draining

    # Reaching it

    async def call(self, what: str, work: Callable[[Host], Coroutine[Any, Any, T]], *, patient: bool = False) -> T:
        """Have the host do something for a client, over a connection that may break.

        Raises:
            Gone: No answer came.
            AntiphonError: The host's answer.
        """
        leave_at = None if patient else self._leave_at()
        await self._transit()
        life = self.life
        if life is None or not life.serving or life.host is None:
            await asyncio.sleep(0.05)
            raise Gone("it is down")
        doing = work(life.host)
        handler = life.spawn(doing if leave_at is None else Leaving(doing, leave_at).run())
        try:
            await asyncio.wait({handler, life.died}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not handler.done():
                handler.cancel()
            elif handler.cancelled():
                doing.close()  # it may never have been begun
        if not handler.done() or handler.cancelled():
            self.trace.note("left", what)
            raise Gone("it died, or the caller left")
        answer = self._answer(what, handler)
        await self._transit()
        if not patient and self._wire.random() < self.weather.lost:
            raise Gone("the answer was lost")
        if isinstance(answer, AntiphonError):
            raise answer
        return answer

    def _leave_at(self) -> int | None:
        """At which wait of the next call its caller leaves, counted from 0; None when it stays."""
        if self.leave_at is not None:
            return self.leave_at
        return self._wire.randrange(STEPS_MAX) if self._wire.random() < self.weather.leaves else None

    def _answer(self, what: str, handler: asyncio.Task[T]) -> T | AntiphonError:
        error = handler.exception()
        if error is None:
            return handler.result()
        if not isinstance(error, AntiphonError):
            self.ledger.finding(f"P15: {what} raises {error!r}")
            raise Gone("it has a flaw")
        return error

    async def _transit(self) -> None:
        if self._wire.random() < 0.3:
            await asyncio.sleep(0.02 * self._wire.random())

    # What the host logs

    @contextlib.contextmanager
    def watched_log(self) -> Generator[None]:
        """Take every error of ours that the host logs for a finding."""
        logger = logging.getLogger("antiphon.host")
        handler, propagate = _Watch(self.ledger), logger.propagate
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagate


class _Watch(logging.Handler):
    """Takes what it should never see for a finding."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """A host that is dead says nothing; an adapter's own flaw is not the host's."""
        life = LIFE.get()
        action = getattr(record, "action", "")
        error = record.exc_info[1] if record.exc_info else None
        if (life and life.dead) or action in {"prompt_failed", "adapter_failed"} or error is None:
            return
        self._ledger.finding(f"P13: the host logs {record.getMessage()!r}: {error!r}")


def _named(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "?")
