"""A real PostgreSQL server, brought by the tests themselves and ended with them."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

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

    def close(self) -> None:
        """End the server and take everything away."""
        self.stop(signal.SIGQUIT)
        self._programs.close()


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something. The caller bounds it."""
    while True:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def real_postgres() -> Iterator[RealPostgres]:
    """A server for the whole run; each test takes a schema of its own."""
    server = RealPostgres()
    server.start()
    yield server
    server.close()
