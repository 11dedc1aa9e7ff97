"""Every store keeps the contract."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.ports.store import Store
from antiphon.store.memory import MemoryStore
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.store_contract import StoreContract


class CountingClock:
    """Time that passes a millisecond at a look."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1_700_000_000_000)

    def now(self) -> int:
        return next(self._ticks)

    def monotonic(self) -> float:
        return next(self._ticks) / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("no store sleeps")


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
