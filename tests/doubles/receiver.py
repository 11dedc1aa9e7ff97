"""A real receiver of webhooks: an HTTP server on a thread, which does with each request what a test says."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

WAIT_S = 40.0


class Request(NamedTuple):
    """What arrived. The names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The delivery's id."""
        return self.headers["webhook-id"]


class Reply(NamedTuple):
    """What is answered."""

    status: int = 204
    headers: dict[str, str] = {}
    body: bytes = b""


DROP = Reply(0)
"""Cut the connection without an answer, after the request was taken."""
HANG = Reply(-1)
"""Answer nothing until the receiver is let go."""


class Receiver:
    """Takes deliveries. `respond` says what becomes of each; it is called on the request's own thread.

    Attributes:
        requests: Everything that arrived whole.
        at_once: The most requests that were open at the same time.
    """

    def __init__(self, respond: Callable[[Request], Reply] = lambda _request: Reply(), port: int = 0) -> None:
        self.respond = respond
        self.requests: list[Request] = []
        self.at_once = 0
        self._open = 0
        self._changed = threading.Condition()
        self._let_go = threading.Event()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def take(self, request: Request) -> Reply:
        """Note a request and decide what becomes of it."""
        with self._changed:
            self._open += 1
            self.at_once = max(self.at_once, self._open)
            self.requests.append(request)
            self._changed.notify_all()
        try:
            reply = self.respond(request)
            if reply is HANG:
                self._let_go.wait(WAIT_S)
        finally:
            with self._changed:
                self._open -= 1
        return reply

    def wait(self, count: int, seconds: float = WAIT_S) -> list[Request]:
        """The requests, once there are so many."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while len(self.requests) < count:
                left = deadline - time.monotonic()
                assert left > 0, f"{len(self.requests)} of {count} requests within {seconds:g} s"
                self._changed.wait(left)
            return list(self.requests)

    def close(self) -> None:
        """End, and free the port."""
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what tests are about."""


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = receiver.take(Request(self.path, headers, body))
            if reply.status < 1:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def receiving(respond: Callable[[Request], Reply] = lambda _request: Reply(), port: int = 0) -> Iterator[Receiver]:
    """A receiver, closed in the end."""
    receiver = Receiver(respond, port)
    try:
        yield receiver
    finally:
        receiver.close()
