"""Commands that write: a commit, claims, and taking away what deleted sessions left."""

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.ports.store import KEYS_MAX, Commit, Fenced, KeyTaken, SequenceMoved
from antiphon.store.sql import outbox, rows
from antiphon.store.sql.statements import Command, filled, insert
from antiphon.store.steps import forgets_before, require_whole, spent_at
from antiphon.store.telling import tellings

ANY_FENCE = 2**63 - 1


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A commit ready for the engine: checked and encoded, so that nothing is left to do while others wait.

    Row tuples lack the columns that are only known inside: the session's number and the feed's position.
    """

    session_id: str
    key: str | None
    expected: int
    sequence: int
    fence: int | None
    state: tuple[Any, ...]
    entries: tuple[tuple[Any, ...], ...]
    messages: tuple[tuple[Any, ...], ...]
    bodies: tuple[tuple[str, bytes], ...]
    keys: tuple[tuple[str, str, str | None, int], ...]
    forgets_before: int | None
    """As `antiphon.store.steps.forgets_before`."""
    turns: tuple[tuple[Any, ...], ...]
    permissions: tuple[tuple[Any, ...], ...]
    tellings: tuple[tuple[Any, ...], ...] = ()
    """Events that webhooks may want, as parameters of `antiphon.store.sql.outbox.TELL`."""


def prepare(commit: Commit, *, now: int) -> Write:
    """Check and encode a commit; `now` (ms) is kept as the time of a deletion.

    Raises:
        ValueError: The commit does not fit together in itself.
    """
    require_whole(commit)
    session = commit.session
    return Write(
        session_id=session.id,
        key=session.key,
        expected=commit.expected,
        sequence=session.sequence,
        fence=commit.fence,
        state=(
            session.sequence,
            session.agent,
            session.status(),
            rows.labels_column(session.labels),
            rows.search_column(session),
            session.active_at,
            int(session.unsettled),
            now if session.lifecycle == "deleted" else None,
            rows.encode(session),
        ),
        entries=rows.entry_rows(commit.entries),
        messages=tuple((one.id, one.generation, one.sequence, rows.encode(one)) for one in commit.messages),
        bodies=tuple((text.message_id, rows.body(text)) for text in commit.texts),
        keys=tuple(
            (text.idempotency_key, text.message_id, text.digest, spent_at(commit))
            for text in commit.texts
            if text.idempotency_key is not None
        ),
        forgets_before=forgets_before(commit),
        turns=tuple((one.id, one.generation, one.first_sequence, rows.encode(one)) for one in commit.turns),
        permissions=tuple((one.id, one.state, one.requested_at, rows.encode(one)) for one in commit.permissions),
        tellings=tuple(outbox.told(telling) for telling in tellings(commit)),
    )


_STATE = "sequence, agent, status, labels, search, active_at, unsettled, deleted_at, state"
_CREATE = (
    f"INSERT INTO sessions (id, key, fence, {_STATE})"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING RETURNING number"
)
_ADVANCE = (
    "UPDATE sessions SET sequence = $4, agent = $5, status = $6, labels = $7, search = $8, active_at = $9,"
    " unsettled = $10, deleted_at = $11, state = $12"
    " WHERE id = $1 AND sequence = $2 AND fence <= $3 AND deleted_at IS NULL RETURNING number"
)
_ADVANCE_ALL = (
    f"WITH new (id, expected, upto, {_STATE}) AS (VALUES {{}})"
    " UPDATE sessions SET sequence = new.sequence, agent = new.agent, status = new.status, labels = new.labels,"
    " search = new.search, active_at = new.active_at, unsettled = new.unsettled, deleted_at = new.deleted_at,"
    " state = new.state FROM new WHERE sessions.id = new.id AND sessions.sequence = new.expected"
    " AND fence <= new.upto AND sessions.deleted_at IS NULL RETURNING sessions.id, number"
)


class Refused(Exception):  # nothing is wrong: somebody else was first
    """One of several commits can't be written as it is. None of them may be kept: each is to be tried by itself."""


def commit(write: Write, *, listened: bool = True) -> Command[int]:
    """Write a commit. A refusal (`SequenceMoved`, `KeyTaken`, `Fenced`) is raised before anything was written.

    Args:
        write: The commit.
        listened: Whether there may be webhooks that want to be told of it.

    Returns:
        How many deliveries to webhooks it made.
    """
    number = yield from _create(write) if write.expected == 0 else _advance(write)
    [made] = yield from _records([(number, write)], listened=listened)
    return made


def commits(writes: Sequence[Write], *, listened: bool = True) -> Command[list[int]]:
    """Write commits of as many sessions as if each were written by itself, in far fewer statements.

    Returns:
        As `commit`, for each.

    Raises:
        Refused: At least one of them can't be written. What was written of the others must be undone.
        KeyTaken, SequenceMoved, ValueError: Likewise.
    """
    numbers = yield from _advance_all([write for write in writes if write.expected > 0])
    for write in writes:
        if write.expected == 0:
            numbers[write.session_id] = yield from _create(write)
    return (yield from _records([(numbers[write.session_id], write) for write in writes], listened=listened))


Numbered = Sequence[tuple[int, Write]]
"""Commits, each with the number of its session, which no two share."""


