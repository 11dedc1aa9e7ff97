"""What goes through the HTTP door, counted and logged: method, route template, status, time; no path, query or body."""

import asyncio
import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.telemetry.metrics import Metrics

log = logging.getLogger("antiphon.http.access")


class Watch:
    """ASGI middleware that measures until an answer begins: streams and long bodies go on after it."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and take note of its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = dict(scope)  # the server reads its own; what is changed and noted for routing is ours
        loop = asyncio.get_running_loop()
        began = loop.time()
        noted = False

        async def noting(message: Message) -> None:
            nonlocal noted
            if not noted and message["type"] == "http.response.start":
                noted = True
                self._note(scope, message["status"], loop.time() - began)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if not noted:
                self._note(scope, 500, loop.time() - began)
            raise

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method: str = scope["method"]
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.answered(method, route, status, seconds)
        if log.isEnabledFor(logging.INFO):
            fields = {"method": method, "route": route, "status": status, "duration_ms": round(seconds * 1000, 3)}
            log.info("request answered", extra={"action": "http_request", **fields})
