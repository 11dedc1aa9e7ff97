"""What a store is copied as: its parts, each a reading of the source in an order, and the rows of the target it makes.

What deleted sessions left stays behind; so do claims, which are of hosts that are gone.
"""

# ruff: noqa: S608  # what is put into SQL is ours

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from antiphon.ports.timetable import Schedule
from antiphon.store.copy.places import FeedKey, Row
from antiphon.store.sql import rows

_LIVING = "s.deleted_at IS NULL"
_object = msgspec.json.Decoder(dict[str, Any]).decode
_names = msgspec.json.Decoder(list[str]).decode
_schedule = msgspec.json.Decoder(Schedule).decode


class Part(NamedTuple):
    """Rows of one kind.

    Attributes:
        name: The table of the target.
        columns: The target's columns.
        values: What the source is asked for each of them.
        source: Where the source has it: `FROM … WHERE …`.
        key: By what it is read; reading goes on after the last one.
        told: The key as it is selected; as `key` unless the engine needs other words.
        after: A condition for what comes after a key; made of `key` unless the engine needs another.
        then: The order of rows that have the same key.
        check: Raises one of `rows.UNREADABLE` for a row (its values) that no host could read.
        session: Which of the values is the number of the session it belongs to.
    """

    name: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    source: str
    key: tuple[str, ...]
    check: Callable[[Row], object]
    session: int | None = None
    told: tuple[str, ...] = ()
    after: str = ""
    then: str = ""

    def reading(self, *, resumed: bool) -> str:
        """The statement that reads it, from its beginning or after a key; the key's columns come first."""
        key = ", ".join(self.key)
        marks = ", ".join(f"${number}" for number in range(1, len(self.key) + 1))
        condition = f" AND {self.after or f'({key}) > ({marks})'}" if resumed else ""
        selected = ", ".join((self.told or self.key) + self.values)
        return f"SELECT {selected} {self.source}{condition} ORDER BY {key}{self.then}"


def _part(
    name: str,
    columns: str,
    source: str,
    key: str,
    check: Callable[[Row], object],
    session: int | None = None,
    **of: str,
) -> Part:
    """A part whose values are columns of the same names in the source's table `t`, but for those given in `of`."""
    names = tuple(columns.split())
    values = tuple(of.get(name, f"t.{name}") for name in names)
    return Part(name, names, values, source, tuple(key.split(", ")), check, session)


def _body(row: Row) -> object:
    return rows.written(row[-1])


def _entry_along(row: Row) -> object:
    return ENTRIES.check(row[2:])


SESSIONS = _part(
    "sessions",
    "number id key fence sequence agent status labels search active_at unsettled state",
    f"FROM sessions t WHERE {_LIVING.replace('s.', 't.')}",
    "t.number",
    lambda row: rows.session(row[1], row[4], row[-1]),
    0,
    fence="0",
)
_OF_SESSION = f"JOIN sessions s ON s.number = t.session WHERE {_LIVING}"
MESSAGES = _part(
    "messages",
    "session id generation accepted record",
    f"FROM messages t {_OF_SESSION}",
    "t.session, t.generation, t.accepted, t.id",
    lambda row: rows.message(row[-1]),
    0,
)
BODIES = Part(
    "bodies",
    ("message_id", "body"),
    ("b.message_id", "b.body"),
    f"FROM messages t JOIN bodies b ON b.message_id = t.id {_OF_SESSION}",
    ("t.session", "t.generation", "t.accepted", "t.id"),
    _body,
)
KEYS = _part(
    "keys",
    "session key message_id digest spent_at",
    f"FROM keys t {_OF_SESSION}",
    "t.session, t.key",
    lambda _row: None,
    0,
)
TURNS = _part(
    "turns",
    "session id generation first_sequence record",
    f"FROM turns t {_OF_SESSION}",
    "t.session, t.first_sequence, t.id",
    lambda row: rows.turn(row[-1]),
    0,
)
PERMISSIONS = _part(
    "permissions",
    "session id state requested_at record",
    f"FROM permissions t {_OF_SESSION}",
    "t.session, t.id",
    lambda row: rows.permission(row[-1]),
    0,
)
WEBHOOKS = _part(
    "webhooks",
    "number id url target secret session_id message_id description created_at disabled_at disabled_because events",
    "FROM webhooks t WHERE t.number > 0",
    "t.number",
    lambda row: _names(row[-1]),
)
DELIVERIES = _part(
    "deliveries",
    "number id webhook_id target type at session_id message_id state attempts since next_at settled_at status error"
    " claimed_until subject",
    "FROM deliveries t WHERE t.number > 0",
    "t.number",
    lambda row: _object(row[-1]),
    claimed_until="0",
)
SCHEDULES = _part(
    "schedules",
    "number id session wakes_at version record",
    "FROM schedules t WHERE t.number > 0",
    "t.number",
    lambda row: _schedule(row[-1]),
)

