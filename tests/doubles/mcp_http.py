"""An MCP server for tests that speaks streamable HTTP, with plain JSON answers. Protocol: MCP 2025-06-18."""

import asyncio
from types import TracebackType
from typing import Any, Self

import msgspec

from doubles.mcp_lab import answer


class HttpLab:
    """The tools of `mcp_lab` on 127.0.0.1. Use it as an async context manager; `keys` are those that it was shown."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        self.keys.add(fields.get("authorization", ""))
        status, document = self._answer(head.split(" ", 1)[0], body)
        told = b"" if document is None else msgspec.json.encode(document)
        kind = "application/json"
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(told)}\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n" + told)
        await writer.drain()
        writer.close()

    @staticmethod
    def _answer(method: str, body: bytes) -> tuple[int, Any]:
        if method != "POST":
            return 405, None
        request = msgspec.json.decode(body)
        if "id" not in request:
            return 202, None
        return 200, {"jsonrpc": "2.0", "id": request["id"], **answer(request)}
