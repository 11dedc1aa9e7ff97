"""Doors to knock at."""

from collections.abc import AsyncIterator

import pytest

from doubles.door import Door, borrowed, opened


@pytest.fixture(scope="module")
async def shared_door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """A host behind a door, with the default limits, for all tests of a module."""
    async with opened(tmp_path_factory.mktemp("door") / "data") as door:
        yield door


@pytest.fixture
async def door(shared_door: Door) -> AsyncIterator[Door]:
    """The module's door, without sessions."""
    async with borrowed(shared_door) as door:
        yield door
