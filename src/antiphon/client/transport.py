"""The sync transport: HTTP/1.1 over sockets.

It has what a client of one host needs: connections that are kept, and looked at before they are used again; a deadline
over a whole call; streams that are read piece by piece.
"""

import select
import socket
from collections.abc import Callable
from typing import TypeVar

from antiphon.client.address import Address
from antiphon.client.errors import ConnectionLost, HostNotReached
from antiphon.client.http1 import ResponseReader, request_bytes
from antiphon.client.wire import Request, Response

CONNECT_S = 10.0
PIECE_BYTES = 1 << 16
IDLE_CONNECTIONS_MAX = 4

Now = Callable[[], float]
T = TypeVar("T")


class Connection:
    """One connection to a host, for one request at a time."""

    def __init__(self, address: Address, timeout_s: float, now: Now) -> None:
        self.address, self._now = address, now
        self._reader = ResponseReader()
        try:
            self._socket = connected(address, min(timeout_s, CONNECT_S))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                self._socket = _secured(self._socket, address.host)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise HostNotReached(f"No host answers at {address.url}: {reason}.") from error

    def send(self, request: Request, deadline: float) -> None:
        """Send a request whole. A host that answers before it has read everything is not an error here."""
        address, self._reader = self.address, ResponseReader()
        try:
            self._socket.settimeout(self._left(deadline))
            self._socket.sendall(request_bytes(request, address.authority, address.prefix, address.headers()))
        except TimeoutError:
            raise ConnectionLost("The host did not take the request in time.") from None
        except OSError:
            return  # the answer may be there all the same: 413 comes before the end of a body

    def head(self, deadline: float) -> Response:
        """The status and headers of the answer; its body is still to come."""
        return self._read(self._reader.head, deadline)

    def piece(self, deadline: float) -> bytes:
        """The next bytes of the answer's body, `b""` at its end."""
        return self._read(self._reader.piece, deadline)

    def body(self, deadline: float) -> bytes:
        """The whole body of the answer."""
        pieces: list[bytes] = []
        while piece := self.piece(deadline):
            pieces.append(piece)
        return b"".join(pieces)

    @property
    def reusable(self) -> bool:
        """Whether both sides keep the connection after this answer."""
        return self._reader.reusable

    @property
    def fresh(self) -> bool:
        """Whether nothing has come since the last answer: whatever comes unasked is the host's goodbye."""
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """End the connection, in whatever state it is."""
        self._socket.close()

    def _read(self, ask: Callable[[], T | None], deadline: float) -> T:
        """What the reader answers, fed from the socket for as long as it asks for more."""
        try:
            while (answer := ask()) is None:
                self._socket.settimeout(self._left(deadline))
                self._reader.feed(self._socket.recv(PIECE_BYTES))
        except EOFError:
            raise ConnectionLost("The host ended the connection before its answer was whole.") from None
        except TimeoutError:
            raise ConnectionLost("The host did not answer in time.") from None
        except OSError as error:
            raise ConnectionLost("The connection broke before the answer was whole.") from error
        return answer

    def _left(self, deadline: float) -> float:
        return max(0.001, deadline - self._now())


class Transport:
    """Performs requests against wherever `locate` says the host is now. Threads may share it."""

    def __init__(self, locate: Callable[[], Address], now: Now) -> None:
        self._locate, self._now = locate, now
        self._idle: list[Connection] = []

    def call(self, request: Request, timeout_s: float) -> Response:
        """One request and its whole answer.

        Raises:
            HostNotReached, ConnectionLost, UnexpectedAnswer.
        """
        deadline, connection = self._now() + timeout_s, self._connection(request, timeout_s)
        try:
            connection.send(request, deadline)
            head = connection.head(deadline)
            response = head._replace(body=connection.body(deadline))
        except BaseException:
            connection.close()
            raise
        if connection.reusable and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def open(self, request: Request, timeout_s: float) -> tuple[Response, Connection | None]:
        """One request whose answer may be an event stream; then the connection is the caller's, to read and close."""
        deadline, connection = self._now() + timeout_s, self._connection(request, timeout_s)
        try:
            connection.send(request, deadline)
            head = connection.head(deadline)
            if head.is_event_stream:
                return head, connection
            response = head._replace(body=connection.body(deadline))
        except BaseException:
            connection.close()
            raise
        connection.close()
        return response, None

    def close(self) -> None:
        """Close the connections that are kept. Streams are their readers'."""
        while connection := self._kept():
            connection.close()

    def _connection(self, request: Request, timeout_s: float) -> Connection:
        """A connection for a request. What can't be asked again goes over none that the host may just be closing."""
        while request.repeatable and (connection := self._kept()):
            if connection.fresh:
                return connection
            connection.close()
        return Connection(self._locate(), timeout_s, self._now)

    def _kept(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None


def connected(address: Address, timeout_s: float) -> socket.socket:
    """A socket that is connected to a host.

    Raises:
        OSError: Nobody answers there.
    """
    name = address.host
    # As bytes a name of ASCII characters goes past the IDNA codec, whose tables take 4 ms to load; `getaddrinfo` takes
    # both, which the types of `create_connection` do not know.
    where = (name.encode() if name.isascii() else name, address.port)
    return socket.create_connection(where, timeout_s)  # pyright: ignore[reportArgumentType]


def _secured(plain: socket.socket, host: str) -> socket.socket:
    import ssl  # noqa: PLC0415  35 ms that a local command need not spend

    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise
