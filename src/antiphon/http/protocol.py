"""HTTP on a connection: uvicorn's protocol, with bounds on the head of a request, and refusals as problem documents."""

import asyncio
from http import HTTPStatus
from typing import cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from antiphon.core.errors import AntiphonError, InvalidRequest
from antiphon.http import problems
from antiphon.http.bodies import WHOLE
from antiphon.http.edge import Limits
from antiphon.http.presence import LEAVING, Ending
from antiphon.http.sse import ABORT


class TooManyConnections(AntiphonError):
    """There are as many connections as the limit allows."""

    code = "too_many_connections"


class HeadTooLarge(AntiphonError):
    """The request's line and headers are over the limit."""

    code = "head_too_large"


class Protocol(HttpToolsProtocol):
    """One connection. A server makes a subclass for itself, with its own `limits`."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many."""
        super().connection_made(transport)
        self._in_head, self._head_size = True, 0
        self._leaving = Ending()
        self._patience: asyncio.TimerHandle | None = None
        self._expect_head()
        if len(self.connections) > self.limits.connections:
            self._refuse(TooManyConnections("There are too many connections. Close some, then try again."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_came()
        super().connection_lost(exc)
        self._leaving.happen()

    def data_received(self, data: bytes) -> None:
        """Take what came. A head that does not end is refused before it fills the memory."""
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        if self._in_head and self._head_size > self.limits.head and not self.transport.is_closing():
            self._refuse(HeadTooLarge(f"The head of the request is over the limit of {self.limits.head} bytes."))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope.setdefault("state", {}).update({ABORT: self.transport.abort, LEAVING: self._leaving})
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._in_head = False
        self._head_came()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body is there; what follows is another head."""
        self._in_head, self._head_size = True, 0
        self.scope.setdefault("state", {})[WHOLE] = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(InvalidRequest(msg), HTTPStatus.BAD_REQUEST)

    def _expect_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.limits.head_s, self._head_is_late)

    def _head_came(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _head_is_late(self) -> None:
        self._patience = None
        detail = f"The head of the request did not arrive within {self.limits.head_s:g} s."
        self._refuse(problems.RequestTimeout(detail))

    def _answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None until the first request
        return cycle is not None and not cycle.response_complete

    def _refuse(self, error: AntiphonError, status: int | None = None) -> None:
        """Refuse and close; without a word where an answer to an earlier request is under way."""
        if not self._answering():
            self.transport.write(_refusal(error, status or problems.status_of(error)))
        self.transport.close()


def _refusal(error: AntiphonError, status: int) -> bytes:
    body = msgspec.json.encode(problems.document(error) | {"status": status})
    headers = {
        **problems.headers_of(error),
        "content-type": problems.MEDIA_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {told}" for name, told in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
