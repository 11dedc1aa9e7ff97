"""The statements that are PostgreSQL's own: a commit in one round trip, and the feed of several writers."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.core.events import Entry
from antiphon.ports.store import KEYS_MAX, FeedEntry, Fenced, KeyTaken, Notice, SequenceMoved
from antiphon.store.identity import Identity
from antiphon.store.sql import rows
from antiphon.store.sql.reads import PAGE_BYTES, fitting
from antiphon.store.sql.statements import LIVES, Command
from antiphon.store.sql.writes import ANY_FENCE, Write, purge

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

_STATE = "sequence, agent, status, labels, search, active_at, unsettled, deleted_at, state"
_CREATED = f"""
    INSERT INTO sessions (id, fence, owner, key, {_STATE})
    VALUES ($1, $2, $39, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT DO NOTHING
    RETURNING number"""
_ADVANCED = f"""
    UPDATE sessions SET sequence = $4, agent = $5, status = $6, labels = $7, search = $8, active_at = $9,
        unsettled = $10, deleted_at = $11, state = $12
    WHERE id = $1 AND fence <= $2 AND sequence = $3 AND {LIVES}
    RETURNING number"""
_REST = """
fed AS (
    INSERT INTO feed (session, first, last)
    SELECT number, $13::bigint, $14::bigint FROM own WHERE $13::bigint <= $14::bigint
    RETURNING session, position),
written_entries AS (
    INSERT INTO entries (session, position, sequence, generation, type, at, turn_id, message_id, data)
    SELECT fed.session, fed.position, $13::bigint + added.nth - 1,
        added.generation, added.type, added.at, added.turn_id, added.message_id, added.data
    FROM fed, unnest($15::bigint[], $16::text[], $17::bigint[], $18::text[], $19::text[], $20::bytea[])
        WITH ORDINALITY AS added (generation, type, at, turn_id, message_id, data, nth)),
written_messages AS (
    INSERT INTO messages (session, id, generation, accepted, record)
    SELECT own.number, added.* FROM own, unnest($21::text[], $22::bigint[], $23::bigint[], $24::bytea[]) AS added
    ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, record = excluded.record),
written_bodies AS (
    INSERT INTO bodies (message_id, body)
    SELECT added.* FROM own, unnest($25::text[], $26::bytea[]) AS added
    ON CONFLICT (message_id) DO UPDATE SET body = excluded.body),
spent_keys AS (
    INSERT INTO keys (session, key, message_id, digest, spent_at)
    SELECT own.number, added.*
    FROM own, unnest($27::text[], $28::text[], $29::text[], $30::bigint[]) AS added (key, message_id, digest, spent_at)
    WHERE NOT EXISTS (
        SELECT FROM keys spent
        WHERE spent.session = own.number AND spent.key = added.key AND spent.message_id = added.message_id)),
written_turns AS (
    INSERT INTO turns (session, id, generation, first_sequence, record)
    SELECT own.number, added.* FROM own, unnest($31::text[], $32::bigint[], $33::bigint[], $34::bytea[]) AS added
    ON CONFLICT (id) DO UPDATE SET record = excluded.record),
written_permissions AS (
    INSERT INTO permissions (session, id, state, requested_at, record)
    SELECT own.number, added.* FROM own, unnest($35::text[], $36::text[], $37::bigint[], $38::bytea[]) AS added
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record)"""
_FORGOTTEN_KEYS = """,
many AS (SELECT own.number, count(*) - $40 AS excess FROM own JOIN keys ON keys.session = own.number GROUP BY 1),
oldest AS (
    SELECT keys.session, keys.key FROM many JOIN keys ON keys.session = many.number
    WHERE keys.spent_at < $39
    ORDER BY keys.spent_at, keys.key
    LIMIT (SELECT greatest(max(excess), 0) FROM many)),
forgotten_keys AS (
    DELETE FROM keys USING oldest WHERE keys.session = oldest.session AND keys.key = oldest.key)"""
_TOLD = """,
told AS (
    INSERT INTO deliveries (id, webhook_id, target, type, at, session_id, message_id, subject, state, attempts, since,
        next_at, claimed_until)
    SELECT event.id, w.id, w.target, event.type, event.at, event.session_id, event.message_id, event.subject,
        'pending', 0, event.at, event.at, 0
    FROM own, unnest($39::text[], $40::text[], $41::bigint[], $42::text[], $43::text[], $44::bytea[], $45::text[])
        AS event (id, type, at, session_id, message_id, subject, needle)
    JOIN webhooks w ON w.disabled_at IS NULL AND instr(w.events, event.needle) > 0
        AND (w.message_id = event.message_id
            OR w.message_id IS NULL AND (w.session_id IS NULL OR w.session_id = event.session_id))
    ON CONFLICT (webhook_id, id) DO NOTHING
    RETURNING 1)"""
_DONE = "\nSELECT number FROM own"
_DONE_AND_TOLD = "\nSELECT number, (SELECT count(*) FROM told) FROM own"
_FORGOTTEN_LATER = _FORGOTTEN_KEYS.replace("$40", "$47").replace("$39", "$46")
CREATE = f"WITH own AS ({_CREATED}),{_REST}{_DONE}"
ADVANCE = f"WITH own AS ({_ADVANCED}),{_REST}{_DONE}"
ADVANCE_AND_FORGET = f"WITH own AS ({_ADVANCED}),{_REST}{_FORGOTTEN_KEYS}{_DONE}"
ADVANCE_AND_TELL = f"WITH own AS ({_ADVANCED}),{_REST}{_TOLD}{_DONE_AND_TOLD}"
ADVANCE_FORGET_AND_TELL = f"WITH own AS ({_ADVANCED}),{_REST}{_TOLD}{_FORGOTTEN_LATER}{_DONE_AND_TOLD}"
"""A whole commit as one statement, which is its own transaction: all that depends on `own` is written if that is, and
nothing otherwise. A key that was spent on another message violates its table's primary key, and so ends all of it."""


def statement(write: Write, owner: str | None) -> tuple[str, tuple[Any, ...]]:
    """The statement that writes a commit; it gives no row when the commit is refused.

    Args:
        write: The commit.
        owner: Who has claimed the session, for one that is made.
    """
    columns = (
        *_columns(write.entries, 6),
        *_columns(write.messages, 4),
        *_columns(write.bodies, 2),
        *_columns(write.keys, 4),
        *_columns(write.turns, 4),
        *_columns(write.permissions, 4),
    )
    numbers = (write.expected + 1, write.sequence)
    if write.expected == 0:
        return CREATE, (write.session_id, write.fence or 0, write.key, *write.state, *numbers, *columns, owner)
    fence = ANY_FENCE if write.fence is None else write.fence
    advance = (write.session_id, fence, write.expected, *write.state, *numbers, *columns)
    if write.tellings:
        advance = (*advance, *_columns(write.tellings, 7))
    if write.forgets_before is None:
        return ADVANCE_AND_TELL if write.tellings else ADVANCE, advance
    forgetting = (*advance, write.forgets_before, KEYS_MAX - len(write.keys))
    return ADVANCE_FORGET_AND_TELL if write.tellings else ADVANCE_AND_FORGET, forgetting


def _columns(found: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[column] for row in found] for column in range(width)]


