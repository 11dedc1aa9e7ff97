"""The machine that simulated agents run on: who lives on it, what reached them, what they said."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
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
    """Something that reached an agent (`pid`) at some time: a prompt, or a steer that it took."""

    turn_id: str
    message_ids: tuple[str | None, ...]
    texts: tuple[str, ...]
    steered: bool = False
    pid: int | None = None
    at: float = 0.0


class Machine:
    """Where the agents of a simulation live. It dies with no host: a host's death kills that host's agents only.

    Attributes:
        delivered: Everything that reached an agent, in order.
        said: What each turn's agent said in it before its end, by turn id.
        ended: When an agent said that a turn has ended, by turn id.
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
        owner: Callable[[str], Life | None],
    ) -> None:
        """Args:
        limit: How many agents each host may have at a time.
        owner: Which host's claim on a session is the newest.
        """
        self.loop = loop
        self.dice = dice
        self.ids = ids
        self.weather = weather
        self.ledger = ledger
        self.trace = trace
        self.limit = limit
        self.owner = owner
        self.delivered: list[Delivered] = []
        self.said: dict[str, list[str]] = {}
        self.ended: dict[str, float] = {}
        self.own: set[str] = set()
        self._living: dict[str, list[Process | Life]] = {}
        self._outside = contextvars.Context()
        self._opened = 0

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something as a part of an agent, outside of every host."""
        return self.loop.create_task(work, context=self._outside)

    async def pause(self, most_s: float) -> None:
        """Take a moment, perhaps none."""
        if most_s and self.dice.random() < 0.7:
            await asyncio.sleep(most_s * self.dice.random())

    def enter(self, session_id: str, life: Life) -> int:
        """An agent of a session starts; its number. Two of one host's, or more than its limit, are a finding.

        While it starts it counts as the life that starts it. An agent of a host that has lost the session may live
        beside it for a while: nobody can end it before that host knows.
        """
        others = self._living.setdefault(session_id, [])
        if any(_life(other) is life for other in others):
            self.ledger.finding(f"P1: a second agent of {session_id} starts while one lives")
        others.append(life)
        if len(self.living(life)) > self.limit:
            self.ledger.finding(f"P15: {len(self.living(life))} agents live at once, {self.limit} may")
        self._opened += 1
        self.trace.note("agent starts", session_id, self._opened)
        return self._opened

    def settle(self, session_id: str, process: "Process") -> None:
        """The agent that this life has just started is this process."""
        self._living[session_id].remove(process.life)
        self._living[session_id].append(process)

    def leave(self, session_id: str, process: "Process | Life") -> None:
        """An agent of a session, or its start, has come to its end."""
        self._living[session_id].remove(process)

    def living(self, life: Life, session_id: str | None = None) -> list["Process | Life"]:
        """The agents of a host, or of one of its sessions, that live or are about to."""
        return [
            each
            for name, living in self._living.items()
            for each in living
            if session_id in (None, name) and _life(each) is life
        ]

    def processes(self) -> list["Process"]:
        """Those that have come up and have not ended."""
        return [each for living in self._living.values() for each in living if not isinstance(each, Life)]

    def strays(self) -> list["Process"]:
        """Those whose host has lost their session to another one."""
        return [each for each in self.processes() if self.owner(each.session_id) not in (None, each.life)]

    def works_on(self, turn_id: str) -> bool:
        """Whether an agent still works on a turn that may count."""
        strays = self.strays()
        return any(process.turn_id == turn_id for process in self.processes() if process not in strays)

    def perish(self, life: Life) -> None:
        """Kill everything that this host started."""
        for process in self.processes():
            if process.life is life:
                process.perish()
        for living in self._living.values():
            living[:] = [each for each in living if _life(each) is not life]


def _life(each: "Process | Life") -> Life:
    """The host that has started an agent."""
    return each if isinstance(each, Life) else each.life
