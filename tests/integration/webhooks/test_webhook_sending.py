"""One try: the address that is connected to is the one that was judged, and no receiver can prolong it."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from antiphon.webhooks.plan import Answer, NoAnswer
from antiphon.webhooks.sending import Sender
from antiphon.webhooks.targets import Policy, Target, parse_url, read_networks
from doubles.receiver import Reply, receiving
from webhooklab.office import LOCAL

HEADERS = {"webhook-id": "evt_1"}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """A resolver that says something else each time, as one does that shall lead a client astray."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0)


async def post(url: str, *, policy: Policy = LOCAL, timeout_s: float = 20, **how: object) -> Answer | NoAnswer:
    sender = Sender(policy, timeout_s=timeout_s, **how)  # pyright: ignore[reportArgumentType]
    return await sender.post(parse_url(url), HEADERS, b'{"a": 1}')


@contextlib.asynccontextmanager
async def served(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server of raw connections; its port. Every connection has ended when the block has."""
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        serving[task] = writer
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in serving.values():
            writer.transport.abort()
        if serving:
            await asyncio.wait(serving, timeout=20)


async def test_a_name_is_looked_up_once_and_the_address_that_was_judged_is_the_one_that_is_connected_to() -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    with receiving() as receiver:
        outcome = await post(f"http://receiver.test:{receiver.port}/x", resolve=names)

    assert outcome == Answer(204)
    assert names.asked == ["receiver.test"]
    [request] = receiver.requests
    assert request.headers["host"] == f"receiver.test:{receiver.port}"
    assert (request.body, request.headers["webhook-id"]) == (b'{"a": 1}', "evt_1")


@pytest.mark.parametrize("found", [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["169.254.169.254", "10.0.0.1"], []])
async def test_a_name_that_leads_to_a_private_address_is_not_connected_to(found: list[str]) -> None:
    with receiving() as receiver:
        outcome = await post(f"http://receiver.test:{receiver.port}/x", policy=Policy(http=True), resolve=Names(found))

    assert isinstance(outcome, NoAnswer)
    assert "private" in outcome.why
    assert receiver.requests == []


async def test_of_several_addresses_only_those_that_are_allowed_are_tried() -> None:
    with receiving() as receiver:
        outcome = await post(
            f"http://receiver.test:{receiver.port}/x", resolve=Names(["10.0.0.1", "127.0.0.2", "127.0.0.1"])
        )

    assert outcome == Answer(204), "127.0.0.2 is refused, and the next one is tried"


async def test_the_address_at_the_other_end_is_judged_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a connection to end elsewhere than it was meant to, nothing would be sent on it."""
    policy = Policy(networks=read_networks(("127.0.0.2",)), http=True)
    open_connection = asyncio.open_connection

    async def astray(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert host == "127.0.0.2"
        return await open_connection("127.0.0.1", port)

    monkeypatch.setattr(asyncio, "open_connection", astray)
    with receiving() as receiver:
        outcome = await post(f"http://receiver.test:{receiver.port}/", policy=policy, resolve=Names(["127.0.0.2"]))

    assert isinstance(outcome, NoAnswer)
    assert receiver.requests == []


@pytest.mark.parametrize("url", ["http://2130706433:{port}/", "http://127.1:{port}/", "http://0x7f.0.0.1:{port}/"])
async def test_other_ways_to_write_a_local_address_lead_nowhere(url: str) -> None:
    with receiving() as receiver:
        outcome = await post(url.format(port=receiver.port), policy=Policy(http=True))

    assert isinstance(outcome, NoAnswer)
    assert receiver.requests == []


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    with receiving() as elsewhere, receiving(lambda _request: Reply(307, {"location": elsewhere.url})) as receiver:
        assert await post(receiver.url) == Answer(307)

    assert elsewhere.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving() as receiver:
        assert await post(receiver.url) == Answer(204)


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    async with served(serve) as port:
        assert await post(f"http://127.0.0.1:{port}/") == Answer(200)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
        b"HTTP/1.1 200",
        b"\x16\x03\x01\x02\x00",
    ],
)
async def test_what_is_no_answer_in_http_is_none(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'{"a": 1}')
        writer.write(answer)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with served(serve) as port:
        outcome = await post(f"http://127.0.0.1:{port}/")

    assert isinstance(outcome, NoAnswer)
    assert outcome.why in {"The receiver did not answer in HTTP.", "The connection failed."}


async def test_a_head_that_trickles_in_is_waited_for_no_longer_than_the_limit() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not reader.at_eof():
            writer.write(b"x: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with served(serve) as port:
        outcome = await post(f"http://127.0.0.1:{port}/", timeout_s=0.3)

    assert isinstance(outcome, NoAnswer)


async def test_what_a_receiver_asks_for_is_told() -> None:
    with receiving(lambda _request: Reply(503, {"retry-after": "120"})) as receiver:
        assert await post(receiver.url) == Answer(503, "120")


async def test_nobody_there_is_told_in_words() -> None:
    with receiving() as receiver:
        url = receiver.url
    assert await post(url) == NoAnswer("The connection failed.")


async def test_a_name_that_is_unknown_is_told_in_words() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, host)

    assert await post("http://nowhere.test/", resolve=unknown) == NoAnswer("The receiver's name can't be looked up.")


# TLS


def certificate(directory: Path, *names: x509.GeneralName) -> Path:
    """A certificate that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = directory / "receiver.pem"
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return file


def secured(file: Path) -> contextlib.AbstractAsyncContextManager[int]:
    """A server with this certificate; its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'{"a": 1}')
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()

    return served(serve, context)


async def test_tls_is_checked_against_the_name_though_an_address_is_connected_to(tmp_path: Path) -> None:
    file = certificate(tmp_path, x509.DNSName("receiver.test"))
    trusting = ssl.create_default_context(cafile=file)
    async with secured(file) as port:
        right = await post(f"https://receiver.test:{port}/", resolve=Names(["127.0.0.1"]), tls=trusting)
        wrong = await post(f"https://other.test:{port}/", resolve=Names(["127.0.0.1"]), tls=trusting)
        unknown = await post(f"https://receiver.test:{port}/", resolve=Names(["127.0.0.1"]))

    assert right == Answer(204)
    assert wrong == unknown == NoAnswer("The receiver's certificate is not valid for its name.")


async def test_tls_to_an_address_is_checked_against_that_address(tmp_path: Path) -> None:
    file = certificate(tmp_path, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    trusting = ssl.create_default_context(cafile=file)
    async with secured(file) as port:
        assert await post(f"https://127.0.0.1:{port}/", tls=trusting) == Answer(204)


async def test_a_receiver_without_tls_is_told_nothing(tmp_path: Path) -> None:
    with receiving() as receiver:
        outcome = await Sender(LOCAL, timeout_s=20).post(Target("https", "127.0.0.1", receiver.port, "/"), HEADERS, b"")

    assert isinstance(outcome, NoAnswer)
    assert receiver.requests == []
