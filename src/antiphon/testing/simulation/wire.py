"""Between a client and the host: one run of the host's process, and calls that either side can drop at any moment."""

import asyncio
import contextvars
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

from antiphon.host.host import Host
from antiphon.testing.simulation.loop import VirtualLoop

T = TypeVar("T")

LIFE: contextvars.ContextVar["Life | None"] = contextvars.ContextVar("life", default=None)
"""The run of the host that the current task belongs to; None outside of any."""


class Gone(Exception):
    """No answer came: the host is down, or died, or the caller left, or the answer was lost on its way."""


class Life:
    """One run of the host's process, from its start to its death or its end in good order.

    Every task that is started inside it belongs to it. When it dies its tasks can do nothing more to the world: its
    store and its agents no longer answer.

    Attributes:
        name: What the host is called among others.
        serving: Whether it takes calls.
        dead: Whether it has died or ended.
        died: Done once it is dead.
        frozen: Whether it stands still: nothing of it runs, and it does not know.
        stands: Done while it stands still.
        cut: Whether it can't reach the store.
        ill_at: When it last stood still or was cut off, in seconds of the simulation.
    """

    def __init__(self, loop: VirtualLoop, number: int, name: str = "") -> None:
        self.number = number
        self.name = name
        self.host: Host | None = None
        self.serving = False
        self.dead = False
        self.died: asyncio.Future[None] = loop.create_future()
        self.frozen = False
        self.stands: asyncio.Future[None] = loop.create_future()
        self.cut = False
        self.ill_at = -1.0
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []
        self._kept_back: list[asyncio.Handle] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as a part of this process."""
        context = contextvars.copy_context()
        context.run(LIFE.set, self)
        return self._loop.create_task(work, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task to this process."""
        self._tasks.append(task)
        if self.dead:
            task.cancel()

    def left(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended."""
        return [task for task in self._tasks if not task.done()]

    def die(self) -> None:
        """End at once, without any clean-up that could reach the world."""
        self.dead, self.serving = True, False
        if not self.died.done():
            self.died.set_result(None)
        self.thaw()
        for task in self.left():
            task.cancel()

    # Standing still

    @property
    def ill(self) -> bool:
        """Whether it can't do what a host does: it stands still, or the store is out of its reach."""
        return self.frozen or self.cut

    def was_ill(self, since: float) -> bool:
        """Whether it was ill at any time since then."""
        return self.ill or self.ill_at >= since

    def freeze(self) -> None:
        """Let nothing of it run."""
        if not (self.frozen or self.dead):
            self.frozen = True
            self.stands.set_result(None)

    def thaw(self) -> None:
        """Let it go on, first with everything that has come due meanwhile."""
        if self.frozen:
            self.frozen, self.ill_at = False, self._loop.time()
            self.stands = self._loop.create_future()
            kept_back, self._kept_back = self._kept_back, []
            self._loop.run_again(kept_back)

    def keep_back(self, handle: asyncio.Handle) -> None:
        """Run that once this life goes on."""
        self._kept_back.append(handle)


def own_tasks(loop: VirtualLoop) -> None:
    """Have every task of the loop counted to the life it was started in."""

    def factory(
        loop: asyncio.AbstractEventLoop,
        work: Generator[Any, None, T] | Coroutine[Any, Any, T],
        context: contextvars.Context | None = None,
        **more: Any,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(work, loop=loop, context=context, **more)
        life = context.get(LIFE) if context is not None else LIFE.get()
        if life is not None:
            life.adopt(task)
        return task

    loop.set_task_factory(factory)


class Leaving(Generic[T]):
    """A call whose task is cancelled when it waits for the `steps`th time, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, T], steps: int) -> None:
        self._work = work
        self._steps = steps

    async def run(self) -> T:
        """Carry the call out, as far as it comes."""
        return await self

    def __await__(self) -> Generator[Any, None, T]:
        inner = self._work.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as stop:
                return stop.value
            if self._steps == 0 and (task := asyncio.current_task()):
                task.cancel()
            self._steps -= 1
            error = None
            try:
                yield waited
            except BaseException as thrown:  # noqa: BLE001 - it is handed on at once, whatever it is
                error = thrown


def named(task: asyncio.Task[Any]) -> str:
    """What a task runs."""
    return getattr(task.get_coro(), "__qualname__", "?")
