"""Server-sent events, read as the HTML standard says (section 9.2.6, "Interpreting an event stream"). No I/O here."""

import codecs
from typing import NamedTuple

FRAME_CHARACTERS_MAX = 64 << 20


class Frame(NamedTuple):
    """One dispatched event. `id` is the last one that was set, by this frame or one before it."""

    id: str
    event: str
    data: str


class FrameTooLong(Exception):
    """A frame has no end within the limit."""


class FrameReader:
    """Feed it bytes as they come, cut anywhere; take the frames that are complete.

    After a break make a new one: half a frame is never completed by another connection.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: list[str] = []
        self._held = 0
        self._begun = False
        self._ends_in_cr = False
        self._last_id = ""
        self._event = ""
        self._data: list[str] = []
        self._data_length = 0

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            FrameTooLong: A line or frame passes `FRAME_CHARACTERS_MAX`; end the connection.
        """
        text = self._decoder.decode(piece)
        if not self._begun and text:
            self._begun, text = True, text.removeprefix("\ufeff")
        if self._ends_in_cr and text:  # a CRLF may be cut in the middle
            self._ends_in_cr, text = False, text.removeprefix("\n")
        frames = [frame for line in self._lines(text) if (frame := self._take(line))]
        if self._held + self._data_length > FRAME_CHARACTERS_MAX:
            raise FrameTooLong
        return frames

    def _lines(self, text: str) -> list[str]:
        """The lines that `text` completes. Only CR, LF and CRLF end one: `splitlines` knows too many others."""
        if "\r" in text:
            self._ends_in_cr = text.endswith("\r")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if "\n" not in text:
            self._pieces.append(text)
            self._held += len(text)
            return []
        head, *lines = text.split("\n")
        whole = ["".join((*self._pieces, head)), *lines]
        rest = whole.pop()
        self._pieces, self._held = [rest], len(rest)
        return whole

    def _take(self, line: str) -> Frame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._data_length += len(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._last_id = value
        return None

    def _dispatch(self) -> Frame | None:
        event, data = self._event, self._data
        self._event, self._data, self._data_length = "", [], 0
        return Frame(self._last_id, event or "message", "\n".join(data)) if data else None
