"""What befalls several hosts over one store: one at a time, and each of it ends by itself."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from antiphon.core.errors import AntiphonError
from antiphon.ports.peers import LEASE_S
from antiphon.testing.simulation.slot import Slot
from antiphon.testing.simulation.wire import Gone
from antiphon.testing.simulation.world import World

TRY_AGAIN_S = 0.1


class Mishaps:
    """Freezes, cuts, silences, drains and restarts of the hosts of a world."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._under_way: list[asyncio.Task[None]] = []
        self._drained: set[str] = set()
        weather = world.weather
        self.due: list[Callable[[], Coroutine[Any, Any, None]]] = [
            *[self._freeze] * weather.freezes,
            *[self._cut] * weather.cuts,
            *[self._mute] * weather.mutes,
            *[self._drain] * weather.drains,
            *[self._roll] * weather.rolls,
            *[self._fail_over] * weather.failovers,
        ]

    def begin(self, mishap: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let it happen, beside everything else."""
        self._under_way.append(asyncio.get_running_loop().create_task(mishap()))

    async def over(self) -> None:
        """Wait until all of it has come to its end, and every host may own sessions."""
        await asyncio.gather(*self._under_way)
        while any(slot.life and slot.life.ill for slot in self._world.slots):  # noqa: ASYNC110 - it ends by itself
            await asyncio.sleep(TRY_AGAIN_S)
        for name in sorted(self._drained):
            while True:
                if await self._ask_to_drain(name, drained=False):
                    break
                await asyncio.sleep(TRY_AGAIN_S)

    def slot(self) -> Slot:
        """One of the machines."""
        return self._dice.choice(self._world.slots)

    async def _freeze(self) -> None:
        slot, seconds = self.slot(), self._dice.choice((0.0, 1.0, LEASE_S, LEASE_S)) + 2 * self._dice.random()
        await slot.freeze(seconds)

    async def _cut(self) -> None:
        slot, seconds = self.slot(), self._dice.choice((0.0, 0.5, 3.0, 8.0)) * self._dice.random()
        self._world.trace.note("is cut off", slot.name, seconds)
        await slot.cut_off(seconds)

    async def _mute(self) -> None:
        slot, seconds = self.slot(), LEASE_S * (0.5 + self._dice.random())
        self._world.trace.note("is not heard", slot.name, seconds)
        await slot.mute(seconds)

    async def _drain(self) -> None:
        name, seconds = self.slot().name, 4 * self._dice.random()
        self._drained.add(name)
        await self._ask_to_drain(name, drained=True)
        await asyncio.sleep(seconds)
        if await self._ask_to_drain(name, drained=False):
            self._drained.discard(name)

    async def _ask_to_drain(self, name: str, *, drained: bool) -> bool:
        try:
            what = f"drain {name} {drained}"
            await self._world.call(what, lambda host: host.drain_host(name, drained=drained), patient=True)
        except (Gone, AntiphonError):
            return False
        self._world.trace.note("drained", name, drained)
        return True

    async def _roll(self) -> None:
        for slot in self._world.slots:
            self._world.trace.note("is restarted", slot.name)
            await slot.restart(hurry=self._dice.random() < 0.2)
            await slot.up.wait()

    async def _fail_over(self) -> None:
        cuts = [slot.cut_off(self._dice.random()) for slot in self._world.slots]
        self._world.trace.note("the store fails over")
        await asyncio.gather(*cuts)
