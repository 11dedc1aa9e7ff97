"""What waits for a thread of the store, and how its outcome comes back to the event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from antiphon.store.sql.statements import Command
from antiphon.store.sql.writes import Write

T = TypeVar("T")


class Job:
    """A command that somebody awaits.

    It keeps its place, one of so many that may wait for a thread, until the thread has done with it: not only while
    somebody waits. Else those who give up would let ever more of them gather before a thread that hangs.
    """

    __slots__ = ("begin", "future", "loop", "places", "write")

    def __init__(
        self, begin: Callable[[], Command[Any]], places: asyncio.Semaphore, write: Write | None = None
    ) -> None:
        """A job of the running loop's.

        Args:
            begin: Makes the command.
            places: Where its place is one of.
            write: What the command writes, where it is a commit: it may be written together with others instead.
        """
        self.begin = begin
        self.write = write
        self.places = places
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


class TimeLimit:
    """Fails calls that take too long, with one timer for all of them: they come and go by the thousand."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: deque[tuple[float, asyncio.Future[Any], Callable[[], Exception]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, future: asyncio.Future[Any], too_late: Callable[[], Exception]) -> None:
        """Set that exception on a future that is not done within the limit."""
        calls, loop = self._calls, future.get_loop()
        while calls and calls[0][1].done():
            calls.popleft()
        calls.append((loop.time() + self._seconds, future, too_late))
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._ring, loop)

    def stop(self) -> None:
        """Fail nobody any more."""
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        calls, self._timer = self._calls, None
        while calls and (calls[0][1].done() or calls[0][0] <= loop.time()):
            _, future, too_late = calls.popleft()
            if not future.done():
                future.set_exception(too_late())
        if calls:
            self._timer = loop.call_at(calls[0][0], self._ring, loop)


class Outcome(NamedTuple):
    """What became of a job: its result, or the error that it raised. For one that nobody awaits, nothing."""

    job: Job
    result: Any = None
    error: BaseException | None = None


def deliver(outcomes: Iterable[Outcome]) -> None:
    """Tell those who wait, from a thread of the store: one call into the loop for all of them."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, own in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, own)
        except RuntimeError:  # the loop was closed: nobody waits there any more
            continue


def _settle(outcomes: list[Outcome]) -> None:
    for job, result, error in outcomes:
        job.places.release()
        if job.future.done():  # whoever waited has gone
            continue
        if error is not None:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)


def apart(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Do blocking work in a thread that ends with it. Giving up the future does not stop the work."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        thread.join()  # this is the last it did
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # pyright: ignore[reportArgumentType]  # there is a result where there is no error

    def run() -> None:
        result = error = None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001  # it is raised where the future is awaited
            error = raised
        loop.call_soon_threadsafe(settle, result, error)

    thread = threading.Thread(target=run, name="antiphon-store", daemon=True)
    thread.start()
    return future
