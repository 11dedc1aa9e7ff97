"""Hosts for end-to-end tests, each on a data directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.driver import Host
from e2e.stores import store
from real_postgres import real_postgres

__all__ = ["real_postgres", "store"]


@pytest.fixture
def quiet_host(antiphon_command: str, tmp_path: Path, store: str) -> Iterator[Host]:
    """A data directory without a host; whatever comes to run there is ended after the test."""
    host = Host(antiphon_command, tmp_path / "host", store)
    yield host
    host.close()


@pytest.fixture
def host(quiet_host: Host) -> Host:
    """A host that serves."""
    return quiet_host.start()
