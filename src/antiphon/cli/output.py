"""What a command prints: answers and documents to stdout, notes and errors to stderr.

What agents and people wrote may hold control characters, with which a terminal can be told to do things. They are made
visible wherever a terminal reads; an answer that goes to a file or a pipe is written as it is.
"""

import json
import os
import sys
from typing import Any, TextIO

_SPARED = "\n\t"
_COLOURS = {
    "idle": "32",
    "answered": "32",
    "completed": "32",
    "ok": "32",
    "running": "36",
    "queued": "36",
    "starting": "36",
    "asking": "33",
    "stalled": "33",
    "pending": "33",
    "paused": "33",
    "active": "32",
    "delivered": "32",
    "dead": "31",
    "disabled": "31",
    "warning": "33",
    "errored": "31",
    "failed": "31",
    "wrong": "31",
}


def visible(text: str, *, spared: str = _SPARED) -> str:
    r"""Text with its control characters written as escapes such as `\x1b`, but for those that are `spared`.

    These are C0, DEL and C1 (ECMA-48), and the characters that turn the direction of writing (Unicode UAX #9), with
    which a text can look like another one.
    """
    if text.isprintable():
        return text
    return "".join(char if char in spared or not _is_control(char) else _escaped(char) for char in text)


def terminal_width() -> int:
    """How many columns the terminal has: `$COLUMNS`, else what it says itself, else 100.

    That is `shutil.get_terminal_size`, without the 7 ms that importing every compressor costs.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 100
    except (OSError, ValueError):
        return 100


def in_a_row(text: str) -> str:
    """Text for one cell of a table: on one line, without control characters."""
    return visible(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "), spared="")


def _is_control(char: str) -> bool:
    code = ord(char)
    return (
        code < 0x20
        or 0x7F <= code < 0xA0
        or code in (0x061C, 0x200E, 0x200F, 0x2028, 0x2029)
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


class CannotPrint(Exception):
    """What there is to print can't be written."""


class Output:
    """Where a command prints. `as_json` asks for documents, `quiet` for no notes."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, colour: bool = True) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.to_terminal = sys.stdout.isatty()
        self._colour = colour and self.to_terminal and not os.environ.get("NO_COLOR")

    @property
    def coloured_at_all(self) -> bool:
        """Whether colour may be used: on a terminal, unless somebody said no."""
        return self._colour

    def answer(self, text: str) -> None:
        """An agent's words, which are not all of stdout's line yet: a piece of an answer."""
        self._write(sys.stdout, visible(text) if self.to_terminal else text)

    def line(self, text: str = "") -> None:
        """A line for people."""
        self._write(sys.stdout, visible(text) + "\n")

    def finished(self, line: str) -> None:
        """A line whose parts were made visible before they were coloured and put together."""
        self._write(sys.stdout, line + "\n")

    def document(self, document: Any) -> None:
        """A JSON document on a line of its own."""
        text = json.dumps(document, ensure_ascii=False)
        if self.to_terminal:
            text = "".join(f"\\u{ord(char):04x}" if _is_control(char) else char for char in text)
        self._write(sys.stdout, text + "\n")

    def note(self, text: str) -> None:
        """A word to people beside the answer, on stderr."""
        if not self.quiet:
            self._write(sys.stderr, visible(text) + "\n")

    def problem(self, document: Any) -> None:
        """A problem document on stderr, for programs."""
        self._write(sys.stderr, json.dumps(document) + "\n")

    def error(self, text: str) -> None:
        """What went wrong, on stderr."""
        self._write(sys.stderr, visible(text) + "\n")

    def coloured(self, text: str) -> str:
        """A status in its colour; the word itself says what it means. Padding behind it is kept."""
        code = _COLOURS.get(text.rstrip()) if self._colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text

    def bold(self, text: str) -> str:
        """A heading."""
        return f"\x1b[1m{text}\x1b[0m" if self._colour else text

    def _write(self, stream: TextIO, text: str) -> None:
        """Write and flush: who reads a pipe sees each piece as it comes. A lone surrogate becomes an escape.

        Raises:
            BrokenPipeError: Nobody reads any more.
            CannotPrint: The text can't be written, as on a full disk.
        """
        encoding = (stream.encoding or "utf-8") if stream.isatty() else "utf-8"
        left = memoryview(text.encode(encoding, "backslashreplace"))
        try:
            while left:  # an unbuffered stream may take a part only
                left = left[stream.buffer.write(left) :]
            stream.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CannotPrint(f"the output can't be written: {error.strerror}") from error
