"""The sync transport: HTTP/1.1 over a socket, the protocol itself by h11.

It knows the few things that a client of one host needs: connections that are kept and checked before they are used
again, a deadline over a whole call, and streams that are read piece by piece.
"""

import select
import socket
from collections.abc import Callable

import h11

from antiphon.client.address import Address
from antiphon.client.errors import ConnectionLost, HostNotReached, UnexpectedAnswer
from antiphon.client.wire import Request, Response

CONNECT_S = 10.0
PIECE_BYTES = 1 << 16
IDLE_CONNECTIONS_MAX = 4

Now = Callable[[], float]


class Connection:
    """One connection to a host, for one request at a time."""

    def __init__(self, address: Address, timeout_s: float, now: Now) -> None:
        self.address, self._now = address, now
        try:
            self._socket = socket.create_connection((address.host, address.port), min(timeout_s, CONNECT_S))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                self._socket = _secured(self._socket, address.host)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise HostNotReached(f"No host answers at {address.url}: {reason}.") from error
        self._protocol = h11.Connection(h11.CLIENT)

    def send(self, request: Request, deadline: float) -> None:
        """Send a request whole. A host that answers before it has read everything is not an error here."""
        headers = {"host": self.address.authority, "accept": "application/json"} | self.address.headers()
        if request.body is not None or request.method in ("POST", "PATCH", "PUT"):
            headers |= {"content-type": "application/json", "content-length": str(len(request.body or b""))}
        headers |= request.headers
        target = self.address.prefix + request.path
        head = h11.Request(method=request.method, target=target, headers=list(headers.items()))
        pieces = [self._protocol.send(head)]
        if request.body:
            pieces.append(self._protocol.send(h11.Data(data=request.body)))
        pieces.append(self._protocol.send(h11.EndOfMessage()))
        try:
            self._socket.settimeout(self._left(deadline))
            self._socket.sendall(b"".join(piece for piece in pieces if piece))
        except TimeoutError:
            raise ConnectionLost("The host did not take the request in time.") from None
        except OSError:
            return  # the answer may be there all the same: 413 comes before the end of a body

    def head(self, deadline: float) -> Response:
        """The status and headers of the answer; its body is still to come."""
        while True:
            event = self._next(deadline)
            if isinstance(event, h11.Response):
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                return Response(event.status_code, headers)
            if isinstance(event, h11.ConnectionClosed | h11.EndOfMessage):
                raise ConnectionLost("The host ended the connection without an answer.")

    def piece(self, deadline: float) -> bytes:
        """The next bytes of the answer's body, `b""` at its end."""
        while True:
            event = self._next(deadline)
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return b""

    def body(self, deadline: float) -> bytes:
        """The whole body of the answer."""
        pieces: list[bytes] = []
        while piece := self.piece(deadline):
            pieces.append(piece)
        return b"".join(pieces)

    def renew(self) -> bool:
        """Get ready for another request, where both sides keep the connection."""
        if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
            return True
        return False

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

    def _next(self, deadline: float) -> object:
        """The next event of the protocol, reading from the socket as need be."""
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                if self._ended:
                    raise ConnectionLost("The connection broke in the middle of an answer.") from error
                raise UnexpectedAnswer(f"What answers at {self.address.url} does not speak HTTP: {error}.") from error
            if event is not h11.NEED_DATA:
                return event
            self._protocol.receive_data(self._receive(deadline))

    _ended = False

    def _receive(self, deadline: float) -> bytes:
        try:
            self._socket.settimeout(self._left(deadline))
            piece = self._socket.recv(PIECE_BYTES)
        except TimeoutError:
            raise ConnectionLost("The host did not answer in time.") from None
        except OSError as error:
            raise ConnectionLost("The connection broke before an answer came.") from error
        self._ended = not piece
        return piece

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
        connection, deadline = self._connection(timeout_s), self._now() + timeout_s
        try:
            connection.send(request, deadline)
            head = connection.head(deadline)
            response = head._replace(body=connection.body(deadline))
            keep = connection.renew() and len(self._idle) < IDLE_CONNECTIONS_MAX
        except BaseException:
            connection.close()
            raise
        if keep:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def open(self, request: Request, timeout_s: float) -> tuple[Response, Connection | None]:
        """One request whose answer may be an event stream; then the connection is the caller's, to read and close."""
        connection, deadline = Connection(self._locate(), timeout_s, self._now), self._now() + timeout_s
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
        while self._idle:
            self._idle.pop().close()

    def _connection(self, timeout_s: float) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.close()
        return Connection(self._locate(), timeout_s, self._now)


def _secured(plain: socket.socket, host: str) -> socket.socket:
    import ssl  # noqa: PLC0415  35 ms that a local command need not spend

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
