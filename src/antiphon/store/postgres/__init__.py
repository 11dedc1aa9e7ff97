"""Sessions in PostgreSQL, for several hosts: claims are advisory locks, every write carries its fence.

Needs the extra `antiphon[postgres]` and PostgreSQL 14 or later, reached directly or through a pooler of
sessions: advisory locks and LISTEN belong to one.
"""

from antiphon.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
