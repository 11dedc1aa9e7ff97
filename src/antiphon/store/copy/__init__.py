"""Moves a whole store from one place to another: SQLite and PostgreSQL, in any direction.

The source is only read, and must be quiet. The target says how far it is, in the transaction of each batch, so that a
copy that is cut short goes on; no host opens it before it has been read again and found equal.
"""

from antiphon.store.copy.copying import Outcome, copied
from antiphon.store.copy.places import CannotCopy

__all__ = ["CannotCopy", "Outcome", "copied"]
