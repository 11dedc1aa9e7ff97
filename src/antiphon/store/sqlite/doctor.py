"""Looks through a whole store for what is damaged, and mends what the journal can tell, after keeping a copy.

The journal is the truth: a session's state, the records of its messages, turns and permissions, and what persons wrote
all follow from it. What does not agree with it can be written anew; an entry of the journal itself can't.
"""

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from antiphon.core import events as e
from antiphon.core.evolve import Record, evolve
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.table import ImpossibleEvent
from antiphon.ports.store import Commit, NewText
from antiphon.store.sql import rows, writes
from antiphon.store.sqlite.database import NAME, connect
from antiphon.store.sqlite.driver import execute, run
from antiphon.store.sqlite.faults import fault
from antiphon.store.sqlite.lock import DirectoryLock

INTEGRITY_ROWS = 20


class Finding(NamedTuple):
    """Something that is damaged. `mendable` says whether `repair` can put it right from the journal."""

    session_id: str | None
    detail: str
    mendable: bool


class Rebuilt(NamedTuple):
    """A session as its journal tells it."""

    session: Session
    records: dict[str, Record]
    texts: dict[str, NewText]


def examine(data_dir: Path, *, told: Callable[[str], None] = lambda _line: None) -> list[Finding]:
    """Read everything in a store and tell what is damaged. Changes nothing, also beside a host that runs.

    Args:
        data_dir: The data directory; it holds a store.
        told: Hears of the progress, in lines for a person.

    Raises:
        StoreUnavailable, StoreDamaged: The file can't even be read as a database.
    """
    with _opened(data_dir, writes=False) as connection:
        told("checking the file")
        found = [Finding(None, f"the file: {line}", mendable=False) for line in _integrity(connection)]
        return found + [finding for number, id in _sessions(connection) for finding in _examine(connection, number, id)]


def repair(
    data_dir: Path, *, stamp: str, told: Callable[[str], None] = lambda _line: None
) -> tuple[Path, list[Finding]]:
    """Mend what can be mended. No host may run on the directory.

    Args:
        data_dir: The data directory.
        stamp: Ends the name of the copy that is made first.
        told: Hears of the progress, in lines for a person.

    Returns:
        The copy, and what was mended.

    Raises:
        StoreUnavailable: A host holds the directory, the copy can't be made or the store can't be written. Then
            nothing was changed.
    """
    lock = DirectoryLock.take(data_dir / "antiphon.lock")
    try:
        with _opened(data_dir, writes=True) as connection:
            copy = data_dir / f"{NAME}.before-repair-{stamp}"
            told(f"keeping a copy as {copy.name}")
            execute(connection, "VACUUM INTO ?1", (str(copy),))
            mended: list[Finding] = []
            with connection:
                for number, session_id in _sessions(connection):
                    mended += _mend(connection, number, session_id)
            return copy, mended
    finally:
        lock.release()


@contextlib.contextmanager
def _opened(data_dir: Path, *, writes: bool) -> Generator[apsw.Connection]:
    """A connection; what SQLite says of the file is told as the store's own errors."""
    path = data_dir / NAME
    try:
        connection = connect(path, None, writes=writes)
        try:
            yield connection
        finally:
            connection.close(True)
    except apsw.Error as error:
        raise fault(error, str(path)) from error


def _integrity(connection: apsw.Connection) -> list[str]:
    lines = [row[0] for row in execute(connection, f"PRAGMA integrity_check({INTEGRITY_ROWS})")]
    return [] if lines == ["ok"] else lines


def _sessions(connection: apsw.Connection) -> list[tuple[int, str]]:
    found = execute(connection, "SELECT number, id FROM sessions WHERE deleted_at IS NULL ORDER BY number")
    return [(number, id) for number, id in found]


def _mend(connection: apsw.Connection, number: int, session_id: str) -> list[Finding]:
    findings = [finding for finding in _examine(connection, number, session_id) if finding.mendable]
    if findings:
        _write(connection, number, _rebuild(connection, number, session_id))
    return findings


