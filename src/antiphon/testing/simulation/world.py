"""The world of a simulation: the host that lives and dies in it, and how clients reach it."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.testing.simulation.ledger import Ledger
from antiphon.testing.simulation.loop import CountedIds, VirtualClock, VirtualLoop
from antiphon.testing.simulation.machine import Machine
from antiphon.testing.simulation.slot import Slot
from antiphon.testing.simulation.store import Shelf
from antiphon.testing.simulation.trace import Trace
from antiphon.testing.simulation.weather import Weather, drawn, settings, with_others
from antiphon.testing.simulation.wire import LIFE, Gone, Leaving, Life, own_tasks

T = TypeVar("T")

PATIENCE_S = 3.0
"""How long a caller waits at the most for a host that stands still."""
STEPS_MAX = 12
"""At which wait of its call a caller leaves at the latest."""


class World:
    """Everything that a simulation is made of.

    Attributes:
        seed: What all dice come from.
        weather: How much trouble there is just now.
        plan: What happens at each commit, instead of what the weather says.
        slots: Where hosts run: one, or several over one store.
        over: Whether no host is started again.
        deaths: How often hosts have died.
        leave_at: At which wait of its call the next caller leaves, whatever the weather says.
    """

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        *,
        weather: Weather | None = None,
        plan: Callable[[int], str] | None = None,
        hosts: int = 1,
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.weather = weather or drawn(self.dice("weather"))
        if hosts > 1 and weather is None:
            with_others(self.weather, self.dice("others"))
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
            owner=self.shelf.owner,
        )
        self.wire = self.dice("wire")
        self.slots = [Slot(self, f"h{number}" if hosts > 1 else "") for number in range(1, hosts + 1)]
        self.over = False
        self.deaths = 0
        self._doors = self.dice("doors")
        self._lives = 0
        self.leave_at: int | None = None
        own_tasks(loop)

    def dice(self, what: str) -> random.Random:
        """A source of chance of its own for each purpose."""
        return random.Random(f"{self.seed}/{what}")  # noqa: S311 - repeatable on purpose

    # The hosts' processes

    @property
    def shared(self) -> bool:
        """Whether there are several hosts."""
        return len(self.slots) > 1

    @property
    def life(self) -> Life | None:
        """The only host, or the first one."""
        return self.slots[0].life

    @property
    def up(self) -> asyncio.Event:
        """Set while the only host, or the first one, serves."""
        return self.slots[0].up

    def new_life(self, name: str) -> Life:
        """One more run of a host."""
        self._lives += 1
        return Life(self.loop, self._lives, name)

    async def keep_up(self) -> None:
        """Start the hosts, and start each again whenever it has died. Runs until `shut_down`."""
        if not self.shared:
            await self.slots[0].keep_up()
            return
        async with asyncio.TaskGroup() as group:
            for slot in self.slots:
                group.create_task(slot.keep_up())

    async def all_up(self) -> None:
        """Wait until every host serves."""
        for slot in self.slots:
            await slot.up.wait()

    def kill(self) -> None:
        """Kill the only host, or the first one."""
        self.slots[0].kill()

    async def restart(self, *, hurry: bool = False) -> None:
        """Stop the only host, or the first one, in good order."""
        await self.slots[0].restart(hurry=hurry)

    async def shut_down(self) -> None:
        """Stop the hosts in good order, for good, one after the other."""
        await self.all_up()
        self.over = True
        for slot in self.slots:
            await slot.restart()
        await asyncio.sleep(0.01)

    @staticmethod
    def leaves(life: Life) -> bool:
        """Whether a host is about to stop, or does not serve."""
        return not life.serving or life.host is None or life.host.context.draining

    # Reaching it

    async def call(
        self,
        what: str,
        work: Callable[[Host], Coroutine[Any, Any, T]],
        *,
        patient: bool = False,
        served: list[Life] | None = None,
    ) -> T:
        """Have a host do something for a client, over a connection that may break.

        Which one did it is added to `served`.

        Raises:
            Gone: No answer came.
            AntiphonError: The host's answer.
        """
        leave_at = None if patient else self._leave_at()
        await self._transit()
        life = self._door()
        if life is None or life.host is None:
            await asyncio.sleep(0.05)
            raise Gone("it is down")
        if served is not None:
            served.append(life)
        doing = work(life.host)
        handler = life.spawn(doing if leave_at is None else Leaving(doing, leave_at).run())
        try:
            await self._until_done(handler, life)
        finally:
            if not handler.done():
                handler.cancel()
                handler.add_done_callback(lambda task: _forget(task, doing))
            else:
                _forget(handler, doing)
        if not handler.done() or handler.cancelled():
            self.trace.note("left", what)
            raise Gone("it died, or the caller left")
        answer = self._answer(what, handler)
        await self._transit()
        if not patient and self.wire.random() < self.weather.lost:
            raise Gone("the answer was lost")
        if isinstance(answer, AntiphonError):
            raise answer
        return answer

    def _door(self) -> Life | None:
        """Some host that can be called; whether it stands still nobody sees from outside."""
        doors = [door for slot in self.slots if (door := slot.door)]
        return self._doors.choice(doors) if self.shared and doors else next(iter(doors), None)

    async def _until_done(self, handler: asyncio.Task[Any], life: Life) -> None:
        """Wait for an answer, or until the host has died; with little patience for one that stands still."""
        while True:
            await asyncio.wait({handler, life.died, life.stands}, return_when=asyncio.FIRST_COMPLETED)
            if handler.done() or life.dead:
                return
            patience_s = PATIENCE_S * self._doors.random()
            await asyncio.wait({handler, life.died}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if handler.done() or life.dead or life.frozen:
                return

    def _leave_at(self) -> int | None:
        """At which wait of the next call its caller leaves, counted from 0; None when it stays."""
        if self.leave_at is not None:
            return self.leave_at
        return self.wire.randrange(STEPS_MAX) if self.wire.random() < self.weather.leaves else None

    def _answer(self, what: str, handler: asyncio.Task[T]) -> T | AntiphonError:
        error = handler.exception()
        if error is None:
            return handler.result()
        if not isinstance(error, AntiphonError):
            self.ledger.finding(f"P15: {what} raises {error!r}")
            raise Gone("it has a flaw")
        return error

    async def _transit(self) -> None:
        if self.wire.random() < 0.3:
            await asyncio.sleep(0.02 * self.wire.random())

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


def _forget(task: asyncio.Task[Any], work: Coroutine[Any, Any, Any]) -> None:
    """Nobody waits for that call any more: it may never have been begun, or may have come to some other end."""
    if not task.cancelled():
        task.exception()
    work.close()
