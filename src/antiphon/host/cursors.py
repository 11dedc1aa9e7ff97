"""Cursors of the journal: `EPOCH:SEQUENCE`, the epoch being the journal's name."""

import re

from antiphon.core.errors import InvalidRequest

_FORM = re.compile(r"([A-Za-z0-9_.-]{1,80}):([0-9]{1,18})")


def parsed(cursor: str) -> tuple[str, int]:
    """The epoch and the sequence of a cursor.

    Raises:
        InvalidRequest: It is not of that form.
    """
    match = _FORM.fullmatch(cursor)
    if match is None:
        raise InvalidRequest("The cursor must be one that an event carried, of the form EPOCH:SEQUENCE.")
    return match[1], int(match[2])
