"""What PostgreSQL's errors, and those of the way to it, mean to whoever uses the store."""

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import StoreDamaged

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Everything that asyncpg raises: the server's errors, its own, and those of the network. `InternalClientError` comes
when a connection is used in the moment in which the server's end of it is being read."""

OWN = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""Errors that lie in the values of a statement, and not in the server."""

LOST = (asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.InterfaceError, ConnectionError)
"""A connection that was used is no more; another one may do."""

DAMAGED = (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)

_SAID: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.DiskFullError, "The database's disk is full"),
    (asyncpg.ReadOnlySQLTransactionError, "The database is read-only just now, as a standby is"),
    (asyncpg.TooManyConnectionsError, "The database takes no more connections"),
    (asyncpg.CannotConnectNowError, "The database is starting or stopping"),
    (asyncpg.InvalidAuthorizationSpecificationError, "The database refuses the login"),
    (asyncpg.InvalidCatalogNameError, "There is no such database"),
    (asyncpg.InsufficientPrivilegeError, "The database's user may not do this"),
    (asyncpg.QueryCanceledError, "The database did not answer in time"),
    (asyncpg.PostgresConnectionError, "The connection to the database was lost"),
    (asyncpg.OperatorInterventionError, "The database is stopping"),
    (asyncpg.PostgresError, "The database failed"),
    (asyncpg.TargetServerAttributeNotMatched, "None of the database's servers takes writes just now"),
    (TimeoutError, "The database did not answer in time"),
    (OSError, "The database can't be reached"),
    (asyncpg.InterfaceError, "The connection to the database was lost"),
    (asyncpg.InternalClientError, "The connection to the database was lost"),
)


def fault(error: BaseException, *, in_doubt: bool = False) -> StoreUnavailable | ValueError:
    """The error that callers see. The server's own words are in it only where they can't quote a person's.

    Args:
        error: One of `FAULTS`.
        in_doubt: Whether what was to be written may be found written after all.
    """
    code: str | None = getattr(error, "sqlstate", None)
    if isinstance(error, OWN):
        return ValueError(f"the store can't hold this (SQLSTATE {code})")
    if isinstance(error, DAMAGED):
        return StoreDamaged(f"The database is damaged (SQLSTATE {code}). It was left as it is.")
    said = next((words for kind, words in _SAID if isinstance(error, kind)), "The database failed")
    what = f"SQLSTATE {code}" if code else type(error).__name__
    return StoreUnavailable(f"{said} ({what}).", retry_after_s=5, in_doubt=True if in_doubt else None)


def is_certain(error: BaseException) -> bool:
    """Whether the server itself said that the statement failed: then nothing of it was written.

    A lost connection, or a server that was stopped while it committed, leaves that open.
    """
    uncertain = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
    return isinstance(error, asyncpg.PostgresError) and not isinstance(error, uncertain)


def is_passing(error: BaseException) -> bool:
    """Whether it is the trouble of one statement only, and the connection is as good as before."""
    return is_certain(error) and not isinstance(error, asyncpg.ReadOnlySQLTransactionError)
