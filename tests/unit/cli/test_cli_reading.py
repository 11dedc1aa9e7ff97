"""Reading command lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.grammar import Incomplete, UsageError
from antiphon.cli.reading import read
from antiphon.cli.table import GLOBALS

MESSAGE = ["session", "message", "key", "--when-busy", "refuse", "hello there", "--file", "a", "--file=b", "--stream"]


def values(line: list[str]) -> dict[str, object]:
    """What a line gives."""
    return vars(read(line).given)["_values"]


def test_arguments_and_options_come_in_any_order() -> None:
    expected = {"ref": "key", "text": "hello there", "when_busy": "refuse", "file": ["a", "b"], "stream": True}

    assert values(MESSAGE) == expected
    assert (
        values(
            ["session", "message", "--stream", "--file", "a", "key", "--file", "b", "hello there", "--when-busy=refuse"]
        )
        == expected
    )


@given(
    st.integers(0, 4), st.sampled_from([["--json"], ["--url", "http://x"], ["--data-dir=/d"], ["-q"], ["--no-start"]])
)
def test_global_options_stand_before_between_and_after_the_words_of_a_command(place: int, option: list[str]) -> None:
    line = ["session", "message", "key", "hello"]

    found = values([*line[:place], *option, *line[place:]])

    assert found == {"ref": "key", "text": "hello"} | values([*option, "status"])


@pytest.mark.parametrize("text", ["-", "--help me", "-5 degrees", "", "a=b", "--file=x y z", "- item"])
def test_texts_that_look_a_little_like_options_are_texts(text: str) -> None:
    if text.startswith("--file="):
        assert values(["session", "message", "key", text, "hello"])["file"] == ["x y z"]
    else:
        assert values(["session", "message", "key", text])["text"] == text


def test_what_stands_behind_two_dashes_is_never_an_option() -> None:
    assert values(["session", "message", "key", "--stream", "--", "--json"]) == {
        "ref": "key", "text": "--json", "stream": True,
    }  # fmt: skip


def test_a_value_may_be_glued_to_its_option() -> None:
    for line in (["-o", "f"], ["-of"], ["--output", "f"], ["--output=f"]):
        assert values(["session", "export", "key", *line])["output"] == "f"


def test_the_last_of_an_option_that_is_given_twice_counts() -> None:
    assert values(["session", "message", "key", "x", "--timeout", "1", "--timeout", "2.5"])["timeout"] == 2.5


def test_an_empty_value_is_a_value() -> None:
    assert values(["session", "rename", "key", ""])["title"] == ""
    assert values(["session", "set", "key", "--title", ""])["title"] == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "no command 'nonsense'"),
        ("sesion list", "did you mean 'session'?"),
        ("session mesage key hi", "did you mean 'message'?"),
        ("session list --bogus", "no option '--bogus'"),
        ("session list --limitt 3", "did you mean '--limit'?"),
        ("--bogus session list", "no option '--bogus'"),
        ("session message", "REF is missing"),
        ("session message key a b", "'b' is one word too many"),
        ("session message key -x", "write -- before a text"),
        ("session message key hi --when-busy bogus", "refuse, queue, steer"),
        ("session message key hi --when-busy", "--when-busy takes a value: --when-busy MODE"),
        ("session message key hi --when-busy --stream", "takes a value"),
        ("session message key hi --timeout soon", "a number of seconds"),
        ("session message key hi --timeout -1", "takes a value"),
        ("session message key hi --timeout=-1", "a number of seconds"),
        ("session message key hi --timeout nan", "a number of seconds"),
        ("session message key hi --timeout inf", "a number of seconds"),
        ("session list --limit 2.5", "a whole number"),
        ("session list --json=yes", "--json takes no value"),
        ("completion tcsh", "SHELL is one of bash, zsh, fish"),
        ("agent check a b", "one word too many"),
    ],
)
def test_a_line_that_can_not_be_read_is_told_in_words(line: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(line.split())

    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("line", "path"), [("", ()), ("--json", ()), ("session", ("session",)), ("token -q", ("token",))]
)
def test_a_line_without_a_command_asks_for_one(line: str, path: tuple[str, ...]) -> None:
    with pytest.raises(Incomplete) as raised:
        read(line.split())

    assert raised.value.path == path


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("--help", ()),
        ("session --help", ("session",)),
        ("session message -h", ("session", "message")),
        ("-h status", ("status",)),
        ("help", ()),
        ("help session list", ("session", "list")),
    ],
)
def test_help_needs_no_complete_line(line: str, path: tuple[str, ...]) -> None:
    found = read(line.split())

    assert (found.path, found.given.flag("help")) == (path, True)


def test_pairs_have_a_name_and_a_value() -> None:
    given_values = read("session list --label a=1 --label b= --label c=d=e".split()).given

    assert given_values.pairs("label") == {"a": "1", "b": "", "c": "d=e"}
    for wrong in ("a", "=b"):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            read(["session", "list", "--label", wrong]).given.pairs("label")


@given(st.lists(st.text(max_size=8) | st.sampled_from([option.name for option in GLOBALS] + MESSAGE), max_size=8))
def test_any_line_is_read_or_refused_in_words(line: list[str]) -> None:
    try:
        found = read(line)
    except UsageError as error:
        assert str(error)
        assert error.command.startswith("antiphon")
    else:
        assert found.command or found.given.flag("help") or found.given.flag("version")
