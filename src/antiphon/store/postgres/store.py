"""The store in PostgreSQL."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Self, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.host.tasks import Tasks
from antiphon.ports.clock import Clock
from antiphon.ports.store import Commit, FeedEntry, Fenced, KeyedMessage, Listed, Notice, SessionQuery, StoredMessage
from antiphon.store.identity import Identity
from antiphon.store.notices import notice_of
from antiphon.store.postgres import own, schema, standing
from antiphon.store.postgres.driver import (
    CLAIMS_NAME,
    HOST_NAME,
    Connection,
    connect,
    connect_options,
    in_transaction,
    make_pool,
    named,
    run,
)
from antiphon.store.postgres.faults import FAULTS, LOST, fault, is_certain
from antiphon.store.postgres.notices import NOTIFY, Inbox, Known, Lookout, Outbox, heard
from antiphon.store.postgres.peers import PostgresPeers
from antiphon.store.postgres.standing import Standing
from antiphon.store.sql import reads
from antiphon.store.sql.outbox import SqlOutbox
from antiphon.store.sql.rows import Damage
from antiphon.store.sql.statements import Command
from antiphon.store.sql.timetable import SqlTimetable
from antiphon.store.sql.writes import prepare

T = TypeVar("T")

CONNECTIONS = 16
TIMEOUT_S = 30.0
POLL_S = 2.0
"""So often whoever reads notices looks into the feed as well: a notification can be lost."""


class PostgresStore:
    """Sessions in a schema of a PostgreSQL database, which several hosts may share.

    Use it from the event loop in which it was opened, and `close` it there.

    Attributes:
        outbox: Its webhooks, and what is to be told to them.
        timetable: Its schedules.
        peers: The hosts that share it.
    """

    def __init__(
        self,
        pool: Any,
        identity: Identity,
        options: dict[str, Any],
        *,
        name: str,
        origin: str,
        clock: Clock,
        timeout_s: float,
    ) -> None:
        """For `open` alone."""
        self._pool = pool
        self._identity = identity
        self._schema = name
        self._clock = clock
        self._timeout_s = timeout_s
        self._damage = Damage()
        self._origin = origin
        self._known = Known()
        self._inboxes: set[Inbox] = set()
        self._lookout = Lookout(lambda: self._read(own.settled_before), self._tell_here)
        self._outbox = Outbox(self._origin, self._notify)
        claims = f"{CLAIMS_NAME} {self._origin}"
        self._standing = Standing(
            partial(connect, named(options, claims, command_timeout=min(timeout_s, standing.TIMEOUT_S))),
            name,
            claims,
            hear=self._hear,
            moved=self._pool.expire_connections,
            monotonic=clock.monotonic,
        )
        self._tasks = Tasks("store")
        self._closing = asyncio.Event()
        self.outbox = SqlOutbox(self._look, self._write, lock="FOR UPDATE SKIP LOCKED")
        self.timetable = SqlTimetable(self._look, self._write)
        self.peers = PostgresPeers(
            self._standing,
            name,
            read=self._read_once,
            write=self._write_once,
            bounded=self._bounded,
            monotonic=clock.monotonic,
        )

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Clock,
        schema_name: str = "antiphon",
        connections: int = CONNECTIONS,
        timeout_s: float = TIMEOUT_S,
    ) -> Self:
        """Connect, and make the schema or bring it up to date. Must be closed.

        Args:
            url: `postgresql://user:password@host:port/database`, as libpq reads it. It is never logged or told.
            clock: For the times of deletions.
            schema_name: The schema that holds the tables; made if it is not there.
            connections: How many calls are served at a time; one more connection stands by for claims.
            timeout_s: After so long a call raises `StoreUnavailable`.

        Raises:
            StoreUnavailable: The server can't be reached, or refuses.
            StoreDamaged: The schema is of a later antiphon.
        """
        schema.require_name(schema_name)
        origin = secrets.token_hex(6)
        options = named(connect_options(url, schema_name, timeout_s), f"{HOST_NAME} {origin}")
        try:
            async with asyncio.timeout(timeout_s):
                connection = await connect(options)
                try:
                    meta = await schema.prepare(connection, schema_name)
                    identity = Identity.read(meta, f"Schema {schema_name!r} of the database")
                finally:
                    await connection.close(timeout=2)
                pool = await make_pool(options, connections)
        except ValueError as error:
            raise StoreUnavailable("The database's URL can't be read.") from error
        except FAULTS as error:
            raise fault(error) from error
        store = cls(pool, identity, options, name=schema_name, origin=origin, clock=clock, timeout_s=timeout_s)
        store._tasks.start(store._standing.keep(), "standing connection")
        store._tasks.start(store._outbox.deliver(), "notifications")
        store._tasks.start(store._lookout.watch(), "late commits")
        return store

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
        write = prepare(commit, now=self._clock.now())
        if commit.fence is not None and self._standing.is_lost(commit.session.id, commit.fence):
            raise Fenced(commit.session.id)  # also where a failover has lost the row's newest fence
        sql, args = own.statement(write, self._standing.owner(commit.session.id, commit.fence))
        async with self._connection() as connection:
            try:
                written = await connection.fetch(sql, *args)
            except FAULTS as error:
                if is_certain(error):
                    raise
                raise fault(error, in_doubt=True) from error
            if not written:
                raise await run(connection, own.refusal(write))
        self._known.put(write.session_id, write.sequence)
        notice = notice_of(commit)
        self._outbox.put(notice, soon=commit.fence is None or notice.ended != {})
        if write.tellings and written[0][1]:
            self.outbox.stirred.set()

    async def claim(self, session_id: str, host: str) -> int | None:
        return await self._bounded(partial(self._standing.claim, session_id, host))

    async def release(self, session_id: str, fence: int) -> None:
        await self._bounded(partial(self._standing.release, session_id, fence))

    async def purge(self, limit: int) -> int:
        async with self._connection() as connection:
            command = own.purge_alone(f"antiphon {self._schema} purge", limit)
            return await in_transaction(connection, command, read_only=False)

    # Reading

    async def load(self, session_id: str) -> Session | None:
        return await self._read(lambda: reads.load(session_id))

    async def find(self, key: str) -> str | None:
        return await self._read(lambda: reads.find(key))

    async def unsettled(self) -> Sequence[str]:
        return await self._read(reads.unsettled)

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        return await self._look(lambda: reads.sessions(query, cursor=cursor, limit=limit, damage=self._damage))

    async def count(self) -> int:
        return await self._read(reads.count)

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        return await self._read(lambda: own.entries(session_id, after=after, limit=limit))

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        return await self._read(lambda: reads.tail(session_id, before=before, limit=limit))

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        found, late = await self._look(lambda: own.feed(self._identity, after=after, limit=limit, damage=self._damage))
        if late is not None:
            self._lookout.expect(late.xid, late.notice)
        return found

    async def feed_end(self) -> str:
        return self._identity.told(await self._read(own.feed_end))

    async def message(self, message_id: str) -> StoredMessage | None:
        return await self._read(lambda: reads.message(message_id))

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        return await self._look(lambda: reads.messages(message_ids, damage=self._damage))

    async def gone(self, message_id: str) -> Message | None:
        return await self._read(lambda: reads.gone(message_id))

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        return await self._read(lambda: reads.keyed(session_id, idempotency_key))

    async def turn(self, turn_id: str) -> Turn | None:
        return await self._read(lambda: reads.turn(turn_id))

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        damage = self._damage
        return await self._read(
            lambda: reads.turns(session_id, generation=generation, cursor=cursor, limit=limit, damage=damage)
        )

    async def reply(self, turn_id: str, *, until: int | None = None) -> str | None:
        return await self._read(lambda: reads.reply(turn_id, until))

    async def answered(self, message_id: str, turn_id: str) -> tuple[StoredMessage, str | None] | None:
        return await self._read(lambda: reads.answered(message_id, turn_id))

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        damage = self._damage
        return await self._read(
            lambda: reads.transcript(session_id, generation=generation, cursor=cursor, limit=limit, damage=damage)
        )

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        damage = self._damage
        return await self._read(
            lambda: reads.permissions(state=state, session_id=session_id, cursor=cursor, limit=limit, damage=damage)
        )

    async def permission(self, permission_id: str) -> Permission | None:
        return await self._read(lambda: reads.permission(permission_id))

    # Connections

    async def _read(self, begin: Callable[[], Command[T]]) -> T:
        """Run a command of one statement, which sees one state of the store by itself."""
        return await self._surely(lambda connection: run(connection, begin()))

    async def _look(self, begin: Callable[[], Command[T]]) -> T:
        """Run a command of several statements on one state of the store."""
        return await self._surely(lambda connection: in_transaction(connection, begin(), read_only=True))

    async def _surely(self, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Read; once more, on a new connection, where one was dead that nobody had looked at since."""
        try:
            async with self._connection() as connection:
                return await read(connection)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, LOST):
                raise
            await self._pool.expire_connections()
        async with self._connection() as connection:
            return await read(connection)

    async def _read_once(self, command: Command[T]) -> T:
        async with self._connection() as connection:
            return await run(connection, command)

    async def _write_once(self, command: Command[T]) -> T:
        return await self._write(lambda: command)

    async def _write(self, begin: Callable[[], Command[T]]) -> T:
        """Run a command that writes, other than a commit, in a transaction of its own."""
        async with self._connection() as connection:
            return await in_transaction(connection, begin(), read_only=False)

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        """A connection of the pool. What fails on it is told as the port says."""
        if self._closing.is_set():
            raise StoreUnavailable("The store is closed.")
        try:
            connection = await self._pool.acquire(timeout=self._timeout_s)
        except TimeoutError as error:
            raise StoreUnavailable("No connection to the database became free in time.", retry_after_s=1) from error
        except FAULTS as error:
            raise fault(error) from error
        try:
            yield connection
        except FAULTS as error:
            if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                await self._pool.expire_connections()
                self._standing.doubt()
            raise fault(error) from error
        finally:
            with suppress(*FAULTS):  # then the pool has given the connection up
                await self._pool.release(connection)

    async def _bounded(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do something on the standing connection, within the time limit."""
        if self._closing.is_set():
            raise StoreUnavailable("The store is closed.")
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call()
        except FAULTS as error:
            raise fault(error) from error

    # Notices

    async def _notify(self, payload: str) -> None:
        try:
            async with self._connection() as connection:
                await connection.execute(NOTIFY, self._schema, payload)
        except StoreUnavailable:  # whoever listens reads the feed too, and commits tell of the fault themselves
            return

    def _tell_here(self, notice: Notice) -> None:
        for inbox in self._inboxes:
            inbox.put(notice)

    def _hear(self, payload: str | None) -> None:
        told = heard(payload, self._origin) if payload is not None else []
        for inbox in self._inboxes:
            if payload is None:
                inbox.miss()
            for notice in told:
                inbox.put(notice)

    async def notices(self) -> AsyncIterator[Notice]:
        """What other hosts commit: as notifications tell it, and every `POLL_S` seconds as the feed does."""
        inbox = Inbox()
        self._inboxes.add(inbox)
        try:
            position: str | None = None
            while not self._closing.is_set():
                if inbox.missed:
                    position = await self._look_for_missed(inbox, position)
                for notice in inbox.take():
                    yield notice
                if not self._closing.is_set():
                    await self._wait(inbox)
        finally:
            self._inboxes.discard(inbox)

    async def _look_for_missed(self, inbox: Inbox, position: str | None) -> str | None:
        """Read what the feed holds after a position, at first its end; where to go on from."""
        try:
            found, end = await self._look(lambda: own.moved(position))
        except StoreUnavailable:  # the next look makes it good
            return position
        inbox.missed = False
        for notice in found:
            if not self._known.has(notice):
                inbox.put(notice)
        return end

    async def _wait(self, inbox: Inbox) -> None:
        """Wait until there is something to tell, a look is due, or the store is closed."""
        try:
            async with asyncio.timeout(POLL_S):
                await inbox.ready.wait()
        except TimeoutError:
            inbox.missed = True

    # Its end

    async def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        for inbox in self._inboxes:
            inbox.ready.set()
        await self._tasks.close()
        await self._standing.close()
        try:
            async with asyncio.timeout(min(self._timeout_s, 5.0)):
                await self._pool.close()
        except FAULTS:
            self._pool.terminate()
