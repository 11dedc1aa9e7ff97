"""Every store keeps the contract."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.ports.store import Store
from antiphon.store.memory import MemoryStore
from antiphon.store.postgres import PostgresStore
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.store_contract import StoreContract
from real_postgres import RealPostgres

_schemas = itertools.count(1)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, data_dir: Path) -> AsyncIterator[Store]:
        store = await SqliteStore.open(data_dir, clock=CountingClock())
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        await store.close()
        return await SqliteStore.open(store.path.parent, clock=CountingClock())


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, real_postgres: RealPostgres) -> AsyncIterator[Store]:
        self.url, self.schema = real_postgres.url, f"contract_{next(_schemas)}"
        store = await PostgresStore.open(self.url, clock=CountingClock(), schema_name=self.schema)
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return await PostgresStore.open(self.url, clock=CountingClock(), schema_name=self.schema)
