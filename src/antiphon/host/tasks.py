"""The one home of background tasks: each has an owner that ends and awaits it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon.core.errors import AntiphonError, StoreUnavailable

log = logging.getLogger("antiphon.host")
T = TypeVar("T")


class Tasks:
    """The tasks of one owner. An error that reaches a task's root is logged and told to `on_error`, never lost."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `work` beside everything else until it ends or the owner closes."""
        task = self._start(work, name)
        task.add_done_callback(_log)
        return task

    def _start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}:{name}")
        self._running[task] = None
        task.add_done_callback(lambda task: self._running.pop(task, None))
        return task

    async def finish(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Run `work` to its end, also when the caller leaves in the middle of it.

        Raises:
            StoreUnavailable: The owner closes before it is known what became of it.
        """
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._start(work, name).add_done_callback(lambda task: _hand_on(task, outcome))
        return await outcome

    async def close(self) -> None:
        """Cancel what runs and wait until all of it has ended. Idempotent."""
        self._closed = True
        current = asyncio.current_task()
        while tasks := [task for task in self._running if task is not current]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def _log(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("a task failed", exc_info=error, extra={"action": "task_failed", "task": task.get_name()})


def _hand_on(task: asyncio.Task[T], outcome: asyncio.Future[T]) -> None:
    """Tell whoever waits. A refusal is of no interest to a caller who has left; a flaw of ours is."""
    if outcome.done():
        if not task.cancelled() and not isinstance(task.exception(), AntiphonError):
            _log(task)
    elif task.cancelled():
        outcome.set_exception(StoreUnavailable("The host went down before this was known to be done.", in_doubt=True))
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())
