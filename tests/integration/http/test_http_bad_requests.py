"""Whatever is sent, the answer is a typed problem and the host goes on."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from antiphon.http.edge import Limits
from doubles.door import TOKEN, Door, opened

MESSAGES = "/v1/sessions/s/messages"


def problem_of(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The problem document of an answer, which must be whole and of that kind."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem = answer.json()
    assert (problem["status"], problem["code"], problem["type"]) == (status, code, f"/docs#{code}")
    assert problem["title"]
    assert problem["detail"]
    return problem


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"7", b"\xff", b'{"text": "\xff\xfe"}', b"[" * 100_000,
        b'{"text":' * 50_000, b'{"text": "\\ud800"}', b'{"text": "\\udc00x"}', b'{"text": "\\u0000"}',
        b'{"text": "a\x00"}', b'{"text": NaN}', b'{"text": 1e999}', b'{"text": ""}', b'{"text": 42}',
        b'{"text": null}', b'{"text": []}', b"{}", b'{"text": "x", "when_busy": "bogus"}',
        b'{"text": "x", "when_busy": 7}', b'{"text": "x", "files": 5}', b'{"text": "x", "create": "x"}',
        b'{"text": "x", "bogus": 1}', b'{"text": "x", "bogus": 1e999}', b'{"text": "x"} {}',
        b'{"text": "x", "create": {"agent": "parrot", "key": "s"}}',
        b'{"text": "x", "create": {"agent": "parrot", "settings": {"a": 1e999}}}',
        b'{"text": "x", "create": {"agent": "parrot", "settings": {"a": "\\u0000"}}}',
        b'{"text": "x", "create": {"agent": "parrot", "settings": {"a": ' + b"[" * 40 + b"]" * 40 + b"}}}",
        b'{"text": "x", "create": {"agent": "parrot", "settings": {"a": ' + b"9" * 4000 + b"}}}",
        b'{"text": "x", "files": [{}]}', b'{"text": "x", "files": [{"path": "relative"}]}',
        b'{"text": "x", "files": [{"path": "/a", "name": "a"}]}', b'{"text": "x", "files": [{"name": "a"}]}',
        b'{"text": "x", "files": [{"name": "a", "data": "not base64!"}]}',
        b'{"text": "x", "files": [{"name": "a", "data": null}]}',
    ],
)  # fmt: skip
async def test_a_body_of_the_wrong_form_is_refused_and_sends_nothing(door: Door, body: bytes) -> None:
    before = await door.session()
    answer = await door.client.post(MESSAGES, content=body)
    problem_of(answer, 422, "invalid_request")
    assert (await door.client.get("/v1/sessions/s")).json() == before


async def test_every_wrong_field_is_named_and_nothing_that_was_sent_is_quoted(door: Door) -> None:
    await door.session()
    secret = "do not repeat this"
    body = {"text": [secret], "when_busy": secret, "bogus": secret, "files": [{"path": secret}]}
    problem = problem_of(await door.client.post(MESSAGES, json=body), 422, "invalid_request")
    named = {error["pointer"] for error in problem["errors"]}
    assert named == {"/text", "/when_busy", "/bogus", "/files/0/path"}
    assert secret not in str(problem)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/sessions/", 404, "not_found"),
        ("GET", "/v1/sessions/none", 404, "session_not_found"),
        ("GET", "/v1/sessions/ses_none/events", 404, "session_not_found"),
        ("GET", "/v1/sessions/ses_%00", 404, "session_not_found"),
        ("GET", "/v1/messages/msg_x", 404, "message_not_found"),
        ("GET", "/v1/messages/%2e%2e%2f", 404, "message_not_found"),
        ("GET", "/v1/turns/turn_x", 404, "turn_not_found"),
        ("POST", "/v1/turns/turn_x/cancel", 404, "turn_not_found"),
        ("GET", "/v1/permissions/x", 404, "permission_not_found"),
        ("DELETE", "/v1/tokens/x", 404, "token_not_found"),
        ("PUT", "/v1/sessions", 405, "method_not_allowed"),
        ("PUT", "/v1/sessions/s", 405, "method_not_allowed"),
        ("HEAD", "/v1/sessions", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/sessions", 405, "method_not_allowed"),
        ("GET", "/v1/status?x=1", 422, "invalid_request"),
    ],
)  # fmt: skip
async def test_what_is_not_there_is_told_apart(door: Door, method: str, path: str, status: int, code: str) -> None:
    answer = await door.client.request(method, path)
    assert answer.status_code == status
    if method != "HEAD":
        problem_of(answer, status, code)


async def test_a_method_that_is_not_served_names_all_that_are(door: Door) -> None:
    answer = await door.client.put("/v1/sessions/s")
    assert answer.headers["allow"] == "DELETE, GET, PATCH"


async def test_a_head_of_an_open_page_has_no_body(door: Door) -> None:
    answer = await door.client.head("/healthz")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_a_body_that_declares_too_much_is_refused_before_it_is_sent(door: Door) -> None:
    await door.session()
    head = door.head("POST", MESSAGES, f"Content-Length: {64 << 20}")
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(head + b'{"text": "')
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer


async def test_a_sender_that_goes_on_sending_still_reads_why_it_was_refused(door: Door) -> None:
    await door.session()
    head = door.head("POST", MESSAGES, "Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = await asyncio.to_thread(_send_then_read, door.port, head + chunk * 100 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"message_too_large"' in answer


def _send_then_read(port: int, request: bytes) -> bytes:
    """Like a simple client: send everything, look at the answer only then."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(request)
        pieces: list[bytes] = []
        while piece := link.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