def refusal(write: Write) -> Command[SequenceMoved | KeyTaken | Fenced]:
    """Why a commit was refused."""
    if write.expected == 0:
        holder = yield "SELECT id FROM sessions WHERE key = $1 AND deleted_at IS NULL", (write.key,)
        taken = holder and holder[0][0] != write.session_id
        return KeyTaken(holder[0][0]) if taken else SequenceMoved(write.session_id)
    newest = yield "SELECT fence FROM sessions WHERE id = $1 AND deleted_at IS NULL", (write.session_id,)
    fenced = newest and write.fence is not None and newest[0][0] > write.fence
    return Fenced(write.session_id) if fenced else SequenceMoved(write.session_id)


def purge_alone(lock: str, limit: int) -> Command[int]:
    """Purge while no other host does: they would wait for each other's rows, in any order."""
    yield "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (lock,)
    return (yield from purge(limit))


# A page of a journal, in one statement and so on one state of the store.

_PAGE = f"""
SELECT sequence, generation, type, at, turn_id, message_id, data FROM (
    SELECT *, sum(length(data)) OVER (ORDER BY sequence ROWS UNBOUNDED PRECEDING) AS size FROM entries
    WHERE session = (SELECT number FROM sessions WHERE id = $1 AND {LIVES}) AND sequence > $2
    ORDER BY sequence LIMIT $3) AS found
WHERE size <= {PAGE_BYTES} OR size = length(data)
ORDER BY sequence"""


