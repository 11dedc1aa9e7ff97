"""The threads that read, each on a connection of its own, so that no read waits for a write."""

import threading
from pathlib import Path
from queue import SimpleQueue

import apsw

from antiphon.store.sqlite.database import connect
from antiphon.store.sqlite.driver import execute, run
from antiphon.store.sqlite.faults import fault
from antiphon.store.sqlite.jobs import Job, Outcome, deliver
from antiphon.store.sqlite.writer import close


class Readers:
    """A few reading threads on one queue."""

    def __init__(self, path: Path, vfs: str | None, count: int) -> None:
        self._path = path
        self._vfs = vfs
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.threads = tuple(
            threading.Thread(target=self._run, name=f"antiphon-store-reader-{number}", daemon=True)
            for number in range(1, count + 1)
        )

    def start(self) -> None:
        """Begin to serve."""
        for thread in self.threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its outcome is delivered to its loop."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Serve what waits already, then end the threads. To be waited for with `threads`."""
        for _ in self.threads:
            self._jobs.put(None)

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (job := self._jobs.get()) is not None:
            if job.future.done():
                deliver([Outcome(job)])
                continue
            try:
                connection = connection or connect(self._path, self._vfs, writes=False)
                outcome = Outcome(job, result=_read(connection, job))
            except apsw.Error as error:
                if connection is not None:
                    close(connection)
                connection = None
                outcome = Outcome(job, error=fault(error, str(self._path)))
            except Exception as error:  # noqa: BLE001  # it is raised where the job is awaited
                outcome = Outcome(job, error=error)
            deliver([outcome])
        if connection is not None:
            close(connection)


def _read(connection: apsw.Connection, job: Job) -> object:
    """Run a command on one state of the store."""
    execute(connection, "BEGIN")
    try:
        return run(connection, job.begin())
    finally:
        if connection.in_transaction:
            execute(connection, "ROLLBACK")