async def test_a_body_of_just_the_limit_is_taken_and_one_byte_more_is_not(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(body=1000, linger_s=0.1)) as door:
        await door.session()
        fits = b'{"text": "%s"}' % (b"x" * (1000 - 12))
        assert (await door.client.post(MESSAGES, content=fits)).status_code == 202
        problem_of(await door.client.post(MESSAGES, content=fits + b" "), 413, "message_too_large")


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(body_s=0.05)) as door:
        answer = await door.raw(door.head("POST", MESSAGES, "Content-Length: 10", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in answer


@pytest.mark.parametrize(
    "request_line",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET \xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_a_problem_too(door: Door, request_line: bytes) -> None:
    answer = await door.raw(request_line)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in answer
    assert b'"code":"invalid_request"' in answer


async def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(head=2000)) as door:
        answer = await door.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 3000)
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(head_s=0.05)) as door:
        assert (await door.raw(b"GET / HTTP/1.1\r\nHo")).startswith(b"HTTP/1.1 408 ")
        assert (await door.raw(b"")).startswith(b"HTTP/1.1 408 ")


async def test_more_connections_than_fit_are_refused_and_the_others_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(connections=2)) as door:
        assert (await door.client.get("/healthz")).status_code == 200
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        assert (await door.raw(b"")).startswith(b"HTTP/1.1 503 ")
        assert (await door.client.get("/healthz")).status_code == 200
        writer.close()


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
async def test_an_upgrade_is_not_taken(door: Door, upgrade: str) -> None:
    head = door.head("GET", "/v1/status", "Connection: Upgrade, close", f"Upgrade: {upgrade}")
    answer = await door.raw(head)
    assert int(answer.split(b" ")[1]) < 500


async def test_headers_that_mean_nothing_are_no_trouble(door: Door) -> None:
    await door.session()
    for prefer in ("wait=abc", "wait=-1", "wait=1e999", 'wait="', "respond-async", ",,;=", "wait"):
        answer = await door.send("x", Prefer=prefer)
        assert (answer.status_code, "preference-applied" in answer.headers) == (202, False), prefer
    assert (await door.client.get("/v1/status", headers={"Accept": ";;,q=x"})).status_code == 200


@pytest.mark.parametrize("authorization", [None, "", "Basic eDp5", "Bearer wrong", "Bearer", f"bearer{TOKEN}"])
async def test_without_the_token_nothing_is_told(door: Door, authorization: str | None) -> None:
    await door.session()
    headers = {} if authorization is None else {"Authorization": authorization}
    del door.client.headers["authorization"]
    for path in ("/v1/sessions/s", "/v1/nothing", "/v1"):
        answer = await door.client.get(path, headers=headers)
        problem_of(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"):
        assert (await door.client.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:5", "Origin": "http://localhost:5"}, 200),
        ({"Host": "localhost:5", "Origin": "http://localhost:6"}, 403),
    ],
)  # fmt: skip
async def test_a_page_of_another_site_can_not_use_the_host(door: Door, headers: dict[str, str], status: int) -> None:
    answer = await door.client.get("/v1/status", headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers
    if status == 403:
        problem_of(answer, 403, "forbidden")


async def test_a_request_names_one_host(door: Door) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        answer = await door.raw(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + hosts + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")


async def test_a_token_that_can_only_look_can_not_act(door: Door) -> None:
    await door.session()
    made = await door.client.post("/v1/tokens", json={"name": "board", "scope": "read"})
    assert made.status_code == 201
    assert made.headers["location"] == f"/v1/tokens/{made.json()['id']}"
    looking = {"Authorization": f"Bearer {made.json()['token']}"}
    assert (await door.client.get("/v1/sessions/s", headers=looking)).status_code == 200
    for method, path in (("POST", MESSAGES), ("DELETE", "/v1/sessions/s"), ("POST", "/v1/tokens")):
        problem_of(await door.client.request(method, path, headers=looking, json={"text": "x"}), 403, "forbidden")
    listed = (await door.client.get("/v1/tokens")).json()["items"]
    assert ("board", "read") in [(token["name"], token["scope"]) for token in listed]
    assert made.json()["token"] not in str(listed)
    assert (await door.client.delete(made.headers["location"])).status_code == 204
    problem_of(await door.client.get("/v1/sessions/s", headers=looking), 401, "unauthorized")


async def test_a_mistake_of_the_host_tells_nothing_of_its_inside(tmp_path: Path) -> None:
    class Broken:
        async def status(self) -> None:
            raise ZeroDivisionError("a secret inside")

    async with opened(tmp_path, service=lambda _host: Broken()) as door:
        answer = await door.client.get("/v1/status")
        problem_of(answer, 500, "internal")
        assert "secret" not in answer.text
        assert (await door.client.get("/healthz")).status_code == 200
