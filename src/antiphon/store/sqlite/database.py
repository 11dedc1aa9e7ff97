"""The file: made, checked and migrated before anybody reads it, and connections to it."""

import os
import secrets
from pathlib import Path

import apsw

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import StoreDamaged
from antiphon.store.migrations import migrations, pending
from antiphon.store.sqlite.driver import execute
from antiphon.store.sqlite.faults import fault

NAME = "antiphon.db"
APPLICATION_ID = 0x616E7470
"""`antp`: told from any other SQLite file by its header (https://sqlite.org/fileformat2.html section 1.3.15)."""
BUSY_TIMEOUT_MS = 5000
"""How long another program's lock is waited for."""
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024
CACHE_KIB = 16 * 1024


def connect(path: Path, vfs: str | None, *, writes: bool) -> apsw.Connection:
    """A connection as the store uses it. The file must exist."""
    flags = apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=256)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            f"journal_size_limit = {JOURNAL_LIMIT_BYTES}",
            "wal_autocheckpoint = 0",
            f"cache_size = -{CACHE_KIB}",
            "cell_size_check = ON",
            f"query_only = {'OFF' if writes else 'ON'}",
        ):
            execute(connection, f"PRAGMA {pragma}")
    except apsw.Error:
        connection.close(True)  # forced: it is of no further use
        raise
    return connection


def prepare(directory: Path, vfs: str | None) -> tuple[Path, dict[str, str]]:
    """Make the store, or check that the one there is whole at first sight, and bring its schema up to date.

    The caller holds the lock on the directory. Costs the same however much is stored.

    Returns:
        The file, and what it says of itself: the rows of `meta`, with the journal's `epoch`.

    Raises:
        StoreDamaged: There is a file, but not one this antiphon can read. It is left as it is.
        StoreUnavailable: It can't be opened.
    """
    path = directory / NAME
    try:
        if not path.exists():
            _refuse_orphans(path)
            _make(path, vfs)
        _check_header(path)
        return path, _migrate(path, vfs)
    except apsw.Error as error:
        raise fault(error, str(path)) from error
    except OSError as error:
        raise StoreUnavailable(f"The store {path} can't be opened ({error.strerror}).") from error


def _refuse_orphans(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StoreDamaged(f"The store {path} is missing, but its log {log.name} is there. It was left as it is.")


def _make(path: Path, vfs: str | None) -> None:
    """Make an empty store under another name first: a file of the store's own name is never half made."""
    draft = path.with_name(path.name + ".new")
    for suffix in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    connection = apsw.Connection(str(draft), vfs=vfs)
    try:
        execute(connection, f"PRAGMA synchronous = FULL; PRAGMA application_id = {APPLICATION_ID}")
    finally:
        connection.close()
    draft.chmod(0o600)
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _check_header(path: Path) -> None:
    """Tell a store from anything else. Only while SQLite has it not open: closing a file lets go of its POSIX locks.

    With a log beside it SQLite looks at both: a first page that was torn by a power cut is whole in the log. It would
    delete the log of an empty file, though.
    """
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise StoreDamaged(f"The store {path} is damaged: it is empty. It was left as it is: restore it from a copy.")
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        return
    if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
        raise StoreDamaged(f"The store {path} is damaged: it does not begin as one. It was left as it is.")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreDamaged(f"{path} is a database, but not a store of antiphon. It was left as it is.")


def _migrate(path: Path, vfs: str | None) -> dict[str, str]:
    connection = connect(path, vfs, writes=True)
    try:
        if execute(connection, "PRAGMA application_id")[0][0] != APPLICATION_ID:
            raise StoreDamaged(f"{path} is a database, but not a store of antiphon. It was left as it is.")
        version = execute(connection, "PRAGMA user_version")[0][0]
        for step in pending(migrations("antiphon.store.sqlite.migrations"), version, str(path)):
            with connection:
                execute(connection, step.sql)
                execute(connection, f"PRAGMA user_version = {step.number}")
        execute(connection, "INSERT INTO meta VALUES ('epoch', ?1) ON CONFLICT DO NOTHING", (secrets.token_hex(6),))
        return {row[0]: row[1] for row in execute(connection, "SELECT name, value FROM meta")}
    finally:
        connection.close()
