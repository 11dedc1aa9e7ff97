"""What a store must do, as tests: subclass `StoreContract`, give it your store, and pytest proves it.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self):
            store = await MyStore.open(...)
            yield store
            await store.close()

        async def reopen(self, store):
            await store.close()
            return await MyStore.open(...)     # the same data; the fixture closes only the first

A store that several hosts may open proves it by `SharedStoreContract`, whose fixture is two stores on the same data.

The tests are coroutines: anyio's pytest plugin (`anyio_mode = auto`), or another that runs them. Register the module
for `pytest.register_assert_rewrite` before it is imported, for readable failures.
"""

from antiphon.testing.store_contract.commits import CommitsContract
from antiphon.testing.store_contract.journal import JournalContract
from antiphon.testing.store_contract.life import LifeContract
from antiphon.testing.store_contract.lists import ListsContract
from antiphon.testing.store_contract.outbox import OutboxContract
from antiphon.testing.store_contract.sharing import SharedStoreContract, Sharing
from antiphon.testing.store_contract.timetable import TimetableContract

__all__ = ["SharedStoreContract", "Sharing", "StoreContract"]


class StoreContract(CommitsContract, JournalContract, ListsContract, LifeContract, OutboxContract, TimetableContract):
    """The whole contract. Override `reopen` where the data outlives the object."""
