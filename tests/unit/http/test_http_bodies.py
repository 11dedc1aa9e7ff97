"""Bodies: bounded, and parsed strictly."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.errors import InvalidRequest, TooLarge
from antiphon.http import bodies
from antiphon.http.forms import SendMessage, StartSession
from antiphon.http.presence import Left
from antiphon.http.problems import RequestTimeout


class Channel:
    """A request's channel that gives some messages, then nothing."""

    def __init__(self, messages: Iterable[dict[str, Any]]) -> None:
        self._messages = list(messages)

    async def __call__(self) -> dict[str, Any]:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)


def pieces(*parts: bytes) -> Channel:
    return Channel({"type": "http.request", "body": part, "more_body": True} for part in parts)


def whole(*parts: bytes) -> Channel:
    *first, last = parts
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in first]
    return Channel([*messages, {"type": "http.request", "body": last, "more_body": False}])


async def test_a_body_is_joined_from_its_pieces() -> None:
    assert await bodies.read(whole(b"ab", b"", b"c"), None, 3, 5) == b"abc"
    assert await bodies.read(whole(b"abc"), "3", 3, None) == b"abc"


async def test_a_body_is_refused_at_the_first_byte_over_the_limit_or_unread_by_what_it_declares() -> None:
    with pytest.raises(TooLarge):
        await bodies.read(pieces(b"ab", b"cd"), None, 3, 5)
    with pytest.raises(TooLarge):
        await bodies.read(pieces(), "4", 3, 5)


async def test_a_body_that_does_not_end_is_given_up() -> None:
    with pytest.raises(RequestTimeout):
        await bodies.read(pieces(b"ab"), None, 3, 0.01)


async def test_a_client_that_goes_while_it_sends_is_told_apart() -> None:
    with pytest.raises(Left):
        await bodies.read(Channel([{"type": "http.disconnect"}]), None, 3, 5)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    for read in (lambda: bodies.parse(SendMessage, body), lambda: bodies.parse_object(body)):
        try:
            read()
        except InvalidRequest as error:
            assert error.detail


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["text", "files", "when_busy", "create", "x"]), JSON))
def test_any_json_is_parsed_or_refused(value: Any) -> None:
    import json

    try:
        form = bodies.parse(SendMessage, json.dumps(value).encode())
    except InvalidRequest as error:
        assert error.detail
    else:
        assert form.text


def test_equal_forms_have_one_digest_however_they_were_written() -> None:
    one = bodies.parse(SendMessage, b'{"text": "x", "create": {"agent": "a", "labels": {"a": "1", "b": "2"}}}')
    same = bodies.parse(
        SendMessage, b'{"create":{"labels":{"b":"2","a":"1"},"agent":"a"},"files":null,"text":"\\u0078"}'
    )
    other = bodies.parse(SendMessage, b'{"text": "x", "create": {"agent": "a", "labels": {"a": "1"}}}')
    assert bodies.digest(one) == bodies.digest(same) != bodies.digest(other)


def test_a_text_may_speak_of_the_null_character_without_holding_it() -> None:
    assert bodies.parse(SendMessage, rb'{"text": "\\u0000"}').text == r"\u0000"
    with pytest.raises(InvalidRequest):
        bodies.parse(SendMessage, rb'{"text": "\\\u0000"}')


def test_errors_are_named_by_json_pointers_and_are_bounded() -> None:
    with pytest.raises(InvalidRequest) as refused:
        bodies.parse(StartSession, b'{"agent": "a", "labels": {"a/b~c": 1}}')
    assert refused.value.ids["errors"] == [{"pointer": "/labels/a~1b~0c", "detail": "input should be a valid string"}]
    unknown = b", ".join(b'"x%d": 1' % number for number in range(100))
    with pytest.raises(InvalidRequest) as refused:
        bodies.parse(StartSession, b'{"agent": "a", %s}' % unknown)
    assert len(refused.value.ids["errors"]) == bodies.ERRORS_SHOWN_MAX
    with pytest.raises(InvalidRequest) as refused:
        bodies.parse(StartSession, b'{"agent": "a", "%s": 1}' % (b"x" * 10_000))
    assert len(refused.value.detail) < 200
