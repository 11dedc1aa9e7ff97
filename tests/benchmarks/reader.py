"""`python -m benchmarks.reader URL PATH TOKEN VIEWERS LAST`: viewers of one stream, and what each of them was told.

Prints `ready` once all are connected, `done` once each has been told an event whose line is `event: LAST` after a
`turn.started`, then a JSON object: how many events each was told, and the ids and texts of the first.
"""

import asyncio
import json
import re
import sys
from typing import cast
from urllib.parse import urlsplit

import uvloop

IDS = re.compile(rb"^id: (\S+)", re.MULTILINE)
TEXTS = re.compile(rb'^event: turn\.text\ndata: .*"text":"(.*?)"', re.MULTILINE)


class Viewer(asyncio.Protocol):
    """One connection. It keeps all that comes, and closes once it has been told the last event."""

    def __init__(self, head: bytes, last: bytes) -> None:
        self._head, self._last, self._tail = head, last, b""
        self.pieces: list[bytes] = []
        self.connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without being its child
        self._transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        if not self.connected.done():
            self.connected.set_result(None)
        self.pieces.append(data)
        seen, self._tail = self._tail + data, data[-len(self._last) :]
        if self._last in seen and not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.connected, self.done):
            if not future.done():
                future.set_exception(exc or ConnectionError("the stream ended before its last event"))

    def told(self) -> bytes:
        """What came, without what divides it into chunks (RFC 9112, section 7.1)."""
        return re.sub(rb"\r\n[0-9a-f]+\r\n", b"", b"".join(self.pieces))


async def watch(url: str, path: str, token: str, count: int, last: str) -> None:
    """Be `count` viewers."""
    place = urlsplit(url)
    head = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n"
    request = f"{head}Authorization: Bearer {token}\r\n\r\n".encode()
    loop, viewers = asyncio.get_running_loop(), list[Viewer]()
    for _ in range(count):
        _, viewer = await loop.create_connection(
            lambda: Viewer(request, f"event: {last}\n".encode()), place.hostname or "", place.port or 80
        )
        viewers.append(viewer)
    await asyncio.gather(*[viewer.connected for viewer in viewers])
    print("ready", flush=True)
    await asyncio.gather(*[viewer.done for viewer in viewers])
    print("done", flush=True)
    ids = [[int(place.rpartition(b":")[2]) for place in IDS.findall(viewer.told())] for viewer in viewers]
    texts = {b"".join(TEXTS.findall(viewer.told())) for viewer in viewers}
    orderly = all(each == list(range(each[0], each[0] + len(each))) for each in ids)
    print(json.dumps({"orderly": orderly, "texts": len(texts), "text": texts.pop().decode()}), flush=True)


if __name__ == "__main__":
    url, path, token, count, last = sys.argv[1:]
    uvloop.run(watch(url, path, token, int(count), last))
