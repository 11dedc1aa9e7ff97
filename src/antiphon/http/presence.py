"""Waiting on behalf of a client, for as long as it is there and the door is open."""

import asyncio
import contextlib
from collections.abc import Awaitable, Generator
from typing import TypeVar

from starlette.types import Receive, Scope

T = TypeVar("T")

LEAVING = "antiphon.leaving"
"""Where the server leaves, in a request's state, the `Ending` that is its client's leaving."""


class Left(Exception):
    """The client has gone, so nobody is there to be answered. What was accepted goes on."""


class Ending:
    """Something that ends waiting when it happens: the closing of the door, or a client's leaving."""

    def __init__(self) -> None:
        self.happened = False
        self._waiting: set[asyncio.Timeout] = set()

    def happen(self) -> None:
        """End all waiting, now and from now on."""
        self.happened = True
        for patience in self._waiting:
            _expire(patience)

    @contextlib.contextmanager
    def ends(self, patience: asyncio.Timeout) -> Generator[None]:
        """Let a timeout that has been entered expire when it happens."""
        if self.happened:
            _expire(patience)
        self._waiting.add(patience)
        try:
            yield
        finally:
            self._waiting.discard(patience)


def _expire(patience: asyncio.Timeout) -> None:
    if not patience.expired():
        patience.reschedule(asyncio.get_running_loop().time())


async def while_present(wait: Awaitable[T], scope: Scope, receive: Receive, closing: Ending) -> T | None:
    """What `wait` gives, or None when the door closes first.

    Only the waiting ends when the client goes (P6). The request's body must have been received whole before.

    Raises:
        Left: The client went first.
    """
    leaving: Ending | None = scope.get("state", {}).get(LEAVING)
    if leaving is not None:
        return await _until(wait, closing, leaving)
    leaving = Ending()
    watch = asyncio.get_running_loop().create_task(_watch(receive, leaving))
    try:
        return await _until(wait, closing, leaving)
    finally:
        watch.cancel()
        await asyncio.wait({watch})


async def _until(wait: Awaitable[T], closing: Ending, leaving: Ending) -> T | None:
    try:
        async with asyncio.timeout(None) as patience:
            with closing.ends(patience), leaving.ends(patience):
                return await wait
    except TimeoutError:
        if leaving.happened:
            raise Left from None
        return None


async def _watch(receive: Receive, leaving: Ending) -> None:
    """Ask a server that does not tell by itself."""
    while (await receive())["type"] != "http.disconnect":
        pass
    leaving.happen()
