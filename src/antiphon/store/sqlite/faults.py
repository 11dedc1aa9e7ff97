"""What SQLite's errors mean to whoever uses the store."""

import apsw

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import StoreDamaged

OWN = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError)
"""Errors that lie in one statement's values: the transaction can go on without it."""

DAMAGED = (apsw.CorruptError, apsw.NotADBError)

_SAID: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "The disk is full"),
    (apsw.ReadOnlyError, "The store is read-only"),
    (apsw.BusyError, "Another program holds a lock on the store"),
    (apsw.LockedError, "Another program holds a lock on the store"),
    (apsw.CantOpenError, "The store can't be opened"),
    (apsw.IOError, "The disk failed"),
    (apsw.NoMemError, "There is no memory left for the store"),
    (apsw.InterruptError, "The store was closed meanwhile"),
)


def fault(error: apsw.Error, path: str, *, in_doubt: bool = False) -> StoreUnavailable | ValueError:
    """The error that callers see.

    Args:
        error: SQLite's.
        path: The store's file.
        in_doubt: Whether what was to be written may be found written after all.
    """
    if isinstance(error, OWN):
        return ValueError(f"the store can't hold this: {error}")
    if isinstance(error, DAMAGED):
        return StoreDamaged(f"The store {path} is damaged ({error}). It was left as it is: restore it from a copy.")
    said = next((words for kind, words in _SAID if isinstance(error, kind)), "The store failed")
    return StoreUnavailable(f"{said} ({path}: {error}).", retry_after_s=5, in_doubt=True if in_doubt else None)
