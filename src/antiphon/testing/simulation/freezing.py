"""Processes that stand still: a loop that keeps back what belongs to a frozen life, as a stopped process does nothing.

What is due to a frozen life, timers and answers of the store alike, waits for it in the order in which it fell due, and
all of it runs once the life goes on. Whatever is not its own goes on meanwhile: other hosts, clients, its own agents.
"""

import asyncio
import contextvars
import heapq
from collections.abc import Callable
from typing import Any

from antiphon.testing.simulation.loop import VirtualLoop
from antiphon.testing.simulation.wire import LIFE


class FreezingLoop(VirtualLoop):
    """A virtual loop that asks, before it runs anything, whether the life that it belongs to stands still."""

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        step = _Step(callback, args, self, context)
        self._ready.append(step)
        return step

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.loop.call_at`."""
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        return timer


class _Step(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        if (life := self._context.get(LIFE)) and life.frozen:
            life.keep_back(self)
        else:
            super()._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self._scheduled = True

    def _run(self) -> None:
        if (life := self._context.get(LIFE)) and life.frozen:
            life.keep_back(self)
        else:
            super()._run()
