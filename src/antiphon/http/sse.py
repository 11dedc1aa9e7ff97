"""Server-sent events (WHATWG HTML, section 9.2): streams that go on where they ended; no dead viewer holds them up."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.core.errors import AntiphonError, Unauthorized
from antiphon.host.sharing import Shared
from antiphon.host.views import EventView, Receipt
from antiphon.http import problems
from antiphon.http.answers import encode
from antiphon.http.call import PRINCIPAL
from antiphon.http.edge import Edge, Principal
from antiphon.http.presence import Left, while_present

log = logging.getLogger("antiphon.http.streams")

MEDIA_TYPE = "text/event-stream"
FIRST = b"retry: 2000\n\n"
HEARTBEAT = b": still here\n\n"
FAREWELL_S = 1.0
SHARED_MAX = 8192
ABORT = "antiphon.abort"
"""Where the server leaves, in a request's state, what cuts its connection without waiting for the other side."""


def frame(event: EventView, cursor: str | None = None) -> bytes:
    """An event on the wire. `id` is its cursor, or the feed's; `gap` and `snapshot` have none."""
    place = event.cursor if cursor is None else cursor
    head = f"id: {place}\nevent: {event.type}\n" if place else f"event: {event.type}\n"
    return b"%sdata: %s\n\n" % (head.encode(), encode(event))


_own_frame = Shared(frame, keeps=lambda made: len(made) <= SHARED_MAX)
"""A frame under the event's own cursor, made once for all streams that are told the same event."""


def receipt_frame(receipt: Receipt) -> bytes:
    """The end of a message's stream."""
    return b"event: receipt\ndata: %s\n\n" % encode(receipt)


def problem_frame(error: AntiphonError) -> bytes:
    """Why a stream ends before its time."""
    return b"event: problem\ndata: %s\n\n" % encode(problems.document(error))


async def frames(events: AsyncIterator[EventView | Receipt | tuple[str, EventView]]) -> AsyncGenerator[bytes]:
    """What a service tells, as frames: events, the feed's events with their own cursor, or a receipt."""
    async with _closing(events):
        async for told in events:
            match told:
                case EventView():
                    yield _own_frame(told)
                case Receipt():
                    yield receipt_frame(told)
                case (cursor, event):
                    yield frame(event, cursor)


@contextlib.asynccontextmanager
async def _closing(events: AsyncIterator[object]) -> AsyncGenerator[None]:
    """End a generator when its reader ends, not when it is collected."""
    try:
        yield
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


class Outbox:
    """Frames on their way to one viewer. No more are taken while `limit` bytes wait, so its memory is bounded."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._frames: list[bytes] = []
        self._size = 0
        self._ended = False
        self._filled, self._room = asyncio.Event(), asyncio.Event()

    async def put(self, piece: bytes) -> None:
        """Add a frame; waits while there is no room. However long a frame is, it has room in an empty box."""
        while self._size >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._frames.append(piece)
        self._size += len(piece)
        self._filled.set()

    def end(self) -> None:
        """No more frames will come."""
        self._ended = True
        self._filled.set()

    async def take(self) -> bytes:
        """All that waits, at least one frame; nothing once all has been taken and no more will come."""
        await self._filled.wait()
        taken = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._room.set()
        if not self._ended:
            self._filled.clear()
        return taken


class EventStream(Response):
    """An answer that goes on until its events end, its viewer leaves, may not or does not read, or the door closes."""

    def __init__(
        self,
        events: AsyncIterator[EventView | Receipt | tuple[str, EventView]],
        edge: Edge,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Stream what a service tells. An error of the tree that it raises is told as a last event, `problem`."""
        super().__init__(headers={"cache-control": "no-store", **(headers or {})}, media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._frames, self._edge = frames(events), edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await while_present(self._stream(send, scope[PRINCIPAL]), scope, receive, self._edge.closing)
            await self._send(send, b"", FAREWELL_S, more=False)
        except Left:
            pass
        except _NotReading:
            log.warning("a viewer is cut off, as it reads nothing", extra={"action": "viewer_cut"})
            await _cut(scope, receive)

    async def _stream(self, send: Send, viewer: Principal) -> None:
        """Read and send side by side. Whatever ends one ends the other."""
        outbox = Outbox(self._edge.limits.viewer)
        filling = asyncio.get_running_loop().create_task(self._fill(outbox))
        try:
            await self._drain(outbox, send, viewer)
        finally:
            filling.cancel()
            await asyncio.wait({filling})
        if not filling.cancelled():
            filling.result()

    async def _fill(self, outbox: Outbox) -> None:
        """Read the events. They are read no faster than the viewer reads, so a slow one costs no memory."""
        try:
            async with contextlib.aclosing(self._frames) as pieces:
                async for piece in pieces:
                    await outbox.put(piece)
        except AntiphonError as error:
            await outbox.put(problem_frame(error))
        finally:
            outbox.end()

    async def _drain(self, outbox: Outbox, send: Send, viewer: Principal) -> None:
        """Send what was read, and a sign of life after every silence, until there is no more or its token is gone."""
        limits, piece = self._edge.limits, FIRST
        while piece:
            await self._send(send, piece, limits.send_s, more=True)
            try:
                async with asyncio.timeout(limits.heartbeat_s):
                    piece = await outbox.take()
            except TimeoutError:
                piece = HEARTBEAT
            if piece and viewer.token_id and not self._edge.tokens.holds(viewer.token_id):
                last = problem_frame(Unauthorized("The token that this stream was opened with was revoked."))
                await self._send(send, last, limits.send_s, more=True)
                return

    @staticmethod
    async def _send(send: Send, piece: bytes, seconds: float, *, more: bool) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        except TimeoutError:
            raise _NotReading from None


async def _cut(scope: Scope, receive: Receive) -> None:
    """Cut the connection: an orderly end would wait for the viewer, which no longer reads."""
    abort: Callable[[], None] | None = scope.get("state", {}).get(ABORT)
    if abort:
        abort()
        async with asyncio.timeout(FAREWELL_S):
            while (await receive())["type"] != "http.disconnect":
                pass


class _NotReading(Exception):
    """The viewer has not read for so long that its connection is cut; its cursor lets it come back."""
