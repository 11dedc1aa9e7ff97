"""The one connection that a store keeps for as long as it lives: its advisory locks are the claims, and it listens."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from antiphon.store.postgres import own
from antiphon.store.postgres.driver import Connection
from antiphon.store.postgres.faults import FAULTS

_log = logging.getLogger("antiphon.store")

PING_S = 5.0
"""So often the connection is tried; a server that vanished silently is noticed after this and the ping's deadline."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Between attempts to connect anew."""


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
    ) -> None:
        """For the store.

        Args:
            connect: Makes a connection.
            schema: The schema's name, which is the channel's too and part of every lock's.
            hear: Told each notification's payload; None when some may have been missed.
        """
        self._connect = connect
        self._schema = schema
        self._hear = hear
        self._connection: Connection | None = None
        self._claims: dict[str, int] = {}
        self._use = asyncio.Lock()
        self._lost = asyncio.Event()

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
            self._claims[session_id] = fence
            return fence

    async def release(self, session_id: str, fence: int) -> None:
        """See `Store.release`.

        Raises:
            FAULTS: The server, or the way to it; then the claim is gone with the connection, or taken up with the next.
        """
        async with self._use, self._certain():
            connection = await self._open()
            if self._claims.get(session_id) == fence:
                await connection.execute(own.DISOWN, session_id, fence)
                await connection.execute(own.UNLOCK, self._name(session_id))
                del self._claims[session_id]

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
            for session_id, fence in list(self._claims.items()):
                locked = await connection.fetchval(own.TRY_LOCK, self._name(session_id))
                newest = await connection.fetchval(own.FENCE, session_id)
                if not locked or newest not in {None, fence}:
                    del self._claims[session_id]
                    if locked:
                        await connection.execute(own.UNLOCK, self._name(session_id))
        except BaseException:  # cancelled, too: nobody else would close it
            connection.terminate()
            raise
        self._connection = connection
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
