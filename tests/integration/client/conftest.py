"""Real hosts for the client's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clientlab.running import Installation


@pytest.fixture(scope="session")
def host(antiphon_command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A host that all these tests share; none of them ends it."""
    installation = Installation(antiphon_command, tmp_path_factory.mktemp("host"))
    try:
        yield installation.serve()
    finally:
        installation.close()


@pytest.fixture
def alone(antiphon_command: str, tmp_path: Path) -> Iterator[Installation]:
    """A data directory of its own, without a host."""
    installation = Installation(antiphon_command, tmp_path)
    try:
        yield installation
    finally:
        installation.close()
