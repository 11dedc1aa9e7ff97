"""The one thread that writes: it gathers what waits into one transaction, so that many share one sync."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from antiphon.store.sql.statements import Command
from antiphon.store.sql.writes import Write
from antiphon.store.sqlite.database import connect
from antiphon.store.sqlite.driver import execute, run
from antiphon.store.sqlite.faults import DAMAGED, OWN, fault
from antiphon.store.sqlite.jobs import Job, Outcome, deliver

_log = logging.getLogger("antiphon.store")

BATCH = 256
"""At most so many jobs share a transaction: nobody waits long because many are waiting."""
CALM_S = 0.02
"""When nothing has come for so long, there is time for the log."""
CALM_PAGES = 1000
"""From this length on the log is copied into the file when there is time for it. SQLite's own default."""
CHECKPOINT_PAGES = 8 * CALM_PAGES
"""From this length on it is copied whether or not there is time, after the answers are out."""
RESTART_PAGES = 2 * CHECKPOINT_PAGES
"""From this length on readers are waited for, so that the log begins anew and does not grow for ever."""


class Writer:
    """Owns the writing connection. Jobs are served in the order they came.

    After a fault of the engine the connection is given up and the next batch opens a new one, so the store heals by
    itself once the cause is gone.
    """

    def __init__(self, path: Path, vfs: str | None, commits: Callable[[Sequence[Write]], Command[list[int]]]) -> None:
        """For the store.

        Args:
            path: The file.
            vfs: The name of SQLite's VFS.
            commits: Writes commits of several sessions together.
        """
        self._path = path
        self._commits = commits
        self._vfs = vfs
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._connection: apsw.Connection | None = None
        self._log_pages = 0
        self.thread = threading.Thread(target=self._run, name="antiphon-store-writer", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self.thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its outcome is delivered to its loop."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Serve what waits already, then end the thread. To be waited for with `thread`."""
        self._jobs.put(None)

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            wanted, given_up = _told_apart(batch)
            deliver([*self._write(wanted), *[Outcome(job) for job in given_up]])
            self._checkpoint(CHECKPOINT_PAGES)
        self._checkpoint(1)
        self._give_up_connection()

    def _gather(self) -> tuple[list[Job], bool]:
        """What waits now, and whether there will be more."""
        batch: list[Job] = []
        job = self._next()
        while job is not None:
            batch.append(job)
            if len(batch) >= BATCH:
                return batch, True
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _next(self) -> Job | None:
        """The next job, however long it takes to come."""
        if self._log_pages >= CALM_PAGES:
            with contextlib.suppress(Empty):
                return self._jobs.get(timeout=CALM_S)
            self._checkpoint(CALM_PAGES)
        return self._jobs.get()

    def _write(self, batch: list[Job]) -> list[Outcome]:
        """Run a batch in one transaction, each job, or commits of several sessions, in a savepoint of its own."""
        if not batch:
            return []
        committing = False
        try:
            connection = self._open()
            execute(connection, "BEGIN IMMEDIATE")
            outcomes = [outcome for jobs in _runs(batch) for outcome in self._step(connection, jobs)]
            committing = True
            execute(connection, "COMMIT")
        except apsw.Error as error:
            if isinstance(error, DAMAGED) and len(batch) > 1:
                return self._apart(batch)
            return self._failed(batch, error, committing=committing)
        except Exception as error:  # noqa: BLE001  # the root of this thread: who waits must hear of it
            self._give_up_connection()
            return [Outcome(job, error=error) for job in batch]
        return outcomes

    def _step(self, connection: apsw.Connection, jobs: list[Job]) -> list[Outcome]:
        """Run a job, or several commits as one. What one raises is its own and undoes only what it did, but for a
        fault of the engine; where that is one of several, each is tried alone.
        """
        execute(connection, "SAVEPOINT step")
        refused: Exception | None = None
        results: list[Any] = []
        try:
            writes = [job.write for job in jobs if job.write is not None]
            results = run(connection, self._commits(writes)) if len(writes) > 1 else [run(connection, jobs[0].begin())]
        except Exception as error:  # it is raised where the job is awaited
            if isinstance(error, apsw.Error) and not isinstance(error, OWN):
                raise
            execute(connection, "ROLLBACK TO step")
            refused = fault(error, str(self._path)) if isinstance(error, apsw.Error) else error
        execute(connection, "RELEASE step")
        if refused is None:
            return [Outcome(job, result=result) for job, result in zip(jobs, results, strict=True)]
        if len(jobs) > 1:
            return [outcome for job in jobs for outcome in self._step(connection, [job])]
        return [Outcome(jobs[0], error=refused)]

    def _apart(self, batch: list[Job]) -> list[Outcome]:
        """Run each job in a transaction of its own: a page that can't be read is trouble of the sessions on it only.

        After such a page SQLite does nothing more in the transaction that met it, savepoint or not.
        """
        self._give_up_connection()
        return [outcome for job in batch for outcome in self._write([job])]

    def _failed(self, batch: list[Job], error: apsw.Error, *, committing: bool) -> list[Outcome]:
        """Undo the transaction and tell everybody in it."""
        _log.error(
            "The store could not write",
            extra={"action": "commit", "jobs": len(batch), "error": f"{type(error).__name__}: {error}"},
        )
        in_doubt = committing and isinstance(error, apsw.IOError) and not self._bury()
        self._give_up_connection()
        return [Outcome(job, error=fault(error, str(self._path), in_doubt=in_doubt)) for job in batch]

    def _bury(self) -> bool:
        """Write over what a failed COMMIT has left in the log; whether that is done.

        A sync that fails leaves the whole transaction in the log, unseen by everybody, until the next one is written
        in its place; a host that starts after a crash would find it there and take it for committed.
        """
        connection = self._connection
        if connection is None:
            return False
        try:
            if connection.in_transaction:
                execute(connection, "ROLLBACK")
            execute(connection, "UPDATE fences SET last = last + 1")
        except apsw.Error:
            return False
        return True

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = connect(self._path, self._vfs, writes=True)
            self._connection.set_wal_hook(self._note_log)
        return self._connection

    def _note_log(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, pages: int) -> None:
        """Copy the log into the file when it has grown to `pages`. It holds up nobody but later writers, and when it
        fails nothing is lost: the log keeps what it holds.
        """
        if self._connection is None or self._log_pages < pages:
            return
        try:
            long = self._log_pages >= RESTART_PAGES
            mode = apsw.SQLITE_CHECKPOINT_RESTART if long else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            _log.warning(
                "The store's log could not be copied into its file",
                extra={"action": "checkpoint", "error": f"{type(error).__name__}: {error}"},
            )
        self._log_pages = 0

    def _give_up_connection(self) -> None:
        connection, self._connection = self._connection, None
        self._log_pages = 0
        if connection is not None:
            close(connection)


def _runs(batch: Iterable[Job]) -> Iterator[list[Job]]:
    """A batch in its order; commits that stand one behind another, each of another session, are together."""
    run: dict[str, Job] = {}
    for job in batch:
        session_id = job.write.session_id if job.write is not None else None
        if run and (session_id is None or session_id in run):
            yield list(run.values())
            run = {}
        if session_id is None:
            yield [job]
        else:
            run[session_id] = job
    if run:
        yield list(run.values())


def _told_apart(batch: list[Job]) -> tuple[list[Job], list[Job]]:
    """The jobs that somebody awaits, and the others."""
    given_up = [job.future.done() for job in batch]
    return (
        [job for job, gone in zip(batch, given_up, strict=True) if not gone],
        [job for job, gone in zip(batch, given_up, strict=True) if gone],
    )


def close(connection: apsw.Connection) -> None:
    """Close a connection, also a broken one; an open transaction is rolled back."""
    try:
        connection.close(True)
    except apsw.Error as error:
        _log.warning(
            "A connection to the store did not close well",
            extra={"action": "close", "error": f"{type(error).__name__}: {error}"},
        )
