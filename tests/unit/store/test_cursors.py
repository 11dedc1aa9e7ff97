"""Cursors are checked when they come back, and a walk leaves nobody out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.store.cursors import Walk, cursor, place


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=300))
def test_a_place_comes_back_as_it_went(number: int, text: str) -> None:
    assert place("turns", cursor("turns", number, text), int, str) == (number, text)


@given(st.text(max_size=60))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a cursor of turns"):
        place("turns", text, int, str)


@pytest.mark.parametrize(
    "own", [cursor("sessions", 1, "a"), cursor("turns", 1), cursor("turns", "a", 1), cursor("turns")]
)
def test_a_cursor_of_another_list_or_form_is_refused(own: str) -> None:
    with pytest.raises(ValueError, match="not a cursor of turns"):
        place("turns", own, int, str)


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.lists(st.integers(0, 11), max_size=4), max_size=12),
)
def test_a_walk_meets_every_session_however_they_move(count: int, limit: int, moves: list[list[int]]) -> None:
    """Between any two pages some sessions move to the top, and for ever so long."""
    activity = {f"ses_{number}": number for number in range(count)}
    now, met, cursor_text = count, set[str](), None
    for turn in range(200):
        walk = Walk.parse(cursor_text)
        places = sorted(((at, id) for id, at in activity.items()), reverse=walk.down)
        ahead = [one for one in places if walk.is_ahead(one)]
        page = ahead[:limit]
        met |= {id for _, id in page}
        newer = walk.top is not None and any(one > walk.top for one in places)
        cursor_text = walk.next_cursor(page, more=len(ahead) > limit, newer=newer)
        if cursor_text is None:
            break
        for number in moves[turn] if turn < len(moves) else ():
            if number < count:
                now += 1
                activity[f"ses_{number}"] = now
    assert cursor_text is None
    assert met == set(activity)
