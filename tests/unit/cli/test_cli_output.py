"""What is printed, and what never reaches a terminal."""

import io
import json
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.cli.listing import ago, at, clock, cut, fields, lasting, table, width
from antiphon.cli.output import CannotPrint, Output, in_a_row, visible

EVIL = "\x1b]0;title\x07\x1b[2J\r\x00\x7f\x9b31m\u202egnp.exe\u2066"


class Stream(io.TextIOWrapper):
    """A stdout or stderr that is a terminal or not."""

    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> bytes:
        """What was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def printed(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, **how: Any) -> tuple[Output, Stream]:
    """An output, and what it prints to as stdout."""
    stream = Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Output(**how), stream


def is_harmless(text: str) -> bool:
    """Whether a terminal only prints this."""
    return not any(
        unicodedata.category(char) == "Cc" or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        for char in text
    )


@given(st.text())
@example(EVIL)
def test_no_control_character_is_left_in_what_is_made_visible(text: str) -> None:
    assert is_harmless(visible(text).replace("\n", "").replace("\t", ""))
    assert is_harmless(in_a_row(text))
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_an_answer_goes_to_a_pipe_as_it_is_and_to_a_terminal_made_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    out, stream = printed(monkeypatch, terminal=False)
    out.answer(f"{EVIL}\n\té")
    assert stream.written.decode() == f"{EVIL}\n\té"

    out, stream = printed(monkeypatch, terminal=True)
    out.answer(f"{EVIL}\n\té")
    assert is_harmless(stream.written.decode().replace("\n", "").replace("\t", ""))
    assert stream.written.decode().endswith("\n\té")


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_tables_and_fields_are_harmless_everywhere(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, stream = printed(monkeypatch, terminal=terminal, colour=False)

    out.line(EVIL)
    table(out, ("A", "B"), [(EVIL, f"x\ny\tz{EVIL}")])
    fields(out, [("name", EVIL), ("nothing", None)])

    assert is_harmless(stream.written.decode().replace("\n", ""))
    assert len(stream.written.decode().splitlines()) == 4


@pytest.mark.parametrize("terminal", [True, False])
def test_a_document_is_the_same_json_everywhere(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, stream = printed(monkeypatch, terminal=terminal)
    document = {"text": f"é{EVIL}\n\ud800"}

    out.document(document)

    assert json.loads(stream.written) == document
    assert stream.written.count(b"\n") == 1
    assert not terminal or is_harmless(stream.written.decode().strip("\n"))


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = printed(monkeypatch, terminal=True)
    assert out.coloured("idle ") == "\x1b[32midle \x1b[0m"
    assert out.coloured("from the future") == "from the future"

    for terminal, colour in ((False, True), (True, False)):
        out, _ = printed(monkeypatch, terminal=terminal, colour=colour)
        assert out.coloured("idle") == out.bold("idle") == "idle"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Output().coloured("idle") == "idle"


def test_quiet_keeps_notes_back_and_errors_not(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)

    out = Output(quiet=True)
    out.note("note")
    out.error(f"error{EVIL}")

    assert stream.written.decode().startswith("error")
    assert is_harmless(stream.written.decode().strip("\n"))


def test_a_terminal_of_another_encoding_gets_escapes_instead_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=True, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    Output().answer("é😀\n")

    assert stream.written == b"\\xe9\\U0001f600\n"


def test_a_stream_that_takes_a_little_at_a_time_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.RawIOBase):
        taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.taken += bytes(data[:3])
            return min(3, len(data))

    slow = Slow()
    stream = Stream(terminal=False)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(Stream, "buffer", slow, raising=False)

    Output().answer("0123456789")

    assert slow.taken == b"0123456789"


def test_a_full_disk_is_told_and_a_closed_pipe_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.RawIOBase):
        error: OSError

        def write(self, data: Any) -> int:
            raise self.error

    broken = Broken()
    monkeypatch.setattr(sys, "stdout", Stream(terminal=False))
    monkeypatch.setattr(Stream, "buffer", broken, raising=False)

    broken.error = OSError(28, "No space left on device")
    with pytest.raises(CannotPrint, match="No space left"):
        Output().line("x")
    broken.error = BrokenPipeError()
    with pytest.raises(BrokenPipeError):
        Output().line("x")


def test_columns_stand_under_their_heads_for_wide_and_combining_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    out, stream = printed(monkeypatch, terminal=False)

    table(out, ("NAME", "X"), [("漢字", "1"), ("e\u0301", "2"), ("abcd", "3")])

    assert stream.written.decode().splitlines() == ["NAME  X", "漢字  1", "e\u0301     2", "abcd  3"]


def test_a_terminal_gets_the_last_column_cut_and_a_pipe_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for terminal in (True, False):
        out, stream = printed(monkeypatch, terminal=terminal, colour=False)
        table(out, ("KEY", "TITLE"), [("k" * 20, "t" * 100)])
        longest = max(map(len, stream.written.decode().splitlines()))
        assert longest == (40 if terminal else 122)


@given(st.text(st.characters(categories=["L", "Mn", "So", "Zs"])), st.integers(1, 20))
def test_a_cut_text_never_takes_more_room_than_it_may(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "now"),
        (0, "now"),
        (1, "1 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (90_000, "1 d ago"),
    ],
)
def test_times_are_told_as_people_tell_them(seconds: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime, timedelta

    from antiphon.cli import listing

    then = datetime(2026, 5, 4, 3, 2, 1, 250_000, UTC)
    monkeypatch.setattr(listing, "_now", lambda: then + timedelta(seconds=seconds))

    assert ago("2026-05-04T03:02:01.250Z") == words
    assert at("2026-05-04T03:02:01.250Z").endswith(f":02:01 ({words})")
    assert clock("2026-05-04T03:02:01.250Z").endswith(":02:01.250")


def test_what_is_long_past_is_told_by_its_date() -> None:
    assert ago("2020-05-04T12:02:01.250Z") == "2020-05-04"


def test_a_missing_or_odd_time_is_nothing() -> None:
    assert [ago(None), at(""), clock("soon"), lasting(None, "2026-05-04T03:02:01.250Z")] == ["", "", "", ""]
    assert lasting("2026-05-04T03:02:01.250Z", "2026-05-04T03:02:03.750Z") == "2.5 s"
