"""Every store that several hosts may share keeps the contract of those."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import asyncpg
import pytest

from antiphon.ports.clock import Clock
from antiphon.store.memory import MemoryStore
from antiphon.store.postgres import PostgresStore
from antiphon.system import SystemClock
from antiphon.testing.store_contract import SharedStoreContract, Sharing
from real_postgres import RealPostgres, until

_schemas = itertools.count(1)


class Hands(Clock):
    """A clock whose hands are moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps by it")


class InMemory:
    """Two stores in one memory."""

    def __init__(self) -> None:
        self.clock = Hands()
        self.one = MemoryStore()
        self.two = self.one.join(self.clock)

    async def die(self, store: MemoryStore) -> None:
        store.lose()

    async def cut(self, store: MemoryStore) -> None:
        store.lose()
        store.regain()

    async def pass_time(self) -> None:
        self.clock.seconds += 0.05
        await asyncio.sleep(0)


class TestJoinedMemoryStores(SharedStoreContract):
    @pytest.fixture
    def sharing(self) -> Sharing:
        return InMemory()  # pyright: ignore[reportReturnType]  # it dies and is cut as what it is


class OnServer:
    """Two stores in one schema of a real server."""

    def __init__(self, one: PostgresStore, two: PostgresStore, url: str) -> None:
        self.one = one
        self.two = two
        self._url = url

    async def die(self, store: PostgresStore) -> None:
        await store.close()

    async def cut(self, store: PostgresStore) -> None:
        pid = await self._pid(store)
        assert pid is not None
        connection = await asyncpg.connect(self._url)
        assert await connection.fetchval("SELECT pg_terminate_backend($1)", pid)
        await connection.close()

        async def anew() -> int | None:
            now = await self._pid(store)
            return now if now != pid else None

        async with asyncio.timeout(20):
            await until(anew)

    async def _pid(self, store: PostgresStore) -> int | None:
        """The server's process on the other end of the standing connection."""
        connection = store._standing._connection  # pyright: ignore[reportPrivateUsage]
        return connection.get_server_pid() if connection is not None and not connection.is_closed() else None

    async def pass_time(self) -> None:
        await asyncio.sleep(0.02)


class TestPostgresStores(SharedStoreContract):
    @pytest.fixture
    async def sharing(self, real_postgres: RealPostgres) -> AsyncIterator[OnServer]:
        schema = f"sharing_{next(_schemas)}"
        one, two = [
            await PostgresStore.open(real_postgres.url, clock=SystemClock(), schema_name=schema, connections=4)
            for _ in range(2)
        ]
        yield OnServer(one, two, real_postgres.url)
        await one.close()
        await two.close()
