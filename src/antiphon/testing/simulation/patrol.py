"""Looks, all the time, at what several hosts may never do, or not for long."""

import asyncio

from antiphon.testing.simulation.world import World

LOOK_S = 0.25
STRAY_S = 10.0
"""How long a host may need to end the agent of a session that it has lost, while it runs and reaches the store."""


class Patrol:
    """Goes its round through a world's hosts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._astray: dict[int, float] = {}
        """For how long each agent has worked for a host that has lost its session."""

    async def walk(self) -> None:
        """Look, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._look_for_strays()

    def _look_for_strays(self) -> None:
        before, self._astray = self._astray, {}
        strays, stories = self._world.machine.strays(), self._world.shelf.chronicle.stories
        for process in self._world.machine.processes():
            if process not in strays and stories[process.session_id].over_at is None:
                continue
            known = before.get(process.number, 0.0)
            self._astray[process.number] = known + (0 if process.life.ill else LOOK_S)
            if known <= STRAY_S < self._astray[process.number]:
                what = f"agent {process.number} of {process.session_id} lives on with {process.life.name}"
                self._world.ledger.finding(f"P1: {what}, to which that session is lost")
