"""Simulated viewers: they follow a session, or all of them, at their own pace, and come back with their cursor."""

import asyncio
from contextlib import aclosing
from typing import Any

from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.testing.simulation.wire import Gone
from antiphon.testing.simulation.world import World


class Viewer:
    """Follows one session from its first event to its last, through everything that may happen.

    Attributes:
        session_id: The session.
        seen: The sequences it was told of, in order, with the type of the event.
        over: Whether the host has told it that there is no more.
    """

    def __init__(self, world: World, number: int, session_id: str) -> None:
        self.session_id = session_id
        self.seen: list[tuple[int, str]] = []
        self.over = False
        self._world = world
        self._dice = world.dice(f"viewer {number}")
        self._cursor: str | None = None
        self._gap = False

    async def watch(self) -> None:
        """Follow, and follow again from the last cursor whenever the connection breaks."""
        while not self.over:
            try:
                await self._world.call(f"follow {self.session_id} after {self._cursor}", self._follow, patient=True)
            except Gone:
                continue
            except AntiphonError as error:
                if error.code == "session_not_found":
                    return
            await asyncio.sleep(0.2 * self._dice.random())

    async def _follow(self, host: Host) -> None:
        hangs_up_after = self._dice.choice((5, 1_000_000, 1_000_000))
        async with aclosing(host.follow(self.session_id, after=self._cursor)) as events:
            async for view in events:
                hangs_up_after -= 1
                self._take(view)
                if hangs_up_after < 0:
                    return
                if self._dice.random() < 0.3:
                    await asyncio.sleep(self._dice.choice((0.0, 0.05, 0.5)))
        self.over = bool(self.seen) and self.seen[-1][1] == "session.deleted"

    def _take(self, view: Any) -> None:
        if view.type == "gap":
            self._gap = True
            if self._world.shelf.chronicle.stories[self.session_id].over_at is None:
                self._world.ledger.finding(f"P12: a gap in {self.session_id} after {self._cursor}, and nothing is lost")
            return
        sequence = int(view.cursor.rpartition(":")[2])
        if view.type == "snapshot":
            self.seen.append((sequence, "snapshot"))
        else:
            expected = self.seen[-1][0] + 1 if self.seen else 1
            if sequence != expected and not (self._gap and sequence > expected):
                what = f"{self.session_id} tells {sequence} ({view.type}) where {expected} is due"
                self._world.ledger.finding(f"P12: {what}")
            self._gap = False
            self.seen.append((sequence, view.type))
        self._cursor = view.cursor


class Overseer:
    """Follows the feed of all sessions.

    Attributes:
        seen: For each session the sequences it was told of, in order.
    """

    def __init__(self, world: World) -> None:
        self.seen: dict[str, list[int]] = {}
        self._world = world
        self._dice = world.dice("overseer")
        self._cursor = "simulation:0"

    async def watch(self) -> None:
        """Follow, and follow again from the last cursor whenever the connection breaks."""
        while True:
            try:
                await self._world.call(f"follow all after {self._cursor}", self._follow, patient=True)
            except (Gone, AntiphonError):
                await asyncio.sleep(0.2 * self._dice.random())

    async def _follow(self, host: Host) -> None:
        async with aclosing(host.follow_all(after=self._cursor)) as events:
            async for cursor, view in events:
                sequence = int(view.cursor.rpartition(":")[2])
                self.seen.setdefault(view.session_id, []).append(sequence)
                self._cursor = cursor
                if self._dice.random() < 0.2:
                    await asyncio.sleep(0.1 * self._dice.random())
