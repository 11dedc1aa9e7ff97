"""Sessions in memory: for tests and simulations. Nothing outlives the object; nothing here waits or runs a thread."""

from antiphon.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
