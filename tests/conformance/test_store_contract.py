"""Every store keeps the contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.ports.store import Store
from antiphon.store.memory import MemoryStore
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.store_contract import StoreContract


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
