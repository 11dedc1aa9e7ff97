"""What the tests of webhooks share."""

from collections.abc import AsyncIterator

import pytest

from antiphon.store.memory import MemoryStore
from real_postgres import real_postgres
from webhooklab.office import Office

__all__ = ["real_postgres"]


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """An office over a store in memory."""
    store = MemoryStore()
    office = Office(store)
    await office.open()
    yield office
    await store.close()
