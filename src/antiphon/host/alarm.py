"""The alarm of a session: it wakes its actor when something in it falls due."""

import asyncio
from collections.abc import Callable

from antiphon.host.tasks import Tasks
from antiphon.ports.clock import Clock

NAP_S = 5.0


class Alarm:
    """Rings once, at the time it was last set to. Times are ms since the epoch, as the journal has them.

    It sleeps by monotonic time: after a jump of the clock it may ring early, and whoever is rung for looks at the clock
    and sets it again; and it looks at the clock itself every few seconds, so that it is never late by more.
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
        until = self._clock.monotonic() + (at - self._clock.now()) / 1000
        while at > self._clock.now() and (left_s := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left_s, NAP_S))
        self._at = self._sleeping = None
        self._ring()
