"""The one connection that a store keeps for as long as it lives: its advisory locks are the claims, and it listens."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.peers import LEASE_S, Bulletin
from antiphon.store.postgres import peers
from antiphon.store.postgres.claims import Asked, Claims
from antiphon.store.postgres.driver import Connection
from antiphon.store.postgres.faults import FAULTS, is_passing

_log = logging.getLogger("antiphon.store")
T = TypeVar("T")

TIMEOUT_S = 0.8 * LEASE_S
"""A statement on this connection waits for nobody. One that takes so long is held up by the network, or by a server
that does not come to it: the host must know before the others, who give it `LEASE_S`, take its claims."""
PING_S = 2.5
"""So often the connection is tried when nobody uses it."""
BUSY_S = 0.01
"""After so long a row that somebody else was writing is tried again."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Between attempts to connect anew. The longest, and the time to connect, fit into `SETTLING_S`."""
END_S = 2.0
"""So long is waited for the end of an older connection of this store."""

_END_OLDER = """
SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity
WHERE application_name = $1 AND pid <> pg_backend_pid()"""
_READ_ONLY = "SELECT current_setting('transaction_read_only')::boolean"
_LOCK = "SELECT pg_advisory_lock(hashtextextended($1, 0))"


class Errand(NamedTuple):
    """Something to be done on the connection, and who waits for it."""

    do: Callable[[Connection], Awaitable[None]]
    done: "asyncio.Future[None]"


