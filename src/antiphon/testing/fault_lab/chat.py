"""An endpoint of Chat Completions that misbehaves in ways that a real one does not on demand.

    async with FaultyEndpoint() as endpoint:
        endpoint.answers += [Answer(pieces=(text("hel"), b"data: {nonsense"), end="cut"), good("hello")]
        ...  # point the agent to endpoint.url

Each request gets the next answer; when none is left, the last one again. What was asked is in `requests`.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

DONE = b"data: [DONE]\n\n"


def event(document: Any) -> bytes:
    """A document as a server-sent event."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """A piece of an answer."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def text(words: str) -> bytes:
    """A piece of text."""
    return chunk({"content": words})


def call(name: str, arguments: str, call_id: str = "call_1") -> bytes:
    """A call of a tool, with its arguments as the model wrote them."""
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a request gets.

    Attributes:
        status, headers: The head.
        pieces: The body, each piece in a write of its own.
        end: The body is complete (`done`), the connection breaks in the middle (`cut`), or nothing comes any more and
            the connection stays (`stall`).
        chunked: Whether the body has its end marked, so that one which is cut can be told.
    """

    status: int = 200
    headers: dict[str, str] = {}
    pieces: tuple[bytes, ...] = ()
    end: Literal["done", "cut", "stall"] = "done"
    chunked: bool = True


def good(words: str) -> Answer:
    """An answer as it should be."""
    return Answer(pieces=(text(words), chunk({}, "stop"), DONE))


class FaultyEndpoint:
    """Listens on 127.0.0.1. Use it as an async context manager."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self._taken = 0
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base URL for a client of OpenAI's."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def asked(self, count: int) -> None:
        """Wait until there have been so many requests. The caller bounds the wait."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._take(reader)
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _take(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(fields["content-length"]))
        self.headers.append(head)
        self.requests.append(msgspec.json.decode(body))
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = self.answers[min(self._taken, len(self.answers) - 1)]
        self._taken += 1
        fixed = {"content-type": "text/event-stream", "connection": "close"}
        fixed |= {"transfer-encoding": "chunked"} if answer.chunked else {}
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{k}: {v}" for k, v in (fixed | answer.headers).items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        pieces = deque(answer.pieces)
        while pieces:
            piece = pieces.popleft()
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.chunked else piece)
            await writer.drain()
            await asyncio.sleep(0)
        if answer.end == "stall":
            await reader.read()
        elif answer.end == "cut":
            writer.transport.abort()
        elif answer.chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
