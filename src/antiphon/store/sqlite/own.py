"""The commands that are SQLite's own: claims and the feed, which lean on there being one writer."""

import re
from collections.abc import Sequence

from antiphon.ports.store import FeedEntry
from antiphon.store.identity import Identity
from antiphon.store.sql import rows
from antiphon.store.sql.reads import fitting
from antiphon.store.sql.statements import Command


def claim(session_id: str) -> Command[int]:
    """Give a fence greater than all before it; of a living session it is the newest from now on."""
    [(fence,)] = yield "UPDATE fences SET last = last + 1 RETURNING last", ()
    yield "UPDATE sessions SET fence = $2 WHERE id = $1 AND deleted_at IS NULL", (session_id, fence)
    return fence


_FEED = (
    " FROM feed f CROSS JOIN sessions s CROSS JOIN entries e"
    " WHERE f.position >= $1 AND s.number = f.session AND s.deleted_at IS NULL"
    " AND e.session = f.session AND e.sequence BETWEEN f.first AND f.last"
    " AND (f.position > $1 OR e.sequence - f.first > $2)"
)
_SIZES = f"SELECT f.position, e.sequence, length(e.data) {_FEED} ORDER BY f.position, e.sequence LIMIT $3"
_ENTRIES = (
    "SELECT s.id, e.sequence, e.generation, e.type, e.at, e.turn_id, e.message_id, e.data,"
    f" f.position, e.sequence - f.first {_FEED}"
    " AND (f.position < $3 OR f.position = $3 AND e.sequence <= $4) ORDER BY f.position, e.sequence"
)


def feed(identity: Identity, *, after: str, limit: int, damage: rows.Damage) -> Command[Sequence[FeedEntry]]:
    """A page of the feed, of readable entries: an unreadable one is counted, and passed over."""
    position, offset = _parsed(identity.own(after))
    last, _ = _parsed((yield from feed_end()))
    if position > last:
        raise ValueError("not a position of this store's feed")
    found: list[FeedEntry] = []
    while not found:
        sizes = yield _SIZES, (position, offset, limit)
        if not sizes:
            break
        end = sizes[fitting(sizes) - 1]
        for row in (yield _ENTRIES, (position, offset, end[0], end[1])):
            position, offset = row[-2:]
            entry = damage.listed("event", row[0], rows.entry, *row[:-2])
            if entry is not None:
                found.append(FeedEntry(position=identity.told(f"{position}.{offset}"), entry=entry))
    return found


def feed_end() -> Command[str]:
    """The position of the last commit; numbers are never given again, also when rows were purged."""
    found = yield "SELECT seq FROM sqlite_sequence WHERE name = 'feed'", ()
    return f"{found[0][0] if found else 0}.{_PAST}"


_PAST = 10**9
"""An offset beyond any in one commit."""


def _parsed(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,18})\.(\d{1,10})", text, re.ASCII)
    if match is None:
        raise ValueError("not a position of this store's feed")
    return int(match[1]), int(match[2])
