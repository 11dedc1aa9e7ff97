"""A door for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from doubles.door import Door, opened


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """A host behind a door, with the default limits."""
    async with opened(tmp_path / "data") as door:
        yield door
