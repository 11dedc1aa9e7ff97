"""Commands that read, one a method of the port and named after it, where the guarantee stands.

Each runs in one transaction and so sees a state between two commits.
"""

# ruff: noqa: D103, S608  # the port has the docstrings; what is put into SQL is ours, values are bound

from collections.abc import Callable, Sequence
from typing import Any

from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import KeyedMessage, Listed, SessionQuery, StoredMessage
from antiphon.store.cursors import Walk, cursor, place
from antiphon.store.sql import rows
from antiphon.store.sql.statements import LIVES, Command, Row, chunks

PAGE_BYTES = 4 * 1024 * 1024
NO_END = 2**63 - 1
_NUMBER = f"(SELECT number FROM sessions WHERE id = $1 AND {LIVES})"
_ENTRY = "sequence, generation, type, at, turn_id, message_id, data"


def load(session_id: str) -> Command[Session | None]:
    found = yield f"SELECT id, sequence, state FROM sessions WHERE id = $1 AND {LIVES}", (session_id,)
    return rows.read("state", session_id, rows.session, *found[0]) if found else None


def find(key: str) -> Command[str | None]:
    found = yield "SELECT id FROM sessions WHERE key = $1 AND deleted_at IS NULL", (key,)
    return found[0][0] if found else None


def unsettled() -> Command[Sequence[str]]:
    found = yield "SELECT id FROM sessions WHERE unsettled = 1 ORDER BY active_at DESC, id DESC", ()
    return [id for (id,) in found]


