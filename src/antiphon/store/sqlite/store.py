"""The store in a SQLite file."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.clock import Clock
from antiphon.ports.store import Commit, FeedEntry, KeyedMessage, Listed, Notice, SessionQuery, StoredMessage
from antiphon.store.identity import Identity
from antiphon.store.sql import reads, writes
from antiphon.store.sql.outbox import SqlOutbox, any_webhook
from antiphon.store.sql.rows import Damage
from antiphon.store.sql.statements import Command
from antiphon.store.sql.timetable import SqlTimetable
from antiphon.store.sqlite import database, own
from antiphon.store.sqlite.jobs import Job, TimeLimit, apart
from antiphon.store.sqlite.lock import DirectoryLock
from antiphon.store.sqlite.readers import Readers
from antiphon.store.sqlite.writer import Writer

T = TypeVar("T")

WAITING = 1024
"""So many calls wait for each kind of thread at most; further ones wait for one of these places."""
READERS = 3
TIMEOUT_S = 30.0


class SqliteStore:
    """Sessions in `antiphon.db` in a data directory, for the one host that holds the directory's lock.

    Use it from the event loop in which it was opened, and `close` it there.

    Attributes:
        outbox: Its webhooks, and what is to be told to them.
        timetable: Its schedules.
        peers: None: no other host can open it.
    """

    peers: None = None

    def __init__(
        self, path: Path, identity: Identity, lock: DirectoryLock, *, clock: Clock, vfs: str | None, timeout_s: float
    ) -> None:
        """For `open` alone."""
        self.path = path
        self._identity = identity
        self._lock = lock
        self._clock = clock
        self._timeout_s = timeout_s
        self._limit = TimeLimit(timeout_s)
        self._damage = Damage()
        self._writer = Writer(path, vfs, lambda some: writes.commits(some, listened=self.outbox.listened))
        self._readers = Readers(path, vfs, READERS)
        self._write_places = asyncio.Semaphore(WAITING)
        self._read_places = asyncio.Semaphore(WAITING)
        self._closing = asyncio.Event()
        self._closed = asyncio.Event()
        self.outbox = SqlOutbox(self._read, self._write)
        self.timetable = SqlTimetable(self._read, self._write)

    @classmethod
    async def open(cls, data_dir: Path, *, clock: Clock, vfs: str | None = None, timeout_s: float = TIMEOUT_S) -> Self:
        """Open the store of a data directory, or make it. Must be closed.

        Args:
            data_dir: The directory; made (mode 0700) if it is not there.
            clock: For the times of deletions.
            vfs: The name of SQLite's VFS, for the injection of faults.
            timeout_s: After so long a call that the disk keeps waiting raises `StoreUnavailable`.

        Raises:
            StoreUnavailable: Another host holds the directory (`ids["pid"]`), or it can't be opened.
            StoreDamaged: What is there is no store that this antiphon can read. It was left as it is.
        """
        taking = apart(partial(_take, data_dir, vfs))
        try:
            path, identity, lock = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(_let_go)
            raise
        store = cls(path, identity, lock, clock=clock, vfs=vfs, timeout_s=timeout_s)
        store._writer.start()
        store._readers.start()
        try:
            await store._prepare_outbox()
        except BaseException:
            await store.close()
            raise
        return store

    async def _prepare_outbox(self) -> None:
        """Give up the claims of a host that is gone: only one can hold the directory. Without webhooks, write nothing.

        What does not succeed now costs time later: a look in vain at each end of a message, claims that run out.
        """
        with suppress(StoreUnavailable):
            self.outbox.listened = await self._read(any_webhook)
            if self.outbox.listened:
                await self.outbox.release(None)

    @property
    def epoch(self) -> str:
        """The name of this journal."""
        return self._identity.epoch

    @property
    def damaged_rows(self) -> int:
        """How many rows lists have left out since the store was opened, because they can't be read."""
        return self._damage.rows

    # Writing

    async def commit(self, commit: Commit) -> None:
        write = writes.prepare(commit, now=self._clock.now())
        made = await self._write(lambda: writes.commit(write, listened=self.outbox.listened), write)
        if made:
            self.outbox.stirred.set()

    async def claim(self, session_id: str, host: str) -> int | None:  # noqa: ARG002  # every host is this one
        return await self._write(partial(own.claim, session_id))

    async def release(self, session_id: str, fence: int) -> None:
        """Nothing is held that could be freed: the next claim succeeds anyway."""

    async def purge(self, limit: int) -> int:
        return await self._write(partial(writes.purge, limit))

    # Reading

    async def load(self, session_id: str) -> Session | None:
        return await self._read(partial(reads.load, session_id))

    async def find(self, key: str) -> str | None:
        return await self._read(partial(reads.find, key))

    async def unsettled(self) -> Sequence[str]:
        return await self._read(reads.unsettled)

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        return await self._read(partial(reads.sessions, query, cursor=cursor, limit=limit, damage=self._damage))

    async def count(self) -> int:
        return await self._read(reads.count)

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        return await self._read(partial(reads.entries, session_id, after=after, limit=limit))

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        return await self._read(partial(reads.tail, session_id, before=before, limit=limit))

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        return await self._read(partial(own.feed, self._identity, after=after, limit=limit, damage=self._damage))

    async def feed_end(self) -> str:
        return self._identity.told(await self._read(own.feed_end))

    async def message(self, message_id: str) -> StoredMessage | None:
        return await self._read(partial(reads.message, message_id))

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        return await self._read(partial(reads.messages, message_ids, damage=self._damage))

    async def gone(self, message_id: str) -> Message | None:
        return await self._read(partial(reads.gone, message_id))

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        return await self._read(partial(reads.keyed, session_id, idempotency_key))

    async def turn(self, turn_id: str) -> Turn | None:
        return await self._read(partial(reads.turn, turn_id))

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        asked = partial(reads.turns, session_id, generation=generation, cursor=cursor, limit=limit, damage=self._damage)
        return await self._read(asked)

    async def reply(self, turn_id: str, *, until: int | None = None) -> str | None:
        return await self._read(partial(reads.reply, turn_id, until))

    async def answered(self, message_id: str, turn_id: str) -> tuple[StoredMessage, str | None] | None:
        return await self._read(partial(reads.answered, message_id, turn_id))

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        damage = self._damage
        asked = partial(reads.transcript, session_id, generation=generation, cursor=cursor, limit=limit, damage=damage)
        return await self._read(asked)

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        damage = self._damage
        asked = partial(
            reads.permissions, state=state, session_id=session_id, cursor=cursor, limit=limit, damage=damage
        )
        return await self._read(asked)

    async def permission(self, permission_id: str) -> Permission | None:
        return await self._read(partial(reads.permission, permission_id))

    # Its threads

    async def _write(self, begin: Callable[[], Command[T]], write: writes.Write | None = None) -> T:
        return await self._serve(self._writer, self._write_places, begin, in_doubt=True, write=write)

    async def _read(self, begin: Callable[[], Command[T]]) -> T:
        return await self._serve(self._readers, self._read_places, begin, in_doubt=False)

    async def _serve(
        self,
        threads: Writer | Readers,
        places: asyncio.Semaphore,
        begin: Callable[[], Command[T]],
        *,
        in_doubt: bool,
        write: writes.Write | None = None,
    ) -> T:
        """Have a command run, and wait for its outcome, both within the time limit."""
        if places.locked():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await places.acquire()
            except TimeoutError as error:
                raise self._too_late(in_doubt=False) from error
        else:
            await places.acquire()  # at once
        if self._closing.is_set():
            places.release()
            raise StoreUnavailable("The store is closed.")
        job = Job(begin, places, write)
        threads.submit(job)
        self._limit.watch(job.future, partial(self._too_late, in_doubt=in_doubt))
        return await job.future

    def _too_late(self, *, in_doubt: bool) -> StoreUnavailable:
        detail = f"The store {self.path} did not answer within {self._timeout_s:g} s."
        return StoreUnavailable(detail, retry_after_s=5, in_doubt=in_doubt or None)

    # Its end

    async def notices(self) -> AsyncIterator[Notice]:
        """Nobody else can write here: this only ends, when the store is closed."""
        await self._closing.wait()
        for nothing in ():
            yield nothing

    async def close(self) -> None:
        if self._closing.is_set():
            await self._closed.wait()
            return
        self._closing.set()
        self._readers.stop()
        self._writer.stop()
        try:
            await apart(self._end)
        finally:
            self._limit.stop()
            self._closed.set()

    def _end(self) -> None:
        """Wait for the threads, then let go of the directory; not before: one that hangs may still write."""
        threads = (*self._readers.threads, self._writer.thread)
        for thread in threads:
            thread.join(self._timeout_s)
        if any(thread.is_alive() for thread in threads):
            raise StoreUnavailable(f"The store {self.path} could not be closed within {self._timeout_s:g} s.")
        self._lock.release()


def _let_go(taking: "asyncio.Future[tuple[Path, Identity, DirectoryLock]]") -> None:
    """Give back what was taken for an `open` that was cancelled."""
    if taking.exception() is None:
        taking.result()[2].release()


def _take(data_dir: Path, vfs: str | None) -> tuple[Path, Identity, DirectoryLock]:
    """Take the lock of the directory, then make the store ready."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = DirectoryLock.take(data_dir / "antiphon.lock")
    except OSError as error:
        raise StoreUnavailable(f"The data directory {data_dir} can't be used ({error.strerror}).") from error
    try:
        path, meta = database.prepare(data_dir, vfs)
        identity = Identity.read(meta, f"The store {path}")
    except BaseException:
        lock.release()
        raise
    return path, identity, lock
