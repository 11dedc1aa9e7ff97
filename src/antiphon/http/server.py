"""The server: uvicorn on a socket that is bound already, started and ended by the program that owns it."""

import asyncio
import contextlib
import socket

import uvicorn

from antiphon.http.app import App
from antiphon.http.protocol import Protocol

AFTER_GRACE_S = 1.0
OVERDUE_S = 5.0


class Server:
    """Serves an app.

    Run `serve` in a task, wait for `started`, then tell the world the address. To end, `await stop(grace_s)`, then
    await the task. Signals are the owner's business.
    """

    def __init__(self, app: App) -> None:
        self._edge = app.edge
        protocol = type("BoundProtocol", (Protocol,), {"limits": self._edge.limits})
        self._config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            loop="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("x-content-type-options", "nosniff")],
            timeout_keep_alive=round(self._edge.limits.idle_s),
        )
        self._uvicorn = _Uvicorn(self._config)
        self._ended = asyncio.Event()

    async def started(self) -> None:
        """Wait until connections are accepted."""
        await self._uvicorn.accepting.wait()

    async def serve(self, sock: socket.socket) -> None:
        """Serve on a bound socket until `stop`, or until this is cancelled. The socket is closed at the end."""
        try:
            await self._uvicorn.serve(sockets=[sock])
        finally:
            await self._leave_nothing()
            self._ended.set()

    async def stop(self, grace_s: float) -> None:
        """End.

        No connection is accepted from here on, streams end, and whoever waits is told how things stand. Requests in
        flight have `grace_s` to be answered, then they are cut off. Returns once `serve` has ended.

        Raises:
            TimeoutError: It has not ended a few seconds after that, or was never begun.
        """
        self._edge.closing.happen()
        self._config.timeout_graceful_shutdown = grace_s  # pyright: ignore[reportAttributeAccessIssue]  # any number
        self._uvicorn.should_exit = True
        async with asyncio.timeout(grace_s + OVERDUE_S):
            await self._ended.wait()

    async def _leave_nothing(self) -> None:
        """Close what a cancelled or overlong end left open."""
        state = self._uvicorn.server_state
        for server in self._uvicorn.listening:
            server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            for task in state.tasks:
                task.cancel()
            await asyncio.wait(state.tasks, timeout=AFTER_GRACE_S)


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, without signal handlers of its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    @property
    def listening(self) -> list[asyncio.Server]:
        """The sockets that are listened on, once there are any."""
        return getattr(self, "servers", [])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()
