"""A real PostgreSQL server, brought by the tests themselves and ended with them."""

import asyncio
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from antiphon.testing.postgres_server import PATIENCE_S, PostgresServer, Programs, binaries, free_port

__all__ = ["PATIENCE_S", "RealPostgres", "binaries", "free_port", "real_postgres", "until"]

T = TypeVar("T")


class RealPostgres(PostgresServer):
    """A server with a directory of its own, which goes with it."""

    def __init__(self) -> None:
        super().__init__(programs := Programs())
        self.home = programs.home
        self.create()

    def new_database(self) -> str:
        """The address of a new, empty database."""
        name = f"db_{secrets.token_hex(6)}"
        asyncio.run(self._create(name))
        return self.url.replace("/postgres?", f"/{name}?")

    async def _create(self, name: str) -> None:
        connection: Any = await cast(Any, asyncpg).connect(self.url)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()

    def close(self) -> None:
        """End the server and take everything away."""
        self.stop(signal.SIGQUIT)
        self._programs.close()


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something. The caller bounds it."""
    while True:
        if found := await look():
            return found
        await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def real_postgres() -> Iterator[RealPostgres]:
    """A server for the whole run; each test takes a schema of its own."""
    server = RealPostgres()
    server.start()
    yield server
    server.close()
