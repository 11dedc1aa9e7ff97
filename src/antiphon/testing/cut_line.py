"""A TCP line that can be cut at exactly the wrong moment: between a server's doing and its client's hearing of it."""

import asyncio
from typing import Self


class CutLine:
    """Relays connections on loopback to a server. Use it as an async context manager.

    Attributes:
        port: Where it listens, also after it was closed and opened again.
        deaf: While set, what the server says is swallowed, and what the client says still arrives.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._free = asyncio.Event()
        self._free.set()
        self.port = 0
        self.deaf = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.shut()
        self.let_go()
        if self._relays:
            await asyncio.wait(self._relays)

    async def open(self) -> None:
        """Take connections, at the first time on a free port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Cut every connection, and refuse new ones until it is opened: as when nothing listens there."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection, both ways."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def hold(self) -> None:
        """Keep back everything that is said, both ways, and also new connections: as when a network is gone silently.

        Nobody is told; what is said meanwhile arrives late, once it is let go, or never, if it is cut before.
        """
        self._free.clear()

    def let_go(self) -> None:
        """Let everything go on, first what was held."""
        self._free.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None, "a server serves each connection in a task"
        self._relays.add(relay)
        self._writers.add(writer)
        far_writer: asyncio.StreamWriter | None = None
        try:
            await self._free.wait()
            if writer.transport.is_closing():
                return
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._writers.add(far_writer)
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
            await self._free.wait()
            if writer.transport.is_closing():
                return
            if not (swallow and self.deaf):
                writer.write(data)
                await writer.drain()
        await self._free.wait()
        writer.close()
