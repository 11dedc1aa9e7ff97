"""Names in paths, queries, bodies and problem documents."""

import json
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.client.address import Address
from antiphon.client.errors import (
    ApiError,
    BadRequest,
    HostNotReached,
    NotAllowed,
    NotFound,
    QueueFull,
    Refused,
    SessionBusy,
    Trouble,
    UnexpectedAnswer,
)
from antiphon.client.exchanges import check_idempotency_key
from antiphon.client.wire import Response, document, encoded, query, quoted

CODES = """session_busy session_stopped session_exists session_conflict turn_ended not_editable idempotency_key_reused
invalid_request session_not_found message_not_found turn_not_found agent_not_found permission_not_found not_found
method_not_allowed permission_answered precondition_failed message_too_large queue_full session_limit agent_unavailable
agent_failed draining store_unavailable unauthorized forbidden token_not_found""".split()


@given(st.text(min_size=1))
@example("..")
@example(".")
@example("a/b?c#d%2F")
@example("ключ😀")
def test_a_name_stays_one_segment_of_the_path_and_comes_back(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    segment = quoted(name)

    assert segment.isascii()
    assert not set(segment) & set("/?#")
    assert segment.strip(".")
    assert unquote(segment) == name
    assert urlsplit(f"http://host/v1/sessions/{segment}/turns").path == f"/v1/sessions/{segment}/turns"


def test_a_name_that_was_no_utf8_reaches_the_host_as_it_was() -> None:
    assert quoted("a\udcff") == "a%FF"


def test_a_query_leaves_out_what_is_none_and_repeats_lists() -> None:
    assert query({"limit": 2, "cursor": None, "status": ["idle", "running"], "q": "a&b=c"}) == (
        "?limit=2&status=idle&status=running&q=a%26b%3Dc"
    )
    assert query({"cursor": None}) == ""


def test_a_lone_surrogate_stays_an_escape_that_the_host_can_refuse() -> None:
    assert json.loads(encoded({"text": "a\ud800é"})) == {"text": "a\ud800é"}


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_the_contract_has_an_error_of_its_own(code: str) -> None:
    error = ApiError.of(400, {"code": code, "detail": "d"})

    assert type(error).CODE == error.code == code
    assert type(error) not in (ApiError, Refused, NotAllowed, BadRequest, Trouble)


@pytest.mark.parametrize(
    ("status", "group"),
    [(400, BadRequest), (401, NotAllowed), (404, NotFound), (409, Refused), (429, Refused), (503, Trouble)],
)
def test_a_code_of_the_future_is_known_by_its_status(status: int, group: type[ApiError]) -> None:
    error = ApiError.of(status, {"code": "from_the_future", "detail": "Wait."})

    assert type(error) is group
    assert (error.code, error.status, str(error)) == ("from_the_future", status, "Wait.")


def test_a_refusal_says_who_holds_the_session_and_when_to_come_back() -> None:
    body = encoded({"code": "session_busy", "detail": "It is busy.", "holder": {"turn_id": "turn_1"}})

    with pytest.raises(SessionBusy) as raised:
        document(Response(409, {"retry-after": "3"}, body))

    assert raised.value.retry_after_s == 3
    assert raised.value.fields["holder"] == {"turn_id": "turn_1"}


def test_a_date_in_retry_after_is_no_number_of_seconds() -> None:
    body = encoded({"code": "queue_full", "detail": "Full."})

    with pytest.raises(QueueFull) as raised:
        document(Response(429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, body))

    assert raised.value.retry_after_s is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail": "no code"}', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("status", [400, 404, 502])
def test_a_refusal_of_something_else_than_a_host_is_told_as_such(status: int, body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        document(Response(status, {}, body))


def test_an_answer_that_is_not_json_is_unexpected() -> None:
    with pytest.raises(UnexpectedAnswer):
        document(Response(200, {}, b"<html>"))


@pytest.mark.parametrize(
    ("url", "authority", "whole"),
    [
        ("http://127.0.0.1:7411", "127.0.0.1:7411", "http://127.0.0.1:7411"),
        ("https://box.example/antiphon/", "box.example:443", "https://box.example:443/antiphon"),
        ("http://[::1]:80", "[::1]:80", "http://[::1]:80"),
        ("HTTP://Host", "Host:80", "http://Host:80"),
    ],
)
def test_an_address_is_read_from_a_url(url: str, authority: str, whole: str) -> None:
    address = Address.parse(url, "t")

    assert (address.authority, address.url) == (authority, whole)
    assert address.headers() == {"authorization": "Bearer t"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:7411",
        "ftp://x",
        "http://",
        "http://a b",
        "http://x:99999",
        "http://x:0",
        "http://u:p@x",
        "http://x?y",
    ],
)
def test_what_is_no_address_is_refused_with_the_form_that_is(url: str) -> None:
    with pytest.raises(HostNotReached, match="http://HOST:PORT"):
        Address.parse(url, None)


@pytest.mark.parametrize("token", ["a\nb", "a\r\nx: y", "é", "a "])
def test_a_token_that_would_break_the_header_is_never_sent(token: str) -> None:
    with pytest.raises(HostNotReached, match="token"):
        Address.parse("http://x", token)


@pytest.mark.parametrize("key", ["", "a\nb", "é", " a", "k" * 256])
def test_an_idempotency_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        check_idempotency_key(key)


def test_ordinary_idempotency_keys_pass() -> None:
    for key in ("a", "order 42", "k" * 255):
        check_idempotency_key(key)