ENTRIES = _part(
    "entries",
    "session sequence generation type at turn_id message_id data",
    f"FROM entries t {_OF_SESSION}",
    "t.session, t.sequence",
    lambda row: rows.entry("", *row[1:]),
    0,
)
"""The journals as they are compared; they are copied along the feed, whose order only its own rows tell."""

FEED_COLUMNS = ("position", "session", "first", "last")
ENTRY_COLUMNS = ("position", *ENTRIES.columns)
_ALONG = (
    "FROM feed f CROSS JOIN sessions s CROSS JOIN entries t WHERE s.number = f.session AND s.deleted_at IS NULL"
    " AND t.session = f.session AND t.sequence BETWEEN f.first AND f.last"
)


def along_the_feed(feed: FeedKey) -> Part:
    """The journals in the order of the feed: `first` and `last` of the feed's row, then an entry's values.

    All entries of one feed row have its key, so reading may only be cut between two of them.
    """
    return Part(
        "entries",
        ENTRY_COLUMNS,
        ("f.first", "f.last", *ENTRIES.values),
        _ALONG,
        tuple(feed.order.split(", ")),
        _entry_along,
        2,
        told=feed.told,
        after=feed.after,
        then=", t.sequence",
    )


def feed_order(feed: FeedKey) -> str:
    """The statement that reads whose commits the feed holds, in its order."""
    living = f"JOIN sessions s ON s.number = f.session AND {_LIVING}"
    return f"SELECT f.session, f.first, f.last FROM feed f {living} ORDER BY {feed.order}"


PARTS: Sequence[Part] = (SESSIONS, MESSAGES, BODIES, KEYS, TURNS, PERMISSIONS, WEBHOOKS, DELIVERIES, SCHEDULES)
"""All parts but the journals, in the order in which they are copied."""

MOVES = """
SELECT (SELECT count(*) FROM sessions), (SELECT coalesce(sum(sequence), 0) FROM sessions),
    (SELECT count(*) FROM sessions WHERE deleted_at IS NULL), (SELECT coalesce(max(position), 0) FROM feed),
    (SELECT count(*) FROM webhooks), (SELECT count(*) FROM webhooks WHERE disabled_at IS NULL),
    (SELECT coalesce(max(number), 0) FROM webhooks), (SELECT count(*) FROM deliveries),
    (SELECT coalesce(sum(attempts), 0) FROM deliveries), (SELECT count(*) FROM deliveries WHERE state = 'pending'),
    (SELECT count(*) FROM schedules), (SELECT coalesce(sum(version), 0) FROM schedules)"""
"""Numbers of which at least one changes with everything that a host writes and a copy would miss."""

OCCUPIED = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM sessions) OR EXISTS (SELECT 1 FROM entries)"
    " OR EXISTS (SELECT 1 FROM webhooks) OR EXISTS (SELECT 1 FROM deliveries) OR EXISTS (SELECT 1 FROM schedules)"
)
"""Gives a row if there is anything in a store."""
ALL_TABLES = ("entries", "feed", *(part.name for part in PARTS))
