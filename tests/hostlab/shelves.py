"""Where sessions are kept while hosts come and go: each kind of store, and what a crash leaves of it."""

import asyncio
import itertools
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from antiphon.ports.store import Store
from antiphon.store.memory import MemoryStore
from antiphon.store.postgres import PostgresStore
from antiphon.store.sqlite import SqliteStore
from antiphon.store.sqlite.database import NAME, connect
from antiphon.store.sqlite.driver import execute
from antiphon.system import SystemClock

_numbers = itertools.count(1)


class Shelf(Protocol):
    """A kind of store with the data of one test."""

    async def open(self) -> Store:
        """Open what is there. The caller closes it."""
        ...

    async def crashed(self, store: Store) -> Store:
        """What a host finds that starts after the death of the one that had this store open, which is closed here."""
        ...

    async def spoil(self, session_id: str) -> None:
        """Make a session's row one that can't be read."""
        ...


class MemoryShelf:
    """The store in memory: it stays as it is, as if it were somewhere else."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    async def open(self) -> Store:
        return self._store

    async def crashed(self, store: Store) -> Store:
        return store

    async def spoil(self, session_id: str) -> None:
        raise NotImplementedError("what is in memory has no rows")


class SqliteShelf:
    """SQLite in a directory. After a crash there is a copy of its files as they lay there at that moment."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory = root / "data-0"

    async def open(self) -> Store:
        return await SqliteStore.open(self._directory, clock=SystemClock())

    async def crashed(self, store: Store) -> Store:
        copy = self._root / f"data-{next(_numbers)}"
        copy.mkdir()
        files = [str(file) for file in self._directory.glob("antiphon.db*") if not file.name.endswith("-shm")]
        # by another process: to close a file lets go of this process's own locks on it
        copying = await asyncio.create_subprocess_exec("/bin/cp", *files, str(copy))
        assert await copying.wait() == 0
        await store.close()
        self._directory = copy
        return await self.open()

    async def spoil(self, session_id: str) -> None:
        connection = connect(self._directory / NAME, None, writes=True)
        execute(connection, "UPDATE sessions SET state = x'00' WHERE id = ?", (session_id,))
        connection.close()


class PostgresShelf:
    """A schema of its own on a real server. A crash cuts the connections of the host that died."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schema = f"house_{next(_numbers)}"

    async def open(self) -> Store:
        return await PostgresStore.open(self._url, clock=SystemClock(), schema_name=self._schema, connections=6)

    async def crashed(self, store: Store) -> Store:
        await store.close()
        return await self.open()

    async def spoil(self, session_id: str) -> None:
        connection: Any = await asyncpg.connect(self._url)
        await connection.execute(f"UPDATE {self._schema}.sessions SET state = '\\x00' WHERE id = $1", session_id)
        await connection.close()
