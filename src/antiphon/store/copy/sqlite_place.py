"""SQLite, in a data directory, at one end of a copy."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw

from antiphon.core.errors import StoreUnavailable
from antiphon.store.copy.places import NUMBERED, CannotCopy, FeedKey, Row
from antiphon.store.sqlite import database
from antiphon.store.sqlite.driver import execute, translated
from antiphon.store.sqlite.faults import fault
from antiphon.store.sqlite.lock import DirectoryLock

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

CHECKPOINT_PAGES = 4000


@asynccontextmanager
async def opened(data_dir: str, *, is_source: bool) -> AsyncGenerator["SqlitePlace"]:
    """The store of a data directory, under the lock that a host takes."""
    directory, lock = _locked(data_dir, is_source=is_source)
    try:
        path, meta = database.prepare(directory, None)
        with _telling(path):
            connection = database.connect(path, None, writes=not is_source)
            try:
                yield SqlitePlace(path, connection, meta)
            finally:
                connection.close(True)
    finally:
        lock.release()


def _locked(data_dir: str, *, is_source: bool) -> tuple[Path, DirectoryLock]:
    directory = Path(data_dir).expanduser().absolute()
    if is_source and not (directory / database.NAME).exists():
        raise CannotCopy(f"There is no store in {directory}.")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory, DirectoryLock.take(directory / "antiphon.lock")
    except OSError as error:
        raise StoreUnavailable(f"The data directory {directory} can't be used ({error.strerror}).") from error


@contextmanager
def _telling(path: Path) -> Generator[None]:
    """What SQLite says of the file is told as the store's own errors."""
    try:
        yield
    except apsw.Error as error:
        raise fault(error, str(path)) from error


class SqlitePlace:
    """See `Place`. All is done at once, in the caller's thread: nothing else runs beside a copy."""

    feed = FeedKey("f.position", ("f.position",), "f.position > $1")
    holds_nul = True

    def __init__(self, path: Path, connection: apsw.Connection, meta: dict[str, str]) -> None:
        self.meta = meta
        self._path = path
        self._connection = connection
        execute(connection, f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        with _telling(self._path):
            return execute(self._connection, translated(sql), args)

    async def stream(self, sql: str, *args: Any) -> AsyncGenerator[Row]:
        untyped: Any = self._connection  # its stubs are not typed to the end
        with _telling(self._path):
            for row in untyped.execute(translated(sql), args):
                yield row

    @asynccontextmanager
    async def looking(self) -> AsyncGenerator[None]:
        """Nobody else can write: the lock sees to that."""
        yield

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        await asyncio.sleep(0)  # so that Ctrl-C is heard
        with _telling(self._path), self._connection:
            yield

    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        places = ", ".join("?" for _ in columns)
        untyped: Any = self._connection
        with _telling(self._path):
            untyped.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)

    async def given(self) -> dict[str, int]:
        numbers = {row[0]: row[1] for row in await self.fetch("SELECT name, seq FROM sqlite_sequence")}
        [(fence,)] = await self.fetch("SELECT last FROM fences")
        return {"fences": fence} | {table: last for table, last in numbers.items() if table in NUMBERED}

    async def give_after(self, numbers: dict[str, int]) -> None:
        for table, last in numbers.items():
            if table == "fences":
                await self.fetch("UPDATE fences SET last = max(last, $1)", last)
            elif not await self.fetch("SELECT 1 FROM sqlite_sequence WHERE name = $1", table):
                await self.fetch("INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)", table, last)
            else:
                await self.fetch("UPDATE sqlite_sequence SET seq = max(seq, $2) WHERE name = $1", table, last)
