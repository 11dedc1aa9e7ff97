"""A house on each store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostlab.house import House
from hostlab.shelves import MemoryShelf, PostgresShelf, Shelf, SqliteShelf
from real_postgres import RealPostgres, real_postgres

__all__ = ["real_postgres"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """Each kind of store, empty."""
    if request.param == "postgres":
        server: RealPostgres = request.getfixturevalue("real_postgres")
        return PostgresShelf(server.url)
    return SqliteShelf(tmp_path) if request.param == "sqlite" else MemoryShelf()


@pytest.fixture
async def house(shelf: Shelf, tmp_path: Path) -> AsyncIterator[House]:
    """A host that has started on an empty store; stopped in the end."""
    entered = await House(shelf, str(tmp_path)).enter()
    yield entered
    await entered.leave()
