"""How much of a conversation is sent: whole turns, the newest first, with room to spare when some are left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.agents.openai.context import KEPT_SHARE, left_out, tokens

SIZES = st.lists(st.integers(1, 50), max_size=30)


@pytest.mark.parametrize(
    ("past", "present", "budget", "expected"),
    [
        ([], 100, 100, 0),
        ([], 101, 100, None),
        ([50, 49], 1, 100, 0),
        ([50, 50], 1, 100, 1),
        ([10, 10, 10, 70], 1, 100, 3),
        ([10, 80], 1, 90, 2),
        ([5, 5], 100, 100, 2),
    ],
)
def test_the_oldest_turns_are_left_out(past: list[int], present: int, budget: int, expected: int | None) -> None:
    assert left_out(past, present, budget) == expected


@given(SIZES, st.integers(0, 100), st.integers(1, 200))
def test_what_is_sent_fits_and_no_more_is_left_out_than_the_room_to_spare_asks_for(
    past: list[int], present: int, budget: int
) -> None:
    out = left_out(past, present, budget)
    if out is None:
        assert present > budget
        return
    assert present + sum(past[out:]) <= budget
    if out:
        assert present + sum(past) > budget
        assert present + sum(past[out - 1 :]) > int(budget * KEPT_SHARE)


def test_sizes_are_estimated_by_bytes() -> None:
    assert tokens({"role": "user", "content": "x" * 300}) == 108
    assert tokens({"role": "user", "content": "漢" * 100}) == 108
    calls = {"role": "assistant", "content": "", "tool_calls": [{"function": {"arguments": "x" * 300}}]}
    assert tokens(calls) > 108
    assert tokens({"name": "tool", "parameters": {}}) > 8
