"""One try of a delivery: a connection to an address that was judged, a request, the head of an answer.

There is no client library in between, because all of this must hold at once: the name is looked up once, the address
that is connected to is the one that was judged (or else a name that is looked up twice can lead elsewhere the second
time), TLS is checked against the name, no redirect is followed, no proxy of the environment is used, and neither time
nor memory depends on the receiver.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import h11

from antiphon.webhooks.plan import Answer, NoAnswer
from antiphon.webhooks.targets import Address, Policy, Target

ADDRESSES = 4
"""So many addresses of a name are tried."""
HEAD_BYTES = 16 << 10
REST_BYTES = 16 << 10
REST_S = 1.0
"""So much of an answer's body is read, for so long, and thrown away: some receivers count a cut answer as an error."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""


class Refused(Exception):
    """The target can't be delivered to; the text says why, and quotes nothing that the receiver said."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class Sender:
    """Makes tries, any number at a time."""

    def __init__(
        self, policy: Policy, *, timeout_s: float, resolve: Resolve = resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        """Args:
        policy: Which addresses may be connected to.
        timeout_s: How long a try may take in all.
        resolve: Looks names up.
        tls: Whom to trust; None for those whom the system trusts.
        """
        self._policy = policy
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._tls = tls

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer | NoAnswer:
        """Make a try. It never raises for what the network or the receiver does."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(target, headers, body)
        except TimeoutError:
            return NoAnswer(f"There was no answer within {self._timeout_s:g} s.")
        except Refused as refused:
            return NoAnswer(str(refused))
        except ssl.SSLCertVerificationError:
            return NoAnswer("The receiver's certificate is not valid for its name.")
        except ssl.SSLError:
            return NoAnswer("TLS failed.")
        except h11.RemoteProtocolError:
            return NoAnswer("The receiver did not answer in HTTP.")
        except OSError:
            return NoAnswer("The connection failed.")

    async def _post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
        reader, writer = await self._connect(target)
        try:
            return await _exchange(reader, writer, target, headers, body)
        finally:
            writer.transport.abort()

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if problem := self._policy.refusal_of(target):
            raise Refused(problem)
        security: dict[str, Any] = {}
        if target.scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            security = {"ssl": self._tls, "server_hostname": target.host}
        failure: OSError | None = None
        for address in await self._allowed(target):
            try:
                reader, writer = await asyncio.open_connection(str(address), target.port, **security)
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
                continue
            self._check_peer(writer)
            return reader, writer
        raise failure or OSError("no address")

    async def _allowed(self, target: Target) -> Sequence[Address]:
        """The addresses of a target that may be connected to.

        Raises:
            Refused: There is none.
        """
        try:
            found = [ipaddress.ip_address(text) for text in await self._resolve(target.host, target.port)]
        except (socket.gaierror, UnicodeError, ValueError):
            raise Refused("The receiver's name can't be looked up.") from None
        allowed = [address for address in found if self._policy.allows(address)]
        if not allowed:
            raise Refused("The receiver's name leads to an address that is private, local or reserved.")
        return allowed[:ADDRESSES]

    def _check_peer(self, writer: asyncio.StreamWriter) -> None:
        """Judge the address at the other end once more, as the kernel tells it."""
        peer = writer.get_extra_info("peername")
        if peer is None or not self._policy.allows(ipaddress.ip_address(peer[0])):
            writer.transport.abort()
            raise Refused("The connection leads to an address that is private, local or reserved.")


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
) -> Answer:
    line = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
    own = {"host": target.authority, "content-length": str(len(body)), "connection": "close"}
    request = h11.Request(method="POST", target=target.path, headers=[*own.items(), *headers.items()])
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(line.send(event) or b"")
    with contextlib.suppress(ConnectionError):  # a receiver may answer, and close, before it has read everything
        await writer.drain()
    while not isinstance(event := line.next_event(), h11.Response):
        if event is h11.NEED_DATA:
            line.receive_data(await reader.read(HEAD_BYTES))
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("no answer")
    await _throw_away(reader)
    found = [value for name, value in event.headers if name == b"retry-after"]
    return Answer(event.status_code, found[0].decode("latin-1") if found else None)


async def _throw_away(reader: asyncio.StreamReader) -> None:
    """Read some of the answer's body. What comes of it is of no interest: the head has said all that counts."""
    left = REST_BYTES
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(REST_S):
            while left > 0 and (piece := await reader.read(left)):
                left -= len(piece)
