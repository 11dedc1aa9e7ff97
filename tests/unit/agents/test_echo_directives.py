"""What in a text is a directive to the echo agent, and what comes back."""

import time

import pytest

from antiphon.agents.echo.program import Program, decode, encode


def read(text: str) -> tuple[list[tuple[str, list[str]]], str]:
    actions, rest = Program().read(text)
    return [(action.__name__, arguments) for action, arguments in actions], rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "  spaces at both ends \n",
        "a\u2028b\u2029c\x85d 😀👩\u200d👩\u200d👧 e\u0301\n\nline\tend\0",
        "[[unknown]] [[]] [[ ]] [[sleep]] [[sleep x]] [[sleep -1]] [[sleep nan]] [[sleep inf]] [[sleep 1 2]]",
        "[[hold]] [[hold a b]] [[hold ../up]] [[hold /etc/passwd]] [[hold .]] [[hold ..]] [[hold a\0b]]",
        "[[hold \ud800]]",
        "[[stream 3]] [[stream 3 all 2]] [[stream x every 2]] [[bytes]] [[exit]] [[ask]] [[fail ]] [[pid 1]] [[late]]",
        "[[sleep 1] ] [ [sleep 1]] [[sleep 1",
    ],
)
def test_a_text_without_directives_comes_back_as_it_is(text: str):
    assert read(text) == ([], text)


@pytest.mark.parametrize(
    ("text", "actions", "rest"),
    [
        ("[[hold w1]] w1", [("hold", ["w1"])], "w1"),
        ("w1 [[exit 3]]", [("leave", ["3"])], "w1"),
        ("before [[sleep 0.5]] after", [("sleep", ["0.5"])], "before after"),
        ("a\n[[pid]]\nb", [("pid", [])], "a\nb"),
        ("[[stream 3000 every 10]]", [("stream", ["3000", "10"])], ""),
        ("[[ask may I do this?]] done", [("ask", ["may I do this?"])], "done"),
        ("[[fail it broke]]", [("fail", ["it broke"])], ""),
        ("[[ignore-cancel]] [[late 1]]", [("ignore_cancel", []), ("late", ["1"])], ""),
        ("[[split-utf8]]", [("split_utf8", [])], ""),
        ("[[bytes 3]][[stderr 4]]x", [("flood", ["3"]), ("stderr", ["4"])], "x"),
        ("[[tool a b]]x[[spawn]]y", [("tool", ["a b"]), ("spawn", [])], "xy"),
        ("[[[sleep 1]]]", [("sleep", ["1"])], "[]"),
        ("[[nothing [[pid]] ]]", [("pid", [])], "[[nothing ]]"),
    ],
)
def test_directives_are_obeyed_in_their_order_and_the_rest_is_said(
    text: str, actions: list[tuple[str, list[str]]], rest: str
):
    assert read(text) == (actions, rest)


@pytest.mark.parametrize("text", ["[[" * 200_000, "[[" * 200_000 + "]]", "[[pid]]" * 50_000, "[[pid]] " * 50_000])
def test_no_text_takes_long_to_read(text: str):
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "words", [[], [""], ["prompt", "turn_1", 'a "b" \\ \n\r\t\x00\x1f\u2028 😀 \ud800 [","] ]'], ["a", "b"]]
)
def test_lines_hold_any_words(words: list[str]):
    line = encode(*words)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert decode(line[:-1]) == words
