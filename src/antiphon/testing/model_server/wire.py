"""HTTP/1.1 on one connection: h11 decides what the bytes mean, asyncio moves them."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import h11
import msgspec

from antiphon.testing.model_server.dialect import ServerEvent

Result = TypeVar("Result")

READ_SIZE = 65_536
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    529: "Overloaded",
}


class Request(msgspec.Struct, frozen=True):
    """A request, whole."""

    method: str
    path: str
    body: bytes


class Wire:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body_limit: int) -> None:
        self._reader = reader
        self._writer = writer
        self._body_limit = body_limit
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> Request | None:
        """The next request, or None when the client has hung up or this connection can serve no more.

        Raises:
            h11.RemoteProtocolError: This is not HTTP/1.1.
            ValueError: The body is over the limit.
        """
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(READ_SIZE))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._body_limit:
                    raise ValueError(f"The body is over {self._body_limit} bytes.")
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                path = head.target.decode("ascii").partition("?")[0]
                return Request(head.method.decode("ascii"), path, bytes(body))
            else:
                return None

    async def while_connected(self, answering: Coroutine[Any, Any, Result]) -> Result | None:
        """Run `answering` and return its result, or stop it and return None when the client hangs up first."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(answering)
            watch = group.create_task(self._hung_up())
            work.add_done_callback(lambda _: watch.cancel())
            watch.add_done_callback(lambda _: work.cancel())
        return None if work.cancelled() else work.result()

    async def send_json(self, status: int, document: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Answer with one JSON document."""
        body = msgspec.json.encode(document)
        fixed = (("Content-Type", "application/json"), ("Content-Length", str(len(body))))
        await self._send(self._response(status, (*fixed, *headers)))
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def begin_events(self) -> None:
        """Answer with a stream of events, which `send_events` fills and `end_events` ends."""
        headers = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"))
        await self._send(self._response(200, headers))

    async def send_events(self, events: Iterable[ServerEvent]) -> None:
        """Send some events."""
        for event in events:
            await self._send(h11.Data(data=event.encode()))

    async def end_events(self) -> None:
        """End the stream as it should end."""
        await self._send(h11.EndOfMessage())

    def break_off(self) -> None:
        """End the connection at once, in the middle of whatever was being said."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return  # The client was faster.

    async def _hung_up(self) -> None:
        """Return once the client closed its side. Bytes of a next request are kept for it."""
        try:
            while data := await self._reader.read(READ_SIZE):
                self._http.receive_data(data)
        except ConnectionError:
            return

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    def _response(self, status: int, headers: tuple[tuple[str, str], ...]) -> h11.Response:
        return h11.Response(status_code=status, headers=list(headers), reason=REASONS.get(status, "Scripted"))
