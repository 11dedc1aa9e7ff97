"""A proxy between client and host that breaks connections where a test says."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple, Self


class Cut(NamedTuple):
    """What happens to one request: `refuse` ends its connection before the host sees it, `swallow` after the host has
    begun to answer, `after` lets so many bytes of the answer through first."""

    how: Literal["refuse", "swallow", "after"]
    bytes: int = 0


Rule = Callable[[str, int], Cut | None]
"""Asked with a request's first line and its number, from 1; None lets it through."""


class CuttingProxy:
    """Listens on a port of its own and forwards to a host. Use as a context manager."""

    def __init__(self, target: tuple[str, int], rule: Rule) -> None:
        self._target, self._rule = target, rule
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[str] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection: one request, marked as the last so that the next one has a connection of its own."""
        with client, contextlib.suppress(OSError):
            request = _read_request(client)
            if not request:
                return
            line = request.partition(b"\r\n")[0].decode()
            with self._lock:
                self.requests.append(line)
                cut = self._rule(line, len(self.requests))
            if cut and cut.how == "refuse":
                _reset(client)
                return
            with socket.create_connection(self._target) as host:
                host.sendall(request.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
                self._answer(host, client, cut)

    @staticmethod
    def _answer(host: socket.socket, client: socket.socket, cut: Cut | None) -> None:
        left = None if cut is None else cut.bytes
        while piece := host.recv(65536):
            if left is not None and len(piece) >= left:
                client.sendall(piece[:left])
                _reset(client)
                return
            client.sendall(piece)
            left = None if left is None else left - len(piece)


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    ]
    while len(body) < sum(lengths):
        piece = client.recv(65536)
        data, body = data + piece, body + piece
    return data


def _reset(client: socket.socket) -> None:
    """End a connection as a crash does: with a reset, at once."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
