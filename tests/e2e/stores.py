"""Which stores a test from outside runs on: SQLite unless it asks for more, and a database of its own on PostgreSQL."""

import pytest

from real_postgres import RealPostgres

ON_BOTH = pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
"""Runs a test on each store that lasts. Put it on tests about stores, crashes, races, waiting, queues and people."""


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """Where the hosts of a test keep their sessions, as `--store` takes it: SQLite in the data directory, or a database
    that no other test uses.
    """
    kind: str = getattr(request, "param", "sqlite")
    if kind != "postgresql":
        return kind
    server: RealPostgres = request.getfixturevalue("real_postgres")
    return server.new_database()
