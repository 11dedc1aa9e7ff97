"""What came to an actor and is not decided yet, in the order in which it came."""

import asyncio
from collections import deque
from collections.abc import Iterator

from antiphon.core import commands as c
from antiphon.host.commits import Pending, of_clients

BATCH_MAX = 256
"""So much is decided and committed together."""
UNREAD_MAX = 512
"""How much of what an agent said may lie undecided before its reader waits."""


class Mailbox:
    """Commands that wait. Pieces of text, by far the most that ever comes, wait together while nothing comes between.

    Attributes:
        arrived: Set when there is something to look at; whoever looks clears it first.
    """

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._waiting: deque[Pending] = deque()
        self._turn_id = ""
        self._texts: list[str] = []
        """The newest of all: pieces of text of that turn."""
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()

    def __bool__(self) -> bool:
        return self._size > 0

    def __iter__(self) -> Iterator[Pending]:
        self._gather()
        return iter(self._waiting)

    def put(self, pending: Pending) -> None:
        """Take a command."""
        self._gather()
        self._waiting.append(pending)
        self._resize(self._size + 1)
        self.arrived.set()

    def speak(self, turn_id: str, text: str) -> bool:
        """Take a piece of text that an agent said; whether there is room for more."""
        if turn_id != self._turn_id or len(self._texts) >= BATCH_MAX:
            self._gather()
            self._turn_id = turn_id
        if not self._texts:
            self.arrived.set()
        self._texts.append(text)
        self._size += 1
        if self._size < UNREAD_MAX:
            return True
        self._room.clear()
        return False

    def _gather(self) -> None:
        if self._texts:
            self._waiting.append(Pending(c.AgentSpoke(turn_id=self._turn_id, texts=tuple(self._texts))))
            self._texts = []

    def take(self) -> list[Pending]:
        """The oldest of what waits, as much as is decided together."""
        self._gather()
        batch, size = list[Pending](), 0
        while self._waiting and (size + (next_size := _size(self._waiting[0])) <= BATCH_MAX):
            size += next_size
            batch.append(self._waiting.popleft())
        self._resize(self._size - size)
        return batch

    def keep_agents(self) -> None:
        """Drop what clients asked for."""
        self._keep([pending for pending in self if pending.answer is None])

    def keep_clients(self) -> None:
        """Drop what an agent said, and what is known of it."""
        self._keep(of_clients(self))

    def clear(self) -> None:
        """Drop everything."""
        self._keep([])

    def _keep(self, kept: list[Pending]) -> None:
        self._waiting = deque(kept)
        self._resize(sum(map(_size, kept)))

    @property
    def crowded(self) -> bool:
        """Whether so much lies undecided that more is better told later."""
        return self._size >= UNREAD_MAX

    async def room(self) -> None:
        """Wait while it is crowded."""
        await self._room.wait()

    def _resize(self, size: int) -> None:
        self._size = size
        if size >= UNREAD_MAX:
            self._room.clear()
        elif not self._room.is_set():
            self._room.set()


def _size(pending: Pending) -> int:
    """For how many it counts; at most `BATCH_MAX`."""
    command = pending.command
    return len(command.texts) if type(command) is c.AgentSpoke else 1
