"""Time that jumps: an event loop whose clock stands still while anything can run, with a clock and ids to go with it.

The loop keeps asyncio's order: callbacks run first in, first out, timers by their time. What varies from seed to seed
is how long everything takes that a real host would wait for: only that order is unspecified in the world, so only that
is explored.
"""

import asyncio
from asyncio import BaseEventLoop
from collections import deque
from collections.abc import Iterable
from typing import Any

STARTED_AT = 1_700_000_000_000
"""What the clock shows, in ms since the epoch, when a simulation begins."""


class Stuck(Exception):
    """Nothing can run and no timer is set: whoever waits would wait for ever."""


class _Jump:
    """In the place of a selector: instead of waiting for files, it lets the time pass at once."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is ready, no timer is set")
        self._loop.seconds += timeout
        return []

    def close(self) -> None:
        """Nothing is held."""


class VirtualLoop(BaseEventLoop):
    """An event loop without files, threads and real time.

    Attributes:
        seconds: How much time has passed. It moves only when nothing is ready: to the next timer.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._selector = _Jump(self)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self.seconds

    def run_again(self, handles: Iterable[asyncio.Handle]) -> None:
        """Run what was kept back, in its order."""
        self._ready.extend(handles)

    def _process_events(self, event_list: list[Any]) -> None:
        """No files, no events."""

    def _write_to_self(self) -> None:
        """No other thread wakes this loop."""


class VirtualClock:
    """A clock that shows the loop's time. Its wall time can be moved, as machines' are."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.shift_ms = 0

    def now(self) -> int:
        """Milliseconds since the epoch, as long as nobody moves the clock."""
        return STARTED_AT + self.shift_ms + int(self._loop.seconds * 1000)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.seconds

    async def sleep(self, seconds: float) -> None:
        """Let that much virtual time pass."""
        await asyncio.sleep(seconds)


class CountedIds:
    """Ids of the usual form, counted up: 32 hexadecimal digits behind a prefix, each greater than all before it."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, prefix: str) -> str:
        """The next id."""
        self._last += 1
        return f"{prefix}_{self._last:032x}"