def _records(numbered: Numbered, *, listened: bool) -> Command[list[int]]:
    """Write what commits hold beside the state of their sessions; how many deliveries each made."""
    fed = [(number, write.expected + 1, write.sequence) for number, write in numbered if write.entries]
    told = yield from insert("feed", "session, first, last", fed, "RETURNING session, position")
    positions: dict[int, int] = dict(map(tuple, told))
    yield from insert(
        "entries",
        rows.ENTRY_COLUMNS,
        [
            (number, sequence, positions[number], *row)
            for number, write in numbered
            for sequence, row in enumerate(write.entries, write.expected + 1)
        ],
    )
    yield from insert(
        "messages",
        "session, id, generation, accepted, record",
        [(number, *row) for number, write in numbered for row in write.messages],
        "ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, record = excluded.record",
    )
    yield from insert(
        "bodies",
        "message_id, body",
        [row for _, write in numbered for row in write.bodies],
        "ON CONFLICT (message_id) DO UPDATE SET body = excluded.body",
    )
    for number, write in numbered:
        yield from _spend_keys(number, write)
    yield from insert(
        "turns",
        "session, id, generation, first_sequence, record",
        [(number, *row) for number, write in numbered for row in write.turns],
        "ON CONFLICT (id) DO UPDATE SET record = excluded.record",
    )
    yield from insert(
        "permissions",
        "session, id, state, requested_at, record",
        [(number, *row) for number, write in numbered for row in write.permissions],
        "ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record",
    )
    made: list[int] = []
    for _, write in numbered:
        deliveries = 0
        for telling in write.tellings if listened else ():
            deliveries += len((yield outbox.TELL, telling))
        made.append(deliveries)
    return made


def _create(write: Write) -> Command[int]:
    created = yield _CREATE, (write.session_id, write.key, write.fence or 0, *write.state)
    if created:
        return created[0][0]
    holder = yield "SELECT id FROM sessions WHERE key = $1 AND deleted_at IS NULL", (write.key,)
    if holder and holder[0][0] != write.session_id:
        raise KeyTaken(holder[0][0])
    raise SequenceMoved(write.session_id)


def _advance(write: Write) -> Command[int]:
    fence = ANY_FENCE if write.fence is None else write.fence
    advanced = yield _ADVANCE, (write.session_id, write.expected, fence, *write.state)
    if advanced:
        return advanced[0][0]
    newest = yield "SELECT fence FROM sessions WHERE id = $1 AND deleted_at IS NULL", (write.session_id,)
    if newest and newest[0][0] > fence:
        raise Fenced(write.session_id)
    raise SequenceMoved(write.session_id)


def _advance_all(writes: Sequence[Write]) -> Command[dict[str, int]]:
    """The numbers of the sessions by their ids."""
    states = [
        (write.session_id, write.expected, ANY_FENCE if write.fence is None else write.fence, *write.state)
        for write in writes
    ]
    numbers: dict[str, int] = {}
    for sql, args in filled(_ADVANCE_ALL, states):
        numbers.update(map(tuple, (yield sql, args)))
    if len(numbers) < len(writes):
        raise Refused
    return numbers


def _spend_keys(number: int, write: Write) -> Command[None]:
    """Note what each key was spent on. One that comes again with its own message stays as it was."""
    for key, message_id, digest, at in write.keys:
        spent = yield (
            (
                "INSERT INTO keys (session, key, message_id, digest, spent_at) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (session, key) DO UPDATE SET key = excluded.key"
                " WHERE keys.message_id = excluded.message_id RETURNING message_id"
            ),
            (number, key, message_id, digest, at),
        )
        if not spent:
            raise ValueError(f"the idempotency key of {message_id} was spent on another message")
    if write.forgets_before is not None:
        yield from _forget_keys(number, write.forgets_before)


def _forget_keys(number: int, before: int) -> Command[None]:
    """Take the oldest keys of a session that has too many, but none that was spent at this time or later."""
    [(kept,)] = yield "SELECT count(*) FROM keys WHERE session = $1", (number,)
    if kept > KEYS_MAX:
        oldest = "SELECT key FROM keys WHERE session = $1 AND spent_at < $2 ORDER BY spent_at, key LIMIT $3"
        yield f"DELETE FROM keys WHERE session = $1 AND key IN ({oldest})", (number, before, kept - KEYS_MAX)


PURGED = (
    ("entries", "sequence", "session = $1"),
    ("bodies", "message_id", "message_id IN (SELECT id FROM messages WHERE session = $1)"),
    ("messages", "id", "session = $1"),
    ("turns", "id", "session = $1"),
    ("permissions", "id", "session = $1"),
    ("keys", "key", "session = $1"),
)


def purge(limit: int) -> Command[int]:
    """Take away at most about `limit` rows of deleted sessions, a session's own row last; how many."""
    taken = 0
    while taken < limit:
        deleted = yield "SELECT number FROM sessions WHERE deleted_at IS NOT NULL ORDER BY number LIMIT 1", ()
        if not deleted:
            break
        taken += yield from _purge_session(deleted[0][0], limit - taken)
    return taken


def _purge_session(number: int, limit: int) -> Command[int]:
    taken = 0
    for table, id, where in PURGED:
        chosen = f"SELECT {id} FROM {table} WHERE {where} ORDER BY {id} LIMIT $2"
        own = "session = $1 AND " if table in {"entries", "keys"} else ""
        args = (number, limit - taken)
        if table == "entries":
            positions = f"SELECT position FROM entries WHERE session = $1 AND sequence IN ({chosen})"
            yield f"DELETE FROM feed WHERE position IN ({positions})", args
        gone = yield f"DELETE FROM {table} WHERE {own}{id} IN ({chosen}) RETURNING 1", args
        taken += len(gone)
        if taken >= limit:
            return taken
    yield "DELETE FROM sessions WHERE number = $1", (number,)
    return taken + 1
