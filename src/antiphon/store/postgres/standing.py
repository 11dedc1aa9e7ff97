"""The one connection that a store keeps for as long as it lives: its advisory locks are the claims, and it listens."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from antiphon.ports.peers import LEASE_S, Bulletin
from antiphon.store.postgres import own, peers
from antiphon.store.postgres.driver import Connection
from antiphon.store.postgres.faults import FAULTS

_log = logging.getLogger("antiphon.store")

PING_S = 5.0
"""So often the connection is tried; a server that vanished silently is noticed after this and the ping's deadline."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Between attempts to connect anew."""


class Claim(NamedTuple):
    """Under which fence a host owns a session."""

    fence: int
    host: str


class Standing:
    """Keeps a connection up, and the claims on it.

    When it is lost the claims are gone in that instant, for everybody: another host may take a session over. On the
    next connection those that nobody has taken are taken up again; what was taken meanwhile is noticed by its fence.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        schema: str,
        hear: Callable[[str | None], None],
        monotonic: Callable[[], float],
    ) -> None:
        """For the store.

        Args:
            connect: Makes a connection.
            schema: The schema's name, which is the channel's too and part of every lock's.
            hear: Told each notification's payload; None when some may have been missed.
            monotonic: Seconds that never go back.
        """
        self._connect = connect
        self._schema = schema
        self._hear = hear
        self._connection: Connection | None = None
        self._claims: dict[str, Claim] = {}
        self._use = asyncio.Lock()
        self._lost = asyncio.Event()
        self._monotonic = monotonic
        self._connected_before = False
        self._hosts: dict[str, float] = {}
        self.came_back: float | None = None

    async def claim(self, session_id: str, host: str) -> int | None:
        """See `Store.claim`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        async with self._use, self._certain():
            connection = await self._open()
            mine = session_id in self._claims
            if not mine and not await connection.fetchval(own.TRY_LOCK, self._name(session_id)):
                return None
            fence = await connection.fetchval(own.NEW_FENCE, session_id, host)
            self._claims[session_id] = Claim(fence, host)
            return fence

    async def release(self, session_id: str, fence: int) -> None:
        """See `Store.release`.

        Raises:
            FAULTS: The server, or the way to it; then the claim is gone with the connection, or taken up with the next.
        """
        async with self._use, self._certain():
            connection = await self._open()
            if self._held(session_id, fence):
                await connection.execute(own.DISOWN, session_id, fence)
                await connection.execute(own.UNLOCK, self._name(session_id))
                del self._claims[session_id]

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        """See `Peers.announce`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        async with self._use, self._certain():
            connection = await self._open()
            now = self._monotonic()
            if host not in self._hosts:
                await connection.execute(own.LOCK, peers.lock_prefix(self._schema) + host)
            elif now - self._hosts[host] > LEASE_S:  # it was paused, and perhaps all others with it
                self.came_back = now
            self._hosts[host] = now
            await connection.execute(peers.ANNOUNCE, *peers.announcement(host, bulletin))

    async def leave(self, host: str) -> None:
        """See `Peers.leave`.

        Raises:
            FAULTS: The server, or the way to it.
        """
        async with self._use, self._certain():
            connection = await self._open()
            self._claims.clear()
            self._hosts.pop(host, None)
            await connection.execute(own.DISOWN_ALL, host)
            await connection.execute(own.UNLOCK_ALL)

    def owner(self, session_id: str, fence: int | None) -> str | None:
        """Which host it is that makes a session under this claim."""
        return self._claims[session_id].host if self._held(session_id, fence) else None

    def _held(self, session_id: str, fence: int | None) -> bool:
        claim = self._claims.get(session_id)
        return claim is not None and claim.fence == fence

    @asynccontextmanager
    async def _certain(self) -> AsyncGenerator[None]:
        """Give the connection up when something on it was cut short: nobody knows then which locks it has."""
        try:
            yield
        except BaseException:
            self._drop()
            raise

    async def keep(self) -> None:
        """Keep the connection up until cancelled."""
        attempt = 0
        while True:
            try:
                async with self._use:
                    connection = await self._open()
                    await connection.execute("SELECT 1")
                attempt = 0
            except FAULTS as error:
                self._drop()
                if attempt == 0:
                    _log.warning(
                        "The standing connection to the database was lost",
                        extra={"action": "reconnect", "error": type(error).__name__},
                    )
                await asyncio.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
                attempt += 1
            else:
                await self._wait_for_loss()

    async def _wait_for_loss(self) -> None:
        """Wait until the connection is known to be lost, or a ping is due."""
        try:
            async with asyncio.timeout(PING_S):
                await self._lost.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Let go of the connection, and with it of every claim."""
        async with self._use:
            connection, self._connection = self._connection, None
            self._claims.clear()
            if connection is not None and not connection.is_closed():
                try:
                    await connection.close(timeout=2)
                except FAULTS:
                    connection.terminate()

    async def _open(self) -> Connection:
        """The connection, made anew when it is lost: then with the claims that can be taken up again."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._lost.clear()
        connection = await self._connect()
        connection.add_termination_listener(self._on_loss)
        try:
            await connection.add_listener(self._schema, self._on_notification)
            for host in self._hosts:
                await connection.execute(own.LOCK, peers.lock_prefix(self._schema) + host)
            for session_id, claim in list(self._claims.items()):
                locked = await connection.fetchval(own.TRY_LOCK, self._name(session_id))
                newest = await connection.fetchval(own.FENCE, session_id)
                if not locked or newest not in {None, claim.fence}:
                    del self._claims[session_id]
                    if locked:
                        await connection.execute(own.UNLOCK, self._name(session_id))
        except BaseException:  # cancelled, too: nobody else would close it
            connection.terminate()
            raise
        self._connection = connection
        if self._connected_before:
            self.came_back = self._monotonic()
        self._connected_before = True
        self._hear(None)
        return connection

    def _on_loss(self, _connection: Connection) -> None:
        self._lost.set()

    def _on_notification(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        self._hear(payload)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _name(self, session_id: str) -> str:
        return f"antiphon {self._schema} {session_id}"
