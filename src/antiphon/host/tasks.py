"""The one home of background tasks: each has an owner that ends and awaits it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("antiphon.host")


class Tasks:
    """The tasks of one owner. An error that reaches a task's root is logged and told to `on_error`, never lost."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` beside everything else until it ends or the owner closes."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}:{name}")
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a task failed", exc_info=error, extra={"action": "task_failed", "task": task.get_name()})

    async def close(self) -> None:
        """Cancel what runs and wait until all of it has ended. Idempotent."""
        self._closed = True
        current = asyncio.current_task()
        while tasks := {task for task in self._running if task is not current}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
