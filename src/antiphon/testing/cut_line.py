"""A TCP line that can be cut at exactly the wrong moment: between a server's doing and its client's hearing of it."""

import asyncio
from typing import Self


class CutLine:
    """Relays connections on loopback to a server. Use it as an async context manager.

    Attributes:
        port: Where it listens.
        deaf: While set, what the server says is swallowed, and what the client says still arrives.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self.port = 0
        self.deaf = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._relays:
            await asyncio.wait(self._relays)

    def cut(self) -> None:
        """Cut every connection, both ways."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None, "a server serves each connection in a task"
        self._relays.add(relay)
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._writers |= {writer, far_writer}
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, swallow=False))
                group.create_task(self._pump(far_reader, writer, swallow=True))
        except* OSError:
            pass
        finally:
            self._relays.discard(relay)
            for end in (writer, far_writer):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, swallow: bool) -> None:
        while data := await reader.read(65536):
            if not (swallow and self.deaf):
                writer.write(data)
                await writer.drain()
        writer.close()
