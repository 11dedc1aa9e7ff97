"""Server-sent events, cut anywhere."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client import sse
from antiphon.client.sse import Frame, FrameReader, FrameTooLong

LINE_SEPARATORS_OF_STR_ONLY = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"


def frames(raw: bytes, cuts: list[int]) -> list[Frame]:
    """The frames in these bytes, fed in pieces."""
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    reader = FrameReader()
    return [frame for a, b in pairwise(places) for frame in reader.feed(raw[a:b])]


@given(
    st.lists(st.tuples(st.text(max_size=30), st.sampled_from(["turn.text", "receipt"])), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 400), max_size=10),
)
def test_frames_are_the_same_wherever_the_stream_is_cut(told: list[tuple[str, str]], end: str, cuts: list[int]) -> None:
    sent = [Frame(f"e:{n}", event, json.dumps(text, ensure_ascii=False)) for n, (text, event) in enumerate(told)]
    raw = "".join(f"id: {f.id}{end}event: {f.event}{end}data: {f.data}{end}{end}" for f in sent).encode()

    assert frames(raw, cuts) == sent


def test_only_line_feeds_and_carriage_returns_end_a_line() -> None:
    raw = f"data: {LINE_SEPARATORS_OF_STR_ONLY}\n\n".encode()

    assert [frame.data for frame in frames(raw, [])] == [LINE_SEPARATORS_OF_STR_ONLY]


def test_comments_retries_and_empty_frames_tell_nothing() -> None:
    assert frames(b": still here\n\nretry: 2000\n\nevent: x\n\nid: 7\n\n", []) == []


def test_data_lines_are_joined_and_an_id_stays_until_the_next() -> None:
    raw = b"\xef\xbb\xbfid: 1\ndata: a\ndata:b\ndata\n\ndata: c\n\nid: x\0y\ndata: d\n\nid:\ndata: e\n\n"

    assert frames(raw, []) == [
        Frame("1", "message", "a\nb\n"),
        Frame("1", "message", "c"),
        Frame("1", "message", "d"),
        Frame("", "message", "e"),
    ]


def test_half_a_frame_at_the_end_is_not_told() -> None:
    assert frames(b"data: a\n\ndata: b\n", []) == [Frame("", "message", "a")]


@pytest.mark.parametrize("raw", [b"data: " + b"x" * 200, b"data: xxxxxxxxxx\n" * 20])
def test_an_event_without_an_end_is_refused(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "FRAME_CHARACTERS_MAX", 100)

    with pytest.raises(FrameTooLong):
        frames(raw, [50, 100, 150])


def test_a_long_event_is_read_in_linear_time() -> None:
    raw = b"data: " + b"x" * 3_000_000 + b"\n\n"

    found = frames(raw, list(range(0, len(raw), 1000)))

    assert [len(frame.data) for frame in found] == [3_000_000]
