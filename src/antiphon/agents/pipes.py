"""The host's ends of an agent's pipes: non-blocking, bounded, and the same on asyncio and uvloop.

They are built on `loop.add_reader` and `loop.add_writer` instead of transports: a read happens only when somebody asks
for it (which is the backpressure), nothing has to be awaited to come into being, and cancelling a read loses no byte.
"""

import asyncio
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

CHUNK = 1 << 18
HEAD = 1 << 10
REDACTED = b"[redacted]"
SECRET_MAX = 4 << 10
"""Bytes of the longest thing that is looked at as a secret."""
LOOKS_SECRET = rb"""(?x: \b (?: sk-|sk_|rk_|xox[a-z]-|gh[a-z]_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|ya29\.|npm_|pypi- )
      [\w.\-]{12,2000}
  | \b eyJ[\w\-]{8,2000} \. [\w\-]{8,2000} (?: \. [\w\-]{0,1000} )?
  | -----BEGIN\ [A-Z\ ]{0,30}PRIVATE\ KEY----- [^-]{0,4000} (?: -----END )?
  | (?P<before> :// | (?i: \b (?: bearer | basic ) \s+ )
      | (?i: (?: token | secret | passw(?:or)?d | api[\-_]?key ) ["']? \s{0,3} [=:] \s{0,3} ["']? ) )
    (?: (?<=://) [^\s/:@]{1,200} : [^\s/@]{1,500} (?=@) | (?<!://) [\w+/.=~\-]{8,4000} ) )"""
"""Well-known forms of keys; user:password in an address; what follows a word that announces a secret, `before`."""


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line over the limit. Only its beginning was kept, so that a reader can tell what it was about.

    Attributes:
        size: Its length in bytes, without the line end.
        head: Its first bytes, at most 1 KiB.
    """

    size: int
    head: bytes


class PipeReader:
    """Reads a pipe on demand. One task reads; `finish` may be called at any time."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._rest: deque[bytes] = deque()
        self._ready: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """Some bytes as soon as there are any; `b""` at the end of the file, and ever after."""
        await asyncio.sleep(0)  # a pipe that is always full must not starve the loop
        while True:
            if self._rest:
                return self._rest.popleft()
            if self._fd < 0:
                return b""
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                await self._readable()
                continue
            if not data:
                self._close()
            return data

    async def _readable(self) -> None:
        ready = self._ready = self._loop.create_future()
        self._loop.add_reader(self._fd, _settle, ready)
        try:
            await ready
        finally:
            self._ready = None
            if self._fd >= 0:
                self._loop.remove_reader(self._fd)

    def finish(self) -> None:
        """Take in what is still in the pipe and close it: nobody is left who could write to it."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                data = b""
            if data:
                self._rest.append(data)
            else:
                self._close()

    def _close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self._ready:
            _settle(self._ready)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def framed(reader: PipeReader, limit: int) -> AsyncIterator[bytes | Overlong]:
    r"""The lines of a pipe, framed on the byte `\n` and nothing else, without it. The last one may lack its end.

    A line over `limit` bytes comes as `Overlong`; what follows it is read as usual. Holds at most about `limit` bytes.
    """
    held = bytearray()
    size = 0
    while data := await reader.read():
        *ends, rest = data.split(b"\n")
        for end in ends:
            size += len(end)
            yield Overlong(size, bytes(held[:HEAD] + end[:HEAD])[:HEAD]) if size > limit else bytes(held) + end
            held.clear()
            size = 0
        size += len(rest)
        held += rest if size <= limit else rest[:HEAD]
        if size > limit:
            del held[HEAD:]
    if size:
        yield Overlong(size, bytes(held)) if size > limit else bytes(held)


class PipeWriter:
    """Writes to a pipe without ever waiting: what does not fit is kept, up to `limit` bytes, and sent later."""

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._limit = limit
        self._kept: deque[memoryview] = deque()
        self._size = 0
        self._ending = False

    def write(self, data: bytes) -> bool:
        """Send all of `data` or nothing of it: false when nobody reads any more, or when too much waits already."""
        if self._fd < 0 or self._ending or (self._size and self._size + len(data) > self._limit):
            return False
        self._kept.append(memoryview(data))
        self._size += len(data)
        if len(self._kept) == 1:
            self._send()
        return self._fd >= 0

    def end(self) -> None:
        """Close the pipe once everything was sent, so that the reader sees the end of the file."""
        self._ending = True
        if not self._kept:
            self.close()

    def close(self) -> None:
        """Close the pipe now; what was not sent is lost."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._kept.clear()
            self._size = 0

    def _send(self) -> None:
        try:
            while self._kept:
                sent = os.write(self._fd, self._kept[0])
                self._size -= sent
                self._kept[0] = self._kept[0][sent:]
                if not self._kept[0]:
                    self._kept.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._send)
            return
        except OSError:  # the reader is gone; its end is told elsewhere
            self.close()
            return
        self._loop.remove_writer(self._fd)
        if self._ending:
            self.close()


class PipeSink:
    """Always takes in whatever comes out of a pipe and hands it to `took`; at the end of the file it calls `ended`."""

    def __init__(self, fd: int, took: Callable[[bytes], None], ended: Callable[[], None] | None = None) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._took, self._ended = took, ended
        self._loop.add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._took(data)
            return
        self._close()
        if self._ended:
            self._ended()

    def finish(self) -> None:
        """Take in what is still there and close, without calling `ended`."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                data = b""
            if data:
                self._took(data)
            else:
                self._close()

    def _close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1


class Tail:
    """The last bytes of a stream, with every secret in them replaced: those that are named, and what looks like one."""

    def __init__(self, limit: int, secrets: Iterable[bytes] = ()) -> None:
        self._limit = limit
        secrets = [*secrets]
        self._secret = re.compile(b"|".join([*map(re.escape, secrets), LOOKS_SECRET]))
        self._margin = max(SECRET_MAX, *map(len, secrets), 0)
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in more of the stream. So much is held beyond the limit that a secret at the edge is still whole."""
        self._held += data
        keep = self._limit + self._margin
        if len(self._held) > 2 * keep:
            del self._held[:-keep]

    def text(self) -> str:
        """What is left of it, decoded as UTF-8 with replacements. A secret that was cut in two is not shown either."""
        held = bytes(self._held)
        skip = max(0, len(held) - self._limit)
        pieces: list[bytes] = []
        for found in self._secret.finditer(held):
            start = max(found.start(), found.end("before"))
            if found.end() > skip:
                pieces += [held[skip : max(skip, start)], REDACTED]
                skip = found.end()
        return b"".join([*pieces, held[skip:]]).decode(errors="replace")
