"""Sessions in one SQLite file, for one host: WAL, every commit synced, one writer thread with group commit."""

from antiphon.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
