"""PostgreSQL at one end of a copy."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any

from antiphon.core.errors import StoreUnavailable
from antiphon.store.copy.places import NUMBERED, CannotCopy, FeedKey, Row
from antiphon.store.postgres import schema
from antiphon.store.postgres.driver import Connection, connect, connect_options
from antiphon.store.postgres.faults import FAULTS, fault

SCHEMA = "antiphon"
CONNECT_S = 10.0
PREFETCHED = 50
"""So many rows are on their way at a time; the largest are a few MiB."""
LOOK_S = 0.1
LATE_S = 3.0
"""For so long a connection of a host that has just ended is waited for: the server may not know of its end yet."""

_LOCK = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
_OTHERS = """
SELECT count(*), min(host(client_addr)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'antiphon%'
    AND application_name <> 'antiphon store copy' AND pid <> pg_backend_pid()"""


@asynccontextmanager
async def opened(url: str, *, is_source: bool) -> AsyncGenerator["PostgresPlace"]:
    """The store of a database, under a lock that keeps hosts and other copies from opening it."""
    connection = await _connected(url)
    try:
        with _telling():
            if is_source and not await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.sessions"):
                raise CannotCopy("There is no store of antiphon in the database to copy from.")
            if not await connection.fetchval(_LOCK, schema.copy_lock(SCHEMA)):
                raise StoreUnavailable("The database is one end of another copy already.")
            await _require_quiet(connection)
            meta = await schema.prepare(connection, SCHEMA)
        yield PostgresPlace(connection, meta)
    finally:
        with suppress(*FAULTS):
            await connection.close(timeout=2)


async def _connected(url: str) -> Connection:
    options = connect_options(url, SCHEMA, CONNECT_S)
    unlimited = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
    settings = options["server_settings"] | unlimited | {"application_name": "antiphon store copy"}
    try:
        return await connect(options | {"command_timeout": None, "server_settings": settings})
    except ValueError as error:
        raise StoreUnavailable("The database's URL can't be read.") from error
    except FAULTS as error:
        raise fault(error) from error


async def _require_quiet(connection: Connection) -> None:
    """Refuse a database that hosts are connected to: each keeps a connection for as long as it lives."""
    connections, address = await connection.fetchrow(_OTHERS)
    for _ in range(int(LATE_S / LOOK_S)):
        if not connections:
            return
        await asyncio.sleep(LOOK_S)
        connections, address = await connection.fetchrow(_OTHERS)
    raise StoreUnavailable(
        f"Hosts are connected to the database (from {address or 'its own machine'}, {connections} connections)."
        " Stop them first."
    )


@contextmanager
def _telling() -> Generator[None]:
    """What the engine says is told as the store's own errors."""
    try:
        yield
    except FAULTS as error:
        raise fault(error) from error


class PostgresPlace:
    """See `Place`."""

    feed = FeedKey("f.xid, f.position", ("f.xid::text", "f.position"), "(f.xid, f.position) > ($1::text::xid8, $2)")
    holds_nul = False

    def __init__(self, connection: Connection, meta: dict[str, str]) -> None:
        self.meta = meta
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        with _telling():
            return [tuple(row) for row in await self._connection.fetch(sql, *args)]

    async def stream(self, sql: str, *args: Any) -> AsyncGenerator[Row]:
        with _telling():
            async for row in self._connection.cursor(sql, *args, prefetch=PREFETCHED):
                yield tuple(row)

    def looking(self) -> AbstractAsyncContextManager[None]:
        return self._within(self._connection.transaction(isolation="repeatable_read", readonly=True))

    def writing(self) -> AbstractAsyncContextManager[None]:
        return self._within(self._connection.transaction())

    @asynccontextmanager
    async def _within(self, transaction: Any) -> AsyncGenerator[None]:
        """Run what is inside in a transaction; only what the engine itself says is the store's error."""
        with _telling():
            await transaction.start()
        try:
            yield
        except BaseException:
            with suppress(*FAULTS):
                await transaction.rollback()
            raise
        with _telling():
            await transaction.commit()

    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        with _telling():
            await self._connection.copy_records_to_table(table, schema_name=SCHEMA, columns=columns, records=rows)

    async def given(self) -> dict[str, int]:
        numbers = {"fences": await self._last("'fences'")}
        for table, column in NUMBERED.items():
            numbers[table] = await self._last(f"pg_get_serial_sequence('{table}', '{column}')")
        return numbers

    async def _last(self, sequence: str) -> int:
        [(last,)] = await self.fetch(f"SELECT coalesce(pg_sequence_last_value({sequence}::regclass), 0)")
        return last

    async def give_after(self, numbers: dict[str, int]) -> None:
        for table, last in numbers.items():
            column = NUMBERED.get(table)
            sequence = f"pg_get_serial_sequence('{table}', '{column}')" if column else f"'{table}'"
            if last > await self._last(sequence):
                await self.fetch(f"SELECT setval({sequence}::regclass, $1)", last)
