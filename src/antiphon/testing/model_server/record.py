"""What the server was asked: a bounded memory of requests and of how each ended."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from antiphon.testing.model_server.conversation import Conversation

Outcome = Literal["answering", "answered", "refused", "cut", "client_gone"]


class Exchange(msgspec.Struct, kw_only=True):
    """One request to a model and what became of it.

    Attributes:
        path: Which endpoint was asked.
        conversation: What was asked, read.
        body: What was asked, as it came.
        outcome: `answering`, until it is `answered`, `refused` (an HTTP error), `cut` (broken off by the script) or
            `client_gone` (the agent hung up).
    """

    path: str
    conversation: Conversation
    body: dict[str, Any]
    outcome: Outcome = "answering"


class Record:
    """The last exchanges. Whoever waits for one of them is woken when anything changes."""

    def __init__(self, limit: int) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=limit)
        self._changed = asyncio.Condition()

    def __iter__(self) -> Iterator[Exchange]:
        return iter(tuple(self._exchanges))

    async def begin(self, exchange: Exchange) -> None:
        """Note a new exchange."""
        self._exchanges.append(exchange)
        await self._tell()

    async def end(self, exchange: Exchange, outcome: Outcome) -> None:
        """Note how it ended; the first word stands."""
        if exchange.outcome == "answering":
            exchange.outcome = outcome
            await self._tell()

    async def until(self, fits: Callable[[Exchange], bool]) -> Exchange:
        """Wait for an exchange that fits; the oldest one. The caller bounds the wait."""
        async with self._changed:
            while True:
                for exchange in self._exchanges:
                    if fits(exchange):
                        return exchange
                await self._changed.wait()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
