"""Waiting on behalf of a client, for as long as it is there and the door is open."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

from starlette.types import Receive

from antiphon.http.edge import Closing, expire

T = TypeVar("T")


class Left(Exception):
    """The client has gone, so nobody is there to be answered. What was accepted goes on."""


async def while_present(wait: Awaitable[T], receive: Receive, closing: Closing) -> T | None:
    """What `wait` gives, or None when the door closes first.

    Only the waiting ends when the client goes (P6). The request's body must have been received whole before.

    Raises:
        Left: The client went first.
    """
    client = _Client()
    try:
        async with asyncio.timeout(None) as patience:
            with closing.ends(patience):
                async with asyncio.TaskGroup() as group:
                    watch = group.create_task(client.watch(receive, patience))
                    try:
                        return await wait
                    finally:
                        watch.cancel()
    except TimeoutError:
        if client.left:
            raise Left from None
        return None
    except ExceptionGroup as errors:
        raise _first(errors) from None


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """The error that made a task group fail: what follows it is only cancellation."""
    while isinstance(first := errors.exceptions[0], ExceptionGroup):
        errors = cast("ExceptionGroup[Exception]", first)
    return first


class _Client:
    """Whether the client is still there."""

    def __init__(self) -> None:
        self.left = False

    async def watch(self, receive: Receive, patience: asyncio.Timeout) -> None:
        """End the patience once the client has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left = True
        expire(patience)
