"""Server-sent events (HTML standard, section 9.2), of which only the data matters here. No I/O."""

import re
from collections.abc import Iterator

LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be the half of a line end."""


class TooLong(Exception):
    """An event is over the limit, of so many bytes."""


class Events:
    """The events of one stream. Feed it every chunk of bytes, then call `end`.

    Bytes that are not UTF-8 become U+FFFD; a character that is cut by the end of a chunk stays whole.

    Args:
        limit: Bytes of an event. More is held of none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        """The pieces of a line whose end has not come."""
        self._size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Take in bytes; the data of every event that they complete.

        Raises:
            TooLong: An event is over the limit.
        """
        if self._held and self._held[-1].endswith(b"\r"):
            chunk = self._held.pop() + chunk
            self._size = sum(map(len, self._held))
        *lines, rest = LINE_END.split(chunk)
        for line in lines:
            whole = b"".join([*self._held, line])
            self._held.clear()
            self._size = 0
            yield from self._take(whole)
        if rest:
            self._held.append(rest)
            self._size += len(rest)
        if self._size + self._data_size > self._limit:
            raise TooLong

    def end(self) -> None:
        """No more comes. What was not complete is dropped, as the standard says."""
        self._held.clear()
        self._data.clear()

    def _take(self, line: bytes) -> Iterator[str]:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode(errors="replace")
                self._data.clear()
                self._data_size = 0
                if data:
                    yield data
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_size += len(value)
            if self._data_size > self._limit:
                raise TooLong
