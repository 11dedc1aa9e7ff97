"""Reading HTTP/1.1 responses, with h11 as the other opinion."""

from itertools import pairwise
from typing import Any

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.client.errors import UnexpectedAnswer
from antiphon.client.http1 import ResponseReader, request_bytes
from antiphon.client.wire import Request

JSON = ("content-type", "application/json")


def read(raw: bytes, cuts: list[int], *, ended: bool = True) -> tuple[int, dict[str, str], bytes, bool]:
    """Read a response that comes in pieces, cut at these places."""
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    pieces = [raw[a:b] for a, b in pairwise(places)] + [b""] * ended
    reader, feed = ResponseReader(), iter(pieces)
    while (head := reader.head()) is None:
        reader.feed(next(feed))
    body = b""
    while (piece := reader.piece()) != b"":
        if piece is None:
            reader.feed(next(feed))
        else:
            body += piece
    return head.status, dict(head.headers), body, reader.reusable


def served(status: int, headers: list[tuple[str, str]], pieces: list[bytes]) -> bytes:
    """A response as h11 writes it."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    server.next_event()
    server.next_event()
    events: list[Any] = [h11.Response(status_code=status, headers=headers)]
    events += [h11.Data(data=piece) for piece in pieces] + [h11.EndOfMessage()]
    return b"".join(server.send(event) or b"" for event in events)


@given(
    st.sampled_from([200, 201, 202, 404, 409, 503]),
    st.lists(st.binary(max_size=200), max_size=5),
    st.booleans(),
    st.lists(st.integers(0, 1500), max_size=8),
)
@example(200, [b"a" * 70_000], True, [100, 40_000])
def test_what_a_server_writes_is_read_the_same_wherever_it_is_cut(
    status: int, pieces: list[bytes], chunked: bool, cuts: list[int]
) -> None:
    body = b"".join(pieces)
    framing = ("transfer-encoding", "chunked") if chunked else ("content-length", str(len(body)))
    raw = served(status, [JSON, framing], pieces)

    found = read(raw, cuts, ended=False)

    assert found == (status, dict([JSON, framing]), body, True)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_any_bytes_end_in_an_answer_or_in_a_foreseen_error(noise: bytes, cuts: list[int]) -> None:
    for raw in (
        noise,
        b"HTTP/1.1 200 OK\r\n" + noise,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + noise,
    ):
        try:
            status, *_ = read(raw, cuts)
        except (UnexpectedAnswer, EOFError):
            continue
        assert 200 <= status < 600


def test_a_body_without_a_length_goes_on_until_the_connection_ends() -> None:
    found = read(b"HTTP/1.1 200 OK\r\n\r\nall of it", [20, 22])

    assert found == (200, {}, b"all of it", False)


def test_interim_responses_are_passed_over() -> None:
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"

    assert read(raw, [], ended=False) == (204, {}, b"", True)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_the_host_closes_is_not_used_again(head: bytes) -> None:
    assert read(head, [], ended=False)[3] is False


def test_bytes_behind_a_response_make_its_connection_unusable() -> None:
    assert read(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab", [], ended=False)[2:] == (b"a", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length : 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * 5000,
    ],
)
def test_what_delimits_a_message_in_doubtful_ways_is_refused(raw: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        read(raw, [])


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
def test_an_answer_that_ends_too_early_is_told_from_a_whole_one(raw: bytes) -> None:
    with pytest.raises(EOFError):
        read(raw, [])


@given(st.sampled_from(["GET", "POST", "DELETE", "PATCH"]), st.none() | st.binary(max_size=100))
def test_a_server_reads_the_request_that_was_meant(method: str, body: bytes | None) -> None:
    request = Request(method, "/v1/sessions/%2E%2E?limit=2", {"accept": "text/event-stream"}, body)

    server = h11.Connection(h11.SERVER)
    server.receive_data(request_bytes(request, "[::1]:80", "/prefix", {"authorization": "Bearer t"}))
    events: list[Any] = []
    while type(events[-1] if events else None) is not h11.EndOfMessage:
        events.append(server.next_event())

    head = events[0]
    headers = dict(head.headers)
    assert (head.method.decode(), head.target) == (method, b"/prefix/v1/sessions/%2E%2E?limit=2")
    assert headers[b"host"] == b"[::1]:80"
    assert headers[b"accept"] == b"text/event-stream"
    assert headers[b"authorization"] == b"Bearer t"
    assert b"".join(bytes(each.data) for each in events[1:-1]) == (body or b"")