def _examine(connection: apsw.Connection, number: int, session_id: str) -> Iterator[Finding]:
    """What does not agree with the journal of one session, or the flaw of the journal itself."""
    try:
        rebuilt = _rebuild(connection, number, session_id)
    except (ImpossibleEvent, *rows.UNREADABLE) as error:
        yield Finding(session_id, f"its journal can't be followed: {error}", mendable=False)
        return
    [(sequence, state)] = execute(connection, "SELECT sequence, state FROM sessions WHERE number = ?1", (number,))
    if _read(lambda: rows.session(session_id, sequence, state)) != rebuilt.session:
        yield Finding(session_id, "its state is not what its journal says", mendable=True)
    for kind, table, decode in _RECORDS:
        stored = execute(connection, f"SELECT id, record FROM {table} WHERE session = ?1", (number,))
        kept = {id: _read(partial(decode, record)) for id, record in stored}
        wanted = {id: record for id, record in rebuilt.records.items() if isinstance(record, kind)}
        wrong = [id for id, record in wanted.items() if kept.get(id) != record]
        if wrong:
            yield Finding(session_id, f"{len(wrong)} of its {table} are not what its journal says", mendable=True)
    missing = [id for id in rebuilt.texts if not _written(connection, id)]
    if missing:
        yield Finding(session_id, f"what was written in {len(missing)} of its messages is missing", mendable=True)


_RECORDS: tuple[tuple[type[Record], str, Callable[[bytes], Any]], ...] = (
    (Message, "messages", rows.message),
    (Turn, "turns", rows.turn),
    (Permission, "permissions", rows.permission),
)


def _read(decode: Callable[[], Any]) -> Any:
    """A value, or None where it can't be read."""
    try:
        return decode()
    except rows.UNREADABLE:
        return None


def _written(connection: apsw.Connection, message_id: str) -> bool:
    found = execute(connection, "SELECT body FROM bodies WHERE message_id = ?1", (message_id,))
    return bool(found) and _read(lambda: rows.written(found[0][0])) is not None


def _rebuild(connection: apsw.Connection, number: int, session_id: str) -> Rebuilt:
    """Follow a journal from its first entry on.

    Raises:
        ImpossibleEvent, ValueError, msgspec.MsgspecError: It has a gap, or an entry that can't be.
    """
    session: Session | None = None
    records: dict[str, Record] = {}
    texts: dict[str, NewText] = {}
    columns = "sequence, generation, type, at, turn_id, message_id, data"
    stored = execute(connection, f"SELECT {columns} FROM entries WHERE session = ?1 ORDER BY sequence", (number,))
    for place, row in enumerate(stored, 1):
        if row[0] != place:
            raise ValueError(f"entry {place} is missing")
        entry = rows.entry(session_id, *row)
        event = e.event(entry)
        change = evolve(session, event, at=entry.at, session_id=session_id)
        session = change.session
        records.update({record.id: record for record in change.records})
        _note_text(texts, event)
    if session is None:
        raise ValueError("it is empty")
    return Rebuilt(session, records, texts)


def _note_text(texts: dict[str, NewText], event: e.Event) -> None:
    if isinstance(event, e.MessageAccepted):
        texts[event.message_id] = NewText(message_id=event.message_id, text=event.text, files=event.files)
    elif isinstance(event, e.MessageEdited) and event.text is not None:
        texts[event.message_id] = msgspec.structs.replace(texts[event.message_id], text=event.text)


def _write(connection: apsw.Connection, number: int, rebuilt: Rebuilt) -> None:
    """Write a session's state and records as the journal tells them. Its entries and keys stay as they are."""
    commit = Commit(
        session=rebuilt.session,
        expected=rebuilt.session.sequence,
        entries=(),
        messages=tuple(one for one in rebuilt.records.values() if isinstance(one, Message)),
        turns=tuple(one for one in rebuilt.records.values() if isinstance(one, Turn)),
        permissions=tuple(one for one in rebuilt.records.values() if isinstance(one, Permission)),
        texts=tuple(rebuilt.texts.values()),
    )
    execute(connection, "UPDATE sessions SET sequence = ?2 WHERE number = ?1", (number, rebuilt.session.sequence))
    run(connection, writes.commit(writes.prepare(commit, now=0)))
