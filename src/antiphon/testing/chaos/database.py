"""The database under chaos: a primary and a standby that has all that was acknowledged, restarted and failed over."""

import asyncio
import random
import signal
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.testing.chaos.lines import Way
from antiphon.testing.postgres_server import PostgresServer, Programs

RUN_SETTINGS = {"track_commit_timestamp": "on", "max_connections": "120", "wal_retrieve_retry_interval": "100ms"}
"""Commits have a time, hosts as many connections as they want, and a standby is there again soon."""
SYNCHRONOUS = "synchronous_standby_names"
CALL_S = 10.0
IN_STEP_S = 30.0
LOOK_AGAIN_S = 0.1
_HAS_ALL = "SELECT count(*) > 0 FROM pg_stat_replication WHERE flush_lsn >= $1::text::pg_lsn"
FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Database:
    """Two servers, of which one is the primary. `start` it first, `close` it in the end.

    While a standby follows, a commit is acknowledged once the standby has it too: so a failover loses nothing that
    anybody was told.

    Attributes:
        ways: For each server, the hosts' ways to it: they are shut while it is down.
        lock: Held while something is done to it.
    """

    def __init__(self) -> None:
        self._programs = Programs()
        self.servers = tuple(PostgresServer(self._programs, f"node-{number}") for number in (0, 1))
        self.ways: tuple[list[Way], ...] = ([], [])
        self.lock = asyncio.Lock()
        self._primary = 0

    @property
    def ports(self) -> tuple[int, ...]:
        """Where its servers listen."""
        return tuple(server.port for server in self.servers)

    @property
    def url(self) -> str:
        """Where the primary is just now."""
        return self.servers[self._primary].url

    async def start(self) -> None:
        """Make both servers, and begin."""
        primary = self.servers[self._primary]
        await asyncio.to_thread(primary.create)
        await asyncio.to_thread(primary.start, **RUN_SETTINGS)
        await self._follow()

    async def connect(self) -> Any:
        """A connection to the primary, in antiphon's schema."""
        settings = {"search_path": "antiphon", "application_name": "chaos"}
        return await cast(Any, asyncpg).connect(
            self.url, timeout=CALL_S, command_timeout=CALL_S, server_settings=settings
        )

    async def _follow(self) -> None:
        """Have the other server follow the primary, and commits wait for it."""
        primary, standby = self.servers[self._primary], self.servers[1 - self._primary]
        await asyncio.to_thread(standby.copy, primary)
        standby.configure(**{SYNCHRONOUS: ""})
        await asyncio.to_thread(standby.start, **RUN_SETTINGS)
        await self._in_step()
        primary.configure(**{SYNCHRONOUS: "*"})
        await asyncio.to_thread(primary.reload)
        for way in self.ways[1 - self._primary]:
            await way.mend("down")

    async def _in_step(self) -> None:
        """Wait until the standby has what the primary has written by now."""
        admin = await self.connect()
        try:
            written = await admin.fetchval("SELECT pg_current_wal_lsn()::text")
            async with asyncio.timeout(IN_STEP_S):
                while True:
                    if await admin.fetchval(_HAS_ALL, written):
                        return
                    await asyncio.sleep(LOOK_AGAIN_S)
        finally:
            await admin.close()

    async def restart(self, how: signal.Signals, away_s: float) -> None:
        """Stop the primary, SIGINT in good order and SIGQUIT as in a crash, and start it again after a while."""
        async with self.lock:
            await self._stop_primary(how, silently=False)
            await asyncio.sleep(away_s)
            await asyncio.to_thread(self.servers[self._primary].start, **RUN_SETTINGS)
            for way in self.ways[self._primary]:
                await way.mend("down")

    async def fail_over(self, away_s: float, *, silently: bool) -> None:
        """Lose the primary, promote the standby after a while, and make a new standby of what was the primary.

        Args:
            away_s: How long there is no primary.
            silently: Nobody is told, as when the machine is gone, and who connects there gets no answer.
        """
        async with self.lock:
            await self._in_step()
            await self._stop_primary(signal.SIGQUIT, silently=silently)
            await asyncio.sleep(away_s)
            await asyncio.to_thread(self.servers[1 - self._primary].promote)
            self._primary = 1 - self._primary
            await asyncio.sleep(away_s)
            await self._follow()

    async def _stop_primary(self, how: signal.Signals, *, silently: bool) -> None:
        ways = self.ways[self._primary]
        if silently:
            for way in ways:
                way.silence("down")
        await asyncio.to_thread(self.servers[self._primary].stop, how)
        if not silently:
            for way in ways:
                way.shut("down")

    async def end_backends(self, most: int, chance: random.Random) -> int:
        """End some of the hosts' connections at the server, chosen by chance; how many."""
        async with self.lock:
            admin = await self.connect()
            try:
                found = await admin.fetch("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'antiphon%'")
                pids = sorted(row["pid"] for row in found)
                chosen = chance.sample(pids, min(most, len(pids)))
                await admin.fetch("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", chosen)
            finally:
                await admin.close()
        return len(chosen)

    def close(self) -> None:
        """End both servers and take everything away."""
        for server in self.servers:
            server.stop(signal.SIGQUIT)
        self._programs.close()
