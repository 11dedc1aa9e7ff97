"""Request headers, read as their specifications say."""

import pytest

from antiphon.core.errors import InvalidRequest
from antiphon.http.headers import (
    applied_wait,
    expected_revision,
    idempotency_key,
    preferred_wait_s,
    wants_events,
)


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (["wait=10"], 10),
        (['wait="10"'], 10),
        (["WAIT = 0.5"], 0.5),
        (["respond-async, wait=10"], 10),
        (["respond-async", "wait=10"], 10),
        (["wait=10; foo"], 10),
        (["wait=1, wait=2"], 1),
        (['foo="a, wait=5", wait=7'], 7),
        (["foo; wait=3"], None),
        (["wait=abc", "wait=5"], None),
        (["wait=-1"], None),
        (["wait=1e999"], None),
        (['wait="'], None),
        (["wait"], None),
        ([",,;="], None),
        (["wait=999999999"], 3600),
        (["wait=0"], 0),
        (["x" * 1024 + ", wait=1"], None),
    ],
)
def test_the_preferred_wait_is_the_first_that_can_be_understood(values: list[str], seconds: float | None) -> None:
    assert preferred_wait_s(values, longest_s=3600) == seconds


@pytest.mark.parametrize(
    ("seconds", "told"), [(10.0, "wait=10"), (0.5, "wait=0.5"), (0.0, "wait=0"), (100, "wait=100")]
)
def test_the_applied_wait_is_told_as_a_person_would_write_it(seconds: float, told: str) -> None:
    assert applied_wait(seconds) == told


@pytest.mark.parametrize(("value", "revision"), [(None, None), ("*", None), ("7", 7), ('"7"', 7), (" 12 ", 12)])
def test_an_if_match_names_a_revision(value: str | None, revision: int | None) -> None:
    assert expected_revision(value) == revision


@pytest.mark.parametrize("value", ["", "x", 'W/"7"', '"7', '7"', "-7", '"7", "8"', "7.0", "9" * 16, "\u0667"])
def test_an_if_match_that_names_none_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest):
        expected_revision(value)


@pytest.mark.parametrize("values", [[""], ["k" * 256], ["a", "b"]])
def test_an_idempotency_key_is_given_once_and_is_neither_empty_nor_long(values: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        idempotency_key(values)
    assert idempotency_key([]) is None
    assert idempotency_key(["k" * 255]) == "k" * 255


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        ([], False),
        (["text/event-stream"], True),
        (["Text/Event-Stream; charset=utf-8"], True),
        (["application/json, text/event-stream;q=0.1"], True),
        (["application/json", "text/event-stream"], True),
        (["text/event-stream;q=0"], False),
        (["text/event-stream;q=0.000"], False),
        (["text/event-streams"], False),
        (["*/*"], False),
        ([";;,q=x"], False),
    ],
)
def test_events_are_sent_to_whoever_accepts_them_by_name(accept: list[str], events: bool) -> None:
    assert wants_events(accept) is events
