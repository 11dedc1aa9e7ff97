"""Server-sent events and chunks of an answer, however they are cut and whatever they hold."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.agents.openai.completion import BadAnswer, Completion, Piece
from antiphon.agents.openai.sse import Events, TooLong

STREAM = "\ufeff: hello\r\n\r\ndata: é 漢 😀\nevent: x\nid: 7\ndata:two\r\rdata\n\ndata: \u2028\x85 last\n\n".encode()
HEARD = ["é 漢 😀\ntwo", "\u2028\x85 last"]


def heard(*chunks: bytes, limit: int = 1000) -> list[str]:
    events = Events(limit)
    return [data for chunk in chunks for data in events.feed(chunk)]


@pytest.mark.parametrize("place", range(len(STREAM)))
def test_a_stream_that_is_cut_in_two_anywhere_is_the_same(place: int) -> None:
    assert heard(STREAM[:place], STREAM[place:]) == HEARD


def test_a_stream_in_single_bytes_is_the_same() -> None:
    assert heard(*(STREAM[place : place + 1] for place in range(len(STREAM)))) == HEARD


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_a_stream_that_is_cut_anyhow_is_the_same(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(STREAM)]
    assert heard(*(STREAM[start:end] for start, end in pairwise(cuts))) == HEARD


def test_an_event_over_the_limit_is_told_before_it_fills_the_memory() -> None:
    with pytest.raises(TooLong):
        heard(b"data: " + b"x" * 600, b"x" * 600)
    with pytest.raises(TooLong):
        heard(b"data: " + b"x" * 600 + b"\n", b"data: " + b"x" * 600 + b"\n")
    assert heard(*[b"data: " + b"x" * 600 + b"\n\n"] * 3) == ["x" * 600] * 3


def chunk(**delta: Any) -> str:
    return json.dumps({"choices": [{"delta": delta}]})


def calls(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    completion = Completion()
    for piece in pieces:
        completion.take(chunk(tool_calls=[piece]))
    return [(call.id, call.name, call.arguments) for call in completion.calls]


def test_texts_thoughts_and_refusals_are_heard() -> None:
    completion = Completion()
    said = [
        completion.take(chunk(role="assistant", content="")),
        completion.take(chunk(reasoning_content="hm")),
        completion.take(chunk(reasoning="so")),
        completion.take(chunk(content="on", refusal=None)),
        completion.take(chunk(refusal="e")),
    ]
    assert said == [None, Piece("", "hm"), Piece("", "so"), Piece("on", ""), Piece("e", "")]
    assert completion.text == "one"


def test_a_character_that_is_cut_in_two_is_said_whole() -> None:
    completion = Completion()
    said = [completion.take(chunk(content=each)) for each in ("a\ud83d", "\ude00b", "\ud83d", "\ude00")]
    assert said == [Piece("a", ""), Piece("😀b", ""), None, Piece("😀", "")]
    lone = Completion()
    assert [lone.take(chunk(content=each)) for each in ("\ude00x", "\ud83d", "y")] == [
        Piece("\ufffdx", ""),
        None,
        Piece("\ufffdy", ""),
    ]


def test_half_characters_in_thoughts_and_arguments_harm_nobody() -> None:
    completion = Completion()
    assert completion.take(chunk(reasoning="a\ud83d")) == Piece("", "a")
    assert completion.take(chunk(reasoning="\ude00")) == Piece("", "😀")
    halves = [{"index": 0, "id": "a", "function": {"name": "x", "arguments": each}} for each in ('"\ud83d', '\ude00"')]
    assert [arguments for _, _, arguments in calls(*halves)] == ['"😀"']


def test_calls_are_put_together_by_their_place() -> None:
    first = {"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}
    second = {"index": 1, "id": "b", "function": {"name": "two", "arguments": "{"}}
    pieces = [{"index": 1, "function": {"arguments": "}"}}, {"index": 0, "function": {"arguments": "{}"}}]
    assert calls(first, second, *pieces) == [("a", "one", "{}"), ("b", "two", "{}")]


def test_calls_without_a_place_are_told_apart_by_their_ids() -> None:
    first = {"id": "a", "function": {"name": "one", "arguments": "{"}}
    second = {"id": "b", "function": {"name": "two", "arguments": {"x": 1}}}
    assert calls(first, {"function": {"arguments": "}"}}, second) == [("a", "one", "{}"), ("b", "two", '{"x":1}')]


def test_calls_have_ids_of_their_own_whatever_the_server_called_them() -> None:
    pieces = [{"index": place, "id": "", "function": {"name": "x", "arguments": "{}"}} for place in range(2)]
    assert [call_id for call_id, _, _ in calls(*pieces)] == ["call_0", "call_1"]
    pieces = [{"index": place, "id": "same", "function": {"name": "x", "arguments": "{}"}} for place in range(2)]
    assert [call_id for call_id, _, _ in calls(*pieces)] == ["same", "call_1"]


@pytest.mark.parametrize("data", ["", "7", "{", "null", '{"choices": 1}', '{"error": "no"}', '{"error": {"code": 9}}'])
def test_what_is_no_chunk_is_told(data: str) -> None:
    with pytest.raises(BadAnswer):
        Completion().take(data)


def test_other_choices_and_what_is_not_known_are_passed_over() -> None:
    completion = Completion()
    for data in ('{"choices": [{"index": 1, "delta": {"content": "x"}}]}', '{"news": 1}', '{"choices": []}'):
        assert completion.take(data) is None
    assert completion.text == ""
