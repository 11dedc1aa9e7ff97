"""The machine that simulated agents run on: who lives on it, what reached them, what they said."""

import asyncio
import contextvars
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.ports.ids import Ids
from antiphon.testing.simulation.ledger import Ledger
from antiphon.testing.simulation.loop import VirtualLoop
from antiphon.testing.simulation.trace import Trace
from antiphon.testing.simulation.weather import Weather
from antiphon.testing.simulation.wire import Life

if TYPE_CHECKING:
    from antiphon.testing.simulation.agent import Process


class Delivered(msgspec.Struct, frozen=True):
    """Something that reached an agent: a prompt, or a steer that it took."""

    turn_id: str
    message_ids: tuple[str | None, ...]
    texts: tuple[str, ...]
    steered: bool = False


class Machine:
    """Where the agents of a simulation live. It dies with no host: a host's death kills that host's agents only.

    Attributes:
        delivered: Everything that reached an agent, in order.
        said: What each turn's agent said in it before its end, by turn id.
        own: The turns that agents began by themselves.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        dice: random.Random,
        ids: Ids,
        weather: Weather,
        ledger: Ledger,
        trace: Trace,
        limit: int,
    ) -> None:
        self.loop = loop
        self.dice = dice
        self.ids = ids
        self.weather = weather
        self.ledger = ledger
        self.trace = trace
        self.limit = limit
        self.delivered: list[Delivered] = []
        self.said: dict[str, list[str]] = {}
        self.own: set[str] = set()
        self._living: dict[str, list[Process | None]] = {}
        self._outside = contextvars.Context()
        self._opened = 0

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something as a part of an agent, outside of every host."""
        return self.loop.create_task(work, context=self._outside)

    async def pause(self, most_s: float) -> None:
        """Take a moment, perhaps none."""
        if most_s and self.dice.random() < 0.7:
            await asyncio.sleep(most_s * self.dice.random())

    def enter(self, session_id: str) -> int:
        """An agent of a session starts; its number. Two of one session, or more than the limit, are a finding."""
        others = self._living.setdefault(session_id, [])
        if others:
            self.ledger.finding(f"P1: a second agent of {session_id} starts while one lives")
        others.append(None)
        if self.living > self.limit:
            self.ledger.finding(f"P15: {self.living} agents live at once, {self.limit} may")
        self._opened += 1
        self.trace.note("agent starts", session_id, self._opened)
        return self._opened

    def settle(self, session_id: str, process: "Process") -> None:
        """The agent that entered last is this process."""
        self._living[session_id].remove(None)
        self._living[session_id].append(process)

    def leave(self, session_id: str, process: "Process | None") -> None:
        """An agent of a session, or its start, has come to its end."""
        self._living[session_id].remove(process)

    @property
    def living(self) -> int:
        """How many agents live, or are about to."""
        return sum(len(processes) for processes in self._living.values())

    def processes(self) -> list["Process"]:
        """Those that have come up and have not ended."""
        return [process for living in self._living.values() for process in living if process is not None]

    def works_on(self, turn_id: str) -> bool:
        """Whether an agent still works on a turn."""
        return any(process.turn_id == turn_id for process in self.processes())

    def perish(self, life: Life) -> None:
        """Kill everything that this host started."""
        for process in self.processes():
            if process.life is life:
                process.perish()
        for living in self._living.values():
            living[:] = [process for process in living if process is not None and process.life is not life]