def entries(session_id: str, *, after: int, limit: int) -> Command[Sequence[Entry]]:
    """The journal after a sequence: as many entries as make a page, and at least one."""
    found = yield _PAGE, (session_id, after, limit)
    return [rows.read("event", session_id, rows.entry, session_id, *row) for row in found]


# The feed: in the order of transactions, up to the oldest that still runs.

_SETTLED = "f.xid < pg_snapshot_xmin(pg_current_snapshot())"
_FEED = f"""
    FROM feed f JOIN sessions s ON s.number = f.session AND s.deleted_at IS NULL
    JOIN entries e ON e.session = f.session AND e.sequence BETWEEN f.first AND f.last
    WHERE (f.xid, f.position) >= ($1::text::xid8, $2::bigint) AND {_SETTLED}
    AND ((f.xid, f.position) > ($1::text::xid8, $2::bigint) OR e.sequence - f.first > $3::bigint)"""
_ORDER = "ORDER BY f.xid, f.position, e.sequence LIMIT $4"
_SIZES = f"SELECT length(e.data) {_FEED} {_ORDER}"
_ENTRIES = f"""
    SELECT s.id, e.sequence, e.generation, e.type, e.at, e.turn_id, e.message_id, e.data,
    f.xid::text, f.position, e.sequence - f.first {_FEED} {_ORDER}"""
_PAST = 2**63 - 1
"""A position beyond any in a transaction."""


class Late(NamedTuple):
    """A commit that the feed does not tell yet, because an older transaction still runs."""

    xid: int
    notice: Notice


_LATE = f"""
    SELECT f.xid::text, s.id, f.last FROM feed f JOIN sessions s ON s.number = f.session AND s.deleted_at IS NULL
    WHERE (f.xid, f.position) > ($1::text::xid8, $2::bigint) AND NOT {_SETTLED}
    ORDER BY f.xid, f.position LIMIT 1"""


def feed(
    identity: Identity, *, after: str, limit: int, damage: rows.Damage
) -> Command[tuple[Sequence[FeedEntry], Late | None]]:
    """A page of the feed, of readable entries: an unreadable one is counted, and passed over.

    Where the page is empty there may be a commit that is late: the first that is not told yet.
    """
    xid, position, offset = _parsed(identity.own(after))
    newest = yield "SELECT pg_snapshot_xmax(pg_current_snapshot())::text", ()
    if int(xid) >= int(newest[0][0]):
        raise ValueError("not a position of this store's feed")
    found: list[FeedEntry] = []
    while not found:
        sizes = yield _SIZES, (xid, position, offset, limit)
        if not sizes:
            late = yield _LATE, (xid, position)
            return (), next((Late(int(row[0]), Notice(session_id=row[1], sequence=row[2])) for row in late), None)
        for row in (yield _ENTRIES, (xid, position, offset, fitting(sizes))):
            xid, position, offset = row[-3:]
            entry = damage.listed("event", row[0], rows.entry, *row[:-3])
            if entry is not None:
                found.append(FeedEntry(position=identity.told(f"{xid}.{position}.{offset}"), entry=entry))
    return found, None


def settled_before() -> Command[int]:
    """Every transaction before this one has ended."""
    found = yield "SELECT pg_snapshot_xmin(pg_current_snapshot())::text", ()
    return int(found[0][0])


def feed_end() -> Command[str]:
    """The position before every transaction that still runs. What committed while an older one runs comes after it."""
    return f"{(yield from settled_before()) - 1}.{_PAST}.{_PAST}"


def moved(after: str | None) -> Command[tuple[list[Notice], str]]:
    """The sessions that moved after a position (None: the end), deleted ones too, and the position to go on from."""
    end = yield from feed_end()
    if after is None:
        return [], end
    xid, position, _ = _parsed(after)
    found = yield (
        (
            "SELECT s.id, max(f.last) FROM feed f JOIN sessions s ON s.number = f.session"
            f" WHERE (f.xid, f.position) > ($1::text::xid8, $2::bigint) AND {_SETTLED} GROUP BY s.id"
        ),
        (xid, position),
    )
    return [Notice(session_id=id, sequence=last) for id, last in found], end


def _parsed(text: str) -> tuple[str, int, int]:
    match = re.fullmatch(r"(\d{1,19})\.(\d{1,19})\.(\d{1,19})", text, re.ASCII)
    if match is None or max(int(number) for number in match.groups()) > _PAST:
        raise ValueError("not a position of this store's feed")
    return match[1], int(match[2]), int(match[3])
