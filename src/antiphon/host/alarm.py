"""The alarm of a session: it wakes its actor when something in it falls due."""

import asyncio
from collections.abc import Callable

from antiphon.host.tasks import Tasks
from antiphon.ports.clock import Clock


class Alarm:
    """Rings once, at the time it was last set to. Times are ms since the epoch, as the journal has them.

    It sleeps by monotonic time: after a jump of the clock it rings early or late, and whoever is rung for looks at the
    clock and sets it again.
    """

    def __init__(self, clock: Clock, tasks: Tasks, ring: Callable[[], None]) -> None:
        self._clock, self._tasks, self._ring = clock, tasks, ring
        self._at: int | None = None
        self._sleeping: asyncio.Task[None] | None = None

    @property
    def at(self) -> int | None:
        """When it rings; None where it does not."""
        return self._at

    def set(self, at: int | None) -> None:
        """Ring at that time and no other."""
        if at == self._at:
            return
        if self._sleeping:
            self._sleeping.cancel()
        self._at = at
        self._sleeping = None if at is None else self._tasks.start(self._sleep(at), "alarm")

    async def _sleep(self, at: int) -> None:
        await self._clock.sleep(max(0, at - self._clock.now()) / 1000)
        self._at = self._sleeping = None
        self._ring()