class Standing:
    """Keeps a connection up, and the claims on it.

    One task, `keep`, uses the connection. Callers only wait for what it does for them, so none of them can cut a
    statement short and leave it open which locks there are. What is asked for while a statement runs is gathered, and
    done together. What is done for a caller who has gone is undone.

    When the connection is lost the claims are gone in that instant, for everybody: another host may take a session
    over. On the next connection those that nobody has taken are taken up again; what was taken meanwhile is noticed by
    its fence.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        schema: str,
        name: str,
        *,
        hear: Callable[[str | None], None],
        moved: Callable[[], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        """For the store.

        Args:
            connect: Makes a connection.
            schema: The schema's name, which is the channel's too and part of every lock's.
            name: The connection's own name at the server, which no other store's has.
            hear: Told each notification's payload; None when some may have been missed.
            moved: Told when the connection had to be made anew: the server may be another one now.
            monotonic: Seconds that never go back.
        """
        self._connect = connect
        self._schema = schema
        self._name = name
        self._hear = hear
        self._moved = moved
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._claims = Claims(schema)
        self._asked: list[Asked] = []
        self._freed: list[asyncio.Future[None]] = []
        self._errands: deque[Errand] = deque()
        self._hosts: dict[str, float] = {}
        self._unheard: set[str] = set()
        self._stir = asyncio.Event()
        self._opened = False
        self._doubtful = False
        self._came_back: float | None = None

    # What callers ask for

    async def claim(self, session_id: str, host: str) -> int | None:
        """See `Store.claim`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        asked = Asked(session_id, host, _future())
        self._asked.append(asked)
        self._stir.set()
        try:
            return await asked.outcome
        except asyncio.CancelledError:
            self._take_back(asked)
            raise

    def _take_back(self, asked: Asked) -> None:
        """Give up what was won for a caller who went away before he could hear of it."""
        outcome = asked.outcome
        if outcome.done() and not outcome.cancelled() and outcome.exception() is None:
            fence = outcome.result()
            if fence is not None and self._claims.give_up(asked.session_id, fence):
                self._stir.set()

    async def release(self, session_id: str, fence: int) -> None:
        """See `Store.release`. While the server is away it is as good as done: nothing is held there."""
        if self._claims.give_up(session_id, fence):
            freed: asyncio.Future[None] = _future()
            self._freed.append(freed)
            self._stir.set()
            await freed

    def owner(self, session_id: str, fence: int | None) -> str | None:
        """Which host it is that makes a session under this claim."""
        return self._claims.owner(session_id, fence)

    @property
    def steady_s(self) -> float:
        """For how long the connection has been there, and its hosts have announced themselves, without a break."""
        return self._monotonic() - self._came_back if self._came_back is not None else float("inf")

    def announces(self, host: str) -> bool:
        """Whether this host has announced itself by this connection."""
        return host in self._hosts

    def is_lost(self, session_id: str, fence: int) -> bool:
        """Whether this claim is known to be another host's by now, or nobody's."""
        return self._claims.is_lost(session_id, fence)

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        """See `Peers.announce`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        await self._send(partial(self._announce, host, bulletin))

    async def leave(self, host: str) -> None:
        """See `Peers.leave`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        await self._send(partial(self._leave, host))

    async def _send(self, do: Callable[[Connection], Awaitable[None]]) -> None:
        done: asyncio.Future[None] = _future()
        self._errands.append(Errand(do, done))
        self._stir.set()
        await done

    async def _announce(self, host: str, bulletin: Bulletin, connection: Connection) -> None:
        now = self._monotonic()
        if host not in self._hosts:
            await connection.execute(_LOCK, peers.lock_prefix(self._schema) + host)
        self._hosts[host] = now
        self._unheard.discard(host)
        if await connection.fetchval(peers.ANNOUNCE, *peers.announcement(host, bulletin)):
            self._came_back = now  # it was paused, or the server's clock leapt: so, perhaps, were all others

    async def _leave(self, host: str, connection: Connection) -> None:
        self._hosts.pop(host, None)
        await self._claims.free_all(connection, host)

    # The one task

    async def keep(self) -> None:
        """Keep the connection up, and do on it what is asked for, until cancelled."""
        attempt = 0
        while True:
            self._stir.clear()
            try:
                connection = await self._open()
                attempt = 0
                await self._serve(connection)
            except FAULTS as error:
                self._drop()
                self._log_loss(attempt, type(error).__name__)
                await self._pause(PAUSES_S[min(attempt, len(PAUSES_S) - 1)], error)
                attempt += 1
            else:
                self._log_loss(attempt, "closed")
                await asyncio.sleep(BUSY_S)

    @staticmethod
    def _log_loss(attempt: int, error: str) -> None:
        if attempt == 0:
            extra = {"action": "reconnect", "error": error}
            _log.warning("The standing connection to the database was lost", extra=extra)

    async def _pause(self, seconds: float, error: BaseException) -> None:
        """Wait before the next attempt, which comes early when somebody asks for something."""
        self._refuse(error)
        await asyncio.sleep(PAUSES_S[0])
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stir.wait()

    def _refuse(self, error: BaseException) -> None:
        """Tell all who wait that it did not work."""
        asked, self._asked = self._asked, []
        errands, self._errands = self._errands, deque[Errand]()
        waiting: list[asyncio.Future[Any]] = [*(one.outcome for one in asked), *(errand.done for errand in errands)]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        self._tell_freed()

    def _tell_freed(self) -> None:
        freed, self._freed = self._freed, []
        for future in freed:
            if not future.done():
                future.set_result(None)

    async def _serve(self, connection: Connection) -> None:
        """Do what is asked for, until the connection is lost."""
        while not connection.is_closed():
            self._stir.clear()
            if self._doubtful:
                await self._look(connection)
            again = await self._round(connection)
            try:
                async with asyncio.timeout(BUSY_S if again else PING_S):
                    await self._stir.wait()
            except TimeoutError:
                if not again:
                    await self._look(connection)

    async def _round(self, connection: Connection) -> bool:
        """Do all that is asked for; whether something of it has to be tried again soon."""
        while self._errands:
            await self._run(connection, self._errands[0])
            self._errands.popleft()
        left = await self._claims.free(connection, self._asked)
        if not left:
            self._tell_freed()
        stale = await self._claims.sweep(connection)
        if self._asked:
            await self._claims.claim(connection, self._asked)
            self._asked = [one for one in self._asked if not one.outcome.done()]
            left = await self._claims.free(connection, self._asked)
        return left or stale or bool(self._asked)

    @staticmethod
    async def _run(connection: Connection, errand: Errand) -> None:
        if errand.done.done():
            return
        try:
            await errand.do(connection)
        except FAULTS as error:
            if not is_passing(error):
                raise
            if not errand.done.done():
                errand.done.set_exception(error)
        else:
            if not errand.done.done():
                errand.done.set_result(None)

    async def _open(self) -> Connection:
        """A connection with all that the last one had, except what others have taken meanwhile."""
        connection = await self._connect()
        try:
            connection.add_termination_listener(self._on_loss)
            await connection.add_listener(self._schema, self._on_notification)
            if self._opened:
                await connection.fetch(_END_OLDER, self._name, int(END_S * 1000))
            self._forget_silent()
            await connection.execute(peers.IS_BACK, list(self._hosts))
            for host in self._hosts:
                await connection.execute(_LOCK, peers.lock_prefix(self._schema) + host)
            await self._claims.take_up(connection)
        except BaseException:  # cancelled, too: nobody else would close it
            connection.terminate()
            raise
        self._connection = connection
        if self._opened:
            self._came_back = self._monotonic()
            await self._moved()
        self._opened = True
        self._hear(None)
        return connection

    def _forget_silent(self) -> None:
        """Drop the claims of a host that does not announce itself any more.

        One that was frozen has its connection ended, too, and shall have what it can still get when it wakes. Only when
        it has not spoken until the connection is ended once more does it not live.
        """
        silent = {host for host, at in self._hosts.items() if self._monotonic() - at > LEASE_S}
        for host in silent & self._unheard:
            del self._hosts[host]
            self._claims.forget(host)
        self._unheard |= silent

    async def close(self) -> None:
        """Let go of the connection, and with it of every claim. `keep` has been cancelled before."""
        connection, self._connection = self._connection, None
        self._refuse(StoreUnavailable("The store is closed."))
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2)
            except FAULTS:
                connection.terminate()

    def _on_loss(self, _connection: Connection) -> None:
        self._stir.set()

    def _on_notification(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        self._hear(payload)

    def doubt(self) -> None:
        """Have it looked whether this server still takes writes: another connection's does not."""
        self._doubtful = True
        self._stir.set()

    async def _look(self, connection: Connection) -> None:
        self._doubtful = False
        if await connection.fetchval(_READ_ONLY):
            raise asyncpg.ReadOnlySQLTransactionError("the server has become a standby")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()
