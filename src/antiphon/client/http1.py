"""HTTP/1.1 as a client of one host needs it (RFC 9112), without I/O: a request as bytes, a response from bytes.

Everything that delimits a message is read strictly, for what two readers understand differently can be smuggled. What
this leaves out: pipelining, upgrades, compression, the values of trailers.
"""

import re
from collections.abc import Mapping, Sequence

from antiphon.client.errors import UnexpectedAnswer
from antiphon.client.wire import Request, Response

HEAD_BYTES_MAX = 64 << 10
LINE_BYTES_MAX = 4 << 10

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n\0]*)?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?")
_LENGTH = re.compile(r"[0-9]{1,18}")


def request_bytes(request: Request, authority: str, prefix: str, headers: Mapping[str, str]) -> bytes:
    """A request, ready to be sent; its own headers replace those of `headers`, which every request carries."""
    fields = {"host": authority, "accept": "application/json", **headers}
    if request.body is not None:
        fields["content-type"] = "application/json"
    if request.body is not None or request.method != "GET":
        fields["content-length"] = str(len(request.body or b""))
    fields.update(request.headers)
    lines = [f"{request.method} {prefix}{request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")


class Buffer:
    """What has come by a connection and was not taken yet."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.ended = False

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, piece: bytes) -> None:
        """Add what came; `b""` says that the connection has ended."""
        self._bytes += piece
        self.ended = self.ended or not piece

    def take(self, length: int) -> bytes:
        """Take up to so many bytes."""
        taken = bytes(self._bytes[:length])
        del self._bytes[:length]
        return taken

    def until(self, mark: bytes, limit: int) -> bytes | None:
        """Take everything up to a mark, and the mark without returning it; None while it has not come."""
        end = self._bytes.find(mark, 0, limit + len(mark))
        if end < 0:
            if len(self._bytes) > limit:
                raise UnexpectedAnswer("The answer has a line without an end.")
            return None
        return self.take(end + len(mark))[: -len(mark)]


class Body:
    """A body that ends with the connection, because nothing says otherwise."""

    complete = False

    def take(self, buffer: Buffer) -> bytes:
        """Take what is here of the body; nothing when it is complete or more must come."""
        self.complete = buffer.ended
        return buffer.take(len(buffer))


class SizedBody(Body):
    """A body of so many bytes."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.complete = not length

    def take(self, buffer: Buffer) -> bytes:
        """Take what is here of the body."""
        piece = buffer.take(self._left)
        self._left -= len(piece)
        self.complete = not self._left
        return piece


class ChunkedBody(Body):
    """A body in chunks (RFC 9112, section 7.1)."""

    def __init__(self) -> None:
        self._chunk = SizedBody(0)
        self._line_owed = False
        self._last = False

    def take(self, buffer: Buffer) -> bytes:
        """Take what is here of the body, of one chunk at most."""
        while self._chunk.complete:
            if not self._take_line(buffer):
                return b""
        return self._chunk.take(buffer)

    def _take_line(self, buffer: Buffer) -> bool:
        """Take the next line that is not data; False when there is none here, or none to come."""
        line = None if self.complete else buffer.until(b"\r\n", LINE_BYTES_MAX)
        if line is None:
            return False
        if self._last:  # trailers, until an empty line
            self.complete = not line
        elif self._line_owed:
            if line:
                raise UnexpectedAnswer("A chunk of the answer is longer than it says.")
            self._line_owed = False
        else:
            found = _CHUNK.fullmatch(line)
            if not found:
                raise UnexpectedAnswer("The answer has a chunk without a size.")
            self._chunk = SizedBody(int(found[1], 16))
            self._last = self._chunk.complete
            self._line_owed = not self._last
        return True


class ResponseReader:
    """Reads one response. Feed it what comes, then ask; an answer of None asks for more bytes.

    What is asked raises `UnexpectedAnswer` where this is not HTTP/1.1, and `EOFError` where it ended too early.
    """

    def __init__(self) -> None:
        self._buffer = Buffer()
        self._head: Response | None = None
        self._body = Body()
        self._persistent = False

    def feed(self, piece: bytes) -> None:
        """Take what came; `b""` says that the connection has ended."""
        self._buffer.feed(piece)

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self._body.complete and self._persistent and not self._buffer and not self._buffer.ended

    def head(self) -> Response | None:
        """Status and headers. Interim responses are passed over (RFC 9110, section 15.2)."""
        while self._head is None:
            head = self._buffer.until(b"\r\n\r\n", HEAD_BYTES_MAX)
            if head is None:
                return self._more()
            self._take_head(head.split(b"\r\n"))
        return self._head

    def piece(self) -> bytes | None:
        """The next bytes of the body, `b""` at its end. Ask only after `head` has answered."""
        piece = self._body.take(self._buffer)
        return piece if piece or self._body.complete else self._more()

    def _more(self) -> None:
        if self._buffer.ended:
            raise EOFError

    def _take_head(self, lines: Sequence[bytes]) -> None:
        found = _STATUS.fullmatch(lines[0])
        if not found:
            raise UnexpectedAnswer("What answers there does not speak HTTP/1.1.")
        status, headers = int(found[2]), _fields(lines[1:])
        if status == 101:
            raise UnexpectedAnswer("The address switches to a protocol that nobody asked for.")
        if status >= 200:
            self._head, self._body = Response(status, headers), _body(status, headers)
            closes = "close" in headers.get("connection", "").lower()
            self._persistent = found[1] == b"1" and not closes and type(self._body) is not Body


def _fields(lines: Sequence[bytes]) -> dict[str, str]:
    """The header fields; repeated ones are joined (RFC 9110, section 5.3)."""
    fields: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if not found:
            raise UnexpectedAnswer("The answer has a header that is none.")
        name, value = found[1].decode().lower(), found[2].decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _body(status: int, headers: Mapping[str, str]) -> Body:
    """How the body ends (RFC 9112, section 6.3)."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if status in (204, 304):
        return SizedBody(0)
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise UnexpectedAnswer("The answer's body is delimited in a way that is not understood.")
        return ChunkedBody()
    if length is None:
        return Body()
    if not _LENGTH.fullmatch(length):
        raise UnexpectedAnswer("The answer's length is not a number.")
    return SizedBody(int(length))
