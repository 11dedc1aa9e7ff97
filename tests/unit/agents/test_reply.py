from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.agents.reply import Reply

WORDS = st.text(alphabet="ab \n", min_size=1, max_size=12)


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.tuples(WORDS, st.lists(st.integers(0, 20), max_size=4), st.booleans()), max_size=4))
def test_every_message_is_said_once_however_it_comes(messages: list[tuple[str, list[int], bool]]) -> None:
    reply, said = Reply(), ""
    for number, (text, places, in_pieces) in enumerate(messages):
        for piece in cut(text, places) if in_pieces else ():
            said += reply.piece(f"m{number}", piece)
        said += reply.whole(f"m{number}", text)
        said += reply.whole(f"m{number}", text)
    assert said == "\n\n".join(text for text, _, _ in messages)


@given(WORDS, WORDS, st.lists(st.integers(0, 20), max_size=4))
def test_what_a_model_repeats_after_its_connection_broke_is_said_once(first: str, more: str, places: list[int]) -> None:
    reply = Reply()
    said = reply.piece("m1", first)
    reply.broke_off()
    for piece in cut(first + more, places):
        said += reply.piece("m2", piece)
    said += reply.whole("m2", first + more)
    assert said == first + more


def test_a_repetition_that_breaks_off_again_before_its_end_is_said_once() -> None:
    reply = Reply()
    said = reply.piece("m1", "one two")
    reply.broke_off()
    said += reply.piece("m2", "one")
    reply.broke_off()
    said += reply.piece("m3", "one two three")
    assert said == "one two three"


def test_a_model_that_says_something_else_the_second_time_is_heard_in_full() -> None:
    reply = Reply()
    said = reply.piece("m1", "one two")
    reply.broke_off()
    said += reply.piece("m2", "one ")
    said += reply.piece("m2", "three")
    said += reply.whole("m2", "one three")
    assert said == "one two\n\none three"


def test_what_comes_late_for_a_message_that_is_complete_is_not_said() -> None:
    reply = Reply()
    assert reply.whole("m1", "one") == "one"
    assert reply.piece("m1", " two") == ""


def test_a_message_that_is_given_up_for_another_is_set_apart() -> None:
    reply = Reply()
    assert reply.piece("m1", "half") + reply.whole("m2", "whole") == "half\n\nwhole"
