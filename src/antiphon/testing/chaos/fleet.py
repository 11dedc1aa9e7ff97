"""The hosts under chaos: each a process with a data directory, a name, and a way to each server of the database."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

from antiphon.testing.chaos.database import Database
from antiphon.testing.chaos.lines import Way
from antiphon.testing.cut_line import CutLine
from antiphon.testing.torture.victim import Troubled, Victim

NAMES = ("one", "two", "three")
REVIVE_S = 90.0
TRY_AGAIN_S = 0.3


class Member:
    """A host.

    Attributes:
        name: Its own, which it tells the others.
        victim: Its process.
        ways: To the database's servers.
        lock: Held while something is done to it.
    """

    def __init__(self, name: str, root: Path, ways: tuple[Way, ...]) -> None:
        self.name = name
        self.ways = ways
        self.lock = asyncio.Lock()
        directory = root / name
        directory.mkdir()
        places = ",".join(f"127.0.0.1:{way.line.port}" for way in ways)
        url = f"postgresql://postgres@{places}/postgres?sslmode=disable&target_session_attrs=read-write"
        self.victim = Victim(directory, arguments=("--store", url), environment={"ANTIPHON__HOST__NAME": name})

    async def revive(self) -> None:
        """Start it, again and again as a supervisor would: while the database is away it can't.

        Raises:
            Troubled: It does not serve.
        """
        began = time.monotonic()
        while True:
            try:
                await asyncio.to_thread(self.victim.start)
                print(f"{self.name} serves {time.monotonic() - began:.1f} s after its start", file=sys.stderr)
                return
            except Troubled:
                self.victim.end()
                if time.monotonic() > began + REVIVE_S:
                    raise
            await asyncio.sleep(TRY_AGAIN_S)

    async def stop(self) -> None:
        """End it in good order.

        Raises:
            Troubled: It does not end so.
        """
        try:
            await asyncio.to_thread(self.victim.stop)
        except Troubled as trouble:
            raise Troubled(f"{self.name}: {trouble}") from None

    def agents(self) -> dict[int, str]:
        """The processes that work in the directory of a session on its behalf, and the sessions' ids."""
        workspaces = self.victim.data_dir / "workspaces"
        return {
            pid: place.relative_to(workspaces).parts[0]
            for pid, place in self.victim.places().items()
            if place.is_relative_to(workspaces) and place != workspaces
        }


class Fleet(list[Member]):
    """All hosts. None of them is left behind when the block ends."""

    @classmethod
    @contextlib.asynccontextmanager
    async def over(cls, database: Database, root: Path) -> AsyncGenerator[Self]:
        """Hosts over a database that runs; they are not started yet."""
        async with contextlib.AsyncExitStack() as stack:
            fleet = cls()
            for name in NAMES:
                ways: list[Way] = []
                for port, all_ways in zip(database.ports, database.ways, strict=True):
                    way = Way(await stack.enter_async_context(CutLine("127.0.0.1", port)))
                    ways.append(way)
                    all_ways.append(way)
                fleet.append(Member(name, root, tuple(ways)))
            try:
                yield fleet
            finally:
                for member in fleet:
                    member.victim.end()
