"""Connections to PostgreSQL, and store commands run on them."""

from typing import Any, TypeVar, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.store.sql.statements import Command

T = TypeVar("T")
Connection = Any
"""An asyncpg connection, of a pool or not."""

KEEPALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
"""A host whose machine vanished is noticed by the server within about 25 s, and its claims with it."""


def connect_options(url: str, schema: str, timeout_s: float) -> dict[str, Any]:
    """What every connection of the store is made with."""
    milliseconds = str(int(timeout_s * 1000))
    return {
        "dsn": url,
        "timeout": min(timeout_s, 10.0),
        "command_timeout": timeout_s,
        "server_settings": {
            "application_name": "antiphon",
            "search_path": schema,
            "jit": "off",
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
            **KEEPALIVE,
        },
    }


async def connect(options: dict[str, Any]) -> Connection:
    """A connection of its own."""
    return await cast(Any, asyncpg).connect(**options)


async def make_pool(options: dict[str, Any], connections: int) -> Any:
    """A pool that makes connections as they are needed."""
    return await cast(Any, asyncpg).create_pool(min_size=0, max_size=connections, reset=_keep_as_it_is, **options)


async def _keep_as_it_is(connection: Connection) -> None:
    """Nothing in a session is ever changed, so nothing costs a round trip to change back."""


async def run(connection: Connection, command: Command[T]) -> T:
    """Run a command to its end, and give its result.

    Raises:
        asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError: The engine, or the way to it, failed.
        Exception: Whatever the command raises.
    """
    try:
        sql, args = next(command)
        while True:
            found = await connection.fetch(sql, *args)
            sql, args = command.send([tuple(row) for row in found])
    except StopIteration as end:
        return end.value
    finally:
        command.close()


async def in_transaction(connection: Connection, command: Command[T], *, read_only: bool) -> T:
    """Run a command in a transaction; one that only reads sees a single state of the store."""
    isolation = "repeatable_read" if read_only else "read_committed"
    async with connection.transaction(isolation=isolation, readonly=read_only):
        return await run(connection, command)