class Where:
    """Conditions with their parameters, numbered as they come."""

    def __init__(self, *conditions: str) -> None:
        self._conditions = list(conditions)
        self.args: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition, with `{}` for each value."""
        self._conditions.append(condition.format(*[self.bind(value) for value in values]))

    def bind(self, value: Any) -> str:
        """The parameter that stands for a value."""
        self.args.append(value)
        return f"${len(self.args)}"

    def __str__(self) -> str:
        return " AND ".join(self._conditions)


ALWAYS_UNSETTLED = frozenset({"running", "asking", "starting", "idle"})
"""Statuses that only an unsettled session can have, of which there are few: their index is the shorter way."""


def _asked(query: SessionQuery) -> Where:
    where = Where("deleted_at IS NULL")
    if query.statuses:
        if ALWAYS_UNSETTLED.issuperset(query.statuses):
            where.add("unsettled = 1")
        statuses = [where.bind(status) for status in query.statuses]
        where.add(f"status IN ({', '.join(statuses)})")
    if query.agent is not None:
        where.add("agent = {}", query.agent)
    for name, value in query.labels:
        where.add("instr(labels, {}) > 0", rows.label_needle(name, value))
    if query.text:
        where.add("instr(search, {}) > 0", rows.search_needle(query.text))
    return where


def sessions(query: SessionQuery, *, cursor: str | None, limit: int, damage: rows.Damage) -> Command[Listed]:
    walk = Walk.parse(cursor)
    where = _asked(query)
    if walk.at is not None:
        where.add("(active_at, id) < ({}, {})" if walk.down else "(active_at, id) > ({}, {})", *walk.at)
    way = "DESC" if walk.down else "ASC"
    found = yield (
        (
            f"SELECT active_at, id, sequence, state FROM sessions WHERE {where}"
            f" ORDER BY active_at {way}, id {way} LIMIT {where.bind(limit + 1)}"
        ),
        tuple(where.args),
    )
    met, more, newer = found[:limit], len(found) > limit, False
    if walk.top is not None and not more:
        newer = yield from _is_any_above(query, walk.top)
    next_cursor = walk.next_cursor([(row[0], row[1]) for row in met], more=more, newer=newer)
    listed = [damage.listed("state", id, rows.session, id, *rest) for _, id, *rest in met]
    items = tuple(session for session in listed if session is not None)
    return Listed(items=items if walk.down else items[::-1], next_cursor=next_cursor)


def _is_any_above(query: SessionQuery, top: tuple[int, str]) -> Command[bool]:
    where = _asked(query)
    where.add("(active_at, id) > ({}, {})", *top)
    found = yield f"SELECT 1 FROM sessions WHERE {where} LIMIT 1", tuple(where.args)
    return bool(found)


def count() -> Command[int]:
    found = yield "SELECT count(*) FROM sessions WHERE deleted_at IS NULL", ()
    return found[0][0]


def fitting(sizes: Sequence[Row]) -> int:
    """How many of the rows, whose last column is a size in bytes, make a page: at least one."""
    total = 0
    for count, row in enumerate(sizes):
        total += row[-1]
        if count and total > PAGE_BYTES:
            return count
    return len(sizes)


def entries(session_id: str, *, after: int, limit: int) -> Command[Sequence[Entry]]:
    sizes = yield (
        (
            f"SELECT sequence, length(data) FROM entries WHERE session = {_NUMBER} AND sequence > $2"
            " ORDER BY sequence LIMIT $3"
        ),
        (session_id, after, limit),
    )
    if not sizes:
        return ()
    last = sizes[fitting(sizes) - 1][0]
    found = yield (
        (
            f"SELECT {_ENTRY} FROM entries WHERE session = {_NUMBER} AND sequence > $2 AND sequence <= $3"
            " ORDER BY sequence"
        ),
        (session_id, after, last),
    )
    return [rows.read("event", session_id, rows.entry, session_id, *row) for row in found]


def tail(session_id: str, *, before: int | None, limit: int) -> Command[Sequence[Entry]]:
    found = yield (
        (f"SELECT {_ENTRY} FROM entries WHERE session = {_NUMBER} AND sequence < $2 ORDER BY sequence DESC LIMIT $3"),
        (session_id, NO_END if before is None else before, limit),
    )
    return [rows.read("event", session_id, rows.entry, session_id, *row) for row in reversed(found)]


_MESSAGE = (
    "SELECT s.id, m.id, m.record, b.body FROM messages m JOIN sessions s ON s.number = m.session"
    f" LEFT JOIN bodies b ON b.message_id = m.id WHERE {LIVES} AND "
)


def _stored(record: bytes, body: bytes | None) -> StoredMessage:
    written = rows.written(body)
    return StoredMessage(message=rows.message(record), text=written.text, files=written.files)


def message(message_id: str) -> Command[StoredMessage | None]:
    found = yield _MESSAGE + "m.id = $1", (message_id,)
    if not found:
        return None
    session_id, _, *columns = found[0]
    return rows.read("message", session_id, _stored, *columns)


def messages(message_ids: Sequence[str], *, damage: rows.Damage) -> Command[Sequence[StoredMessage]]:
    found: dict[str, Row] = {}
    for chunk in chunks(message_ids):
        numbers = ", ".join(f"${number}" for number in range(1, len(chunk) + 1))
        for row in (yield f"{_MESSAGE}m.id IN ({numbers})", chunk):
            found[row[1]] = row
    listed = [
        damage.listed("message", row[0], _stored, *row[2:]) for id in message_ids if (row := found.get(id)) is not None
    ]
    return [message for message in listed if message is not None]


def gone(message_id: str) -> Command[Message | None]:
    found = yield (
        (
            "SELECT s.id, m.record FROM messages m JOIN sessions s ON s.number = m.session"
            " WHERE m.id = $1 AND s.deleted_at IS NOT NULL"
        ),
        (message_id,),
    )
    return rows.read("message", found[0][0], rows.message, found[0][1]) if found else None


def keyed(session_id: str, idempotency_key: str) -> Command[KeyedMessage | None]:
    found = yield (
        f"SELECT message_id, digest FROM keys WHERE session = {_NUMBER} AND key = $2",
        (session_id, idempotency_key),
    )
    return KeyedMessage(message_id=found[0][0], digest=found[0][1]) if found else None


def turn(turn_id: str) -> Command[Turn | None]:
    found = yield (
        (f"SELECT s.id, t.record FROM turns t JOIN sessions s ON s.number = t.session WHERE t.id = $1 AND {LIVES}"),
        (turn_id,),
    )
    return rows.read("turn", found[0][0], rows.turn, found[0][1]) if found else None


def _text_of_turn(turn: str, until: str) -> str:
    """The condition on `entries` for the text of the turn with that id, up to a sequence.

    A turn has said nothing once the next one has begun: so it need not be read how far it goes. No joins: a plan that
    was made while there was little in the store would go through all of it ever after.
    """
    first = f"(SELECT first_sequence FROM turns WHERE id = {turn})"
    number = f"(SELECT session FROM turns WHERE id = {turn})"
    session = f"(SELECT number FROM sessions WHERE number = {number} AND {LIVES})"
    next_one = f"(SELECT min(first_sequence) - 1 FROM turns WHERE session = {session} AND first_sequence > {first})"
    last = f"coalesce({until}, {next_one}, {NO_END})"
    return f"session = {session} AND sequence BETWEEN {first} AND {last} AND type = 'turn.text' AND turn_id = {turn}"


_OWNER = "(SELECT id FROM sessions WHERE number = session)"
_REPLY = f"SELECT {_OWNER}, data FROM entries WHERE {_text_of_turn('$1', '$2')} ORDER BY sequence"


def reply(turn_id: str, until: int | None) -> Command[str | None]:
    found = yield _REPLY, (turn_id, until)
    return _joined(found)


def _joined(found: Sequence[Row]) -> str | None:
    texts = [rows.read("event", session_id, rows.text_of, data) for session_id, data in found]
    return "".join(texts) if texts else None


_ANSWERED = f"""
SELECT 0 AS sequence, s.id, m.record, b.body FROM messages m JOIN sessions s ON s.number = m.session
LEFT JOIN bodies b ON b.message_id = m.id WHERE {LIVES} AND m.id = $1
UNION ALL
SELECT sequence, {_OWNER}, data, NULL FROM entries WHERE {_text_of_turn("$2", "NULL")} ORDER BY sequence"""


def answered(message_id: str, turn_id: str) -> Command[tuple[StoredMessage, str | None] | None]:
    found = yield _ANSWERED, (message_id, turn_id)
    if not found or found[0][0] != 0:
        return None
    _, session_id, record, body = found[0]
    stored = rows.read("message", session_id, _stored, record, body)
    return stored, _joined([row[1:3] for row in found[1:]])


def turns(
    session_id: str, *, generation: int | None, cursor: str | None, limit: int, damage: rows.Damage
) -> Command[Listed]:
    where = Where()
    where.add(f"session = {_NUMBER.replace('$1', '{}')}", session_id)
    if generation is not None:
        where.add("generation = {}", generation)
    if cursor is not None:
        where.add("(first_sequence, id) > ({}, {})", *place("turns", cursor, int, str))
    found = yield (
        (
            f"SELECT first_sequence, id, record FROM turns WHERE {where}"
            f" ORDER BY first_sequence, id LIMIT {where.bind(limit + 1)}"
        ),
        tuple(where.args),
    )
    return _page("turns", found, limit, lambda row: damage.listed("turn", session_id, rows.turn, *row))


def transcript(
    session_id: str, *, generation: int, cursor: str | None, limit: int, damage: rows.Damage
) -> Command[Listed]:
    where = Where()
    where.add(f"m.session = {_NUMBER.replace('$1', '{}')} AND m.generation = {{}}", session_id, generation)
    if cursor is not None:
        where.add("(m.accepted, m.id) > ({}, {})", *place("transcript", cursor, int, str))
    found = yield (
        (
            "SELECT m.accepted, m.id, m.record, b.body FROM messages m LEFT JOIN bodies b ON b.message_id = m.id"
            f" WHERE {where} ORDER BY m.accepted, m.id LIMIT {where.bind(limit + 1)}"
        ),
        tuple(where.args),
    )
    return _page("transcript", found, limit, lambda row: damage.listed("message", session_id, _stored, *row))


def permissions(
    *, state: str | None, session_id: str | None, cursor: str | None, limit: int, damage: rows.Damage
) -> Command[Listed]:
    where = Where("s.deleted_at IS NULL")
    if state is not None:
        where.add("p.state = {}", state)
    if session_id is not None:
        where.add("s.id = {}", session_id)
    if cursor is not None:
        where.add("(p.requested_at, p.id) < ({}, {})", *place("permissions", cursor, int, str))
    found = yield (
        (
            "SELECT p.requested_at, p.id, s.id, p.record FROM permissions p JOIN sessions s ON s.number = p.session"
            f" WHERE {where} ORDER BY p.requested_at DESC, p.id DESC LIMIT {where.bind(limit + 1)}"
        ),
        tuple(where.args),
    )
    return _page("permissions", found, limit, lambda row: damage.listed("permission", row[0], rows.permission, row[1]))


def permission(permission_id: str) -> Command[Permission | None]:
    found = yield (
        (
            "SELECT s.id, p.record FROM permissions p JOIN sessions s ON s.number = p.session"
            f" WHERE p.id = $1 AND {LIVES}"
        ),
        (permission_id,),
    )
    return rows.read("permission", found[0][0], rows.permission, found[0][1]) if found else None


def _page(kind: str, found: list[Row], limit: int, decode: Callable[[Row], Any]) -> Listed:
    """A page of rows that begin with their place in the list (number, id), and the cursor of the rest."""
    items = [decode(row[2:]) for row in found[:limit]]
    more = len(found) > limit
    next_cursor = cursor(kind, found[limit - 1][0], found[limit - 1][1]) if more else None
    return Listed(items=tuple(item for item in items if item is not None), next_cursor=next_cursor)
