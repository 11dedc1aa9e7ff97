"""The conversation as the model knows it, on disk: a file of JSON lines for each, which only grows while it is open.

What a person said is on disk, and synced, before the model hears it; what the model says is written as it comes. So
after any end of this process or of the machine the next one knows what was said, at most without its last words. A line
that was not written to its end is not there. A turn that came to no good end stays, with what was said and a remark
that it was cut short; one that failed before the model said anything does not.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.agents.openai.context import tokens

CUT = "[This answer was cut short.]"
NO_RESULT = "[There is no result: the turn was cut short.]"
REWRITE_FACTOR = 4
REWRITE_FROM_BYTES = 1 << 20

End = Literal["completed", "cut", "dropped"]
Message = dict[str, Any]


class Begun(msgspec.Struct, frozen=True, tag="turn"):
    """A turn has begun with this message."""

    turn_id: str
    message: Message


class Added(msgspec.Struct, frozen=True, tag="message"):
    """A whole message; what came of it in pieces is part of it."""

    message: Message


class Said(msgspec.Struct, frozen=True, tag="piece"):
    """A piece of a message of the model's that is not whole yet."""

    text: str


class Ended(msgspec.Struct, frozen=True, tag="end"):
    """The turn is over."""

    how: End


class LeftOut(msgspec.Struct, frozen=True, tag="left_out"):
    """So many of the oldest turns are not sent any more."""

    turns: int


Record = Begun | Added | Said | Ended | LeftOut


class Missing(Exception):
    """There is no such conversation, or it can't be read. The text says why."""


class Turn(msgspec.Struct):
    """A turn of the conversation.

    Attributes:
        turn_id: The host's id.
        messages: What was said in it, as the model is sent it.
        pieces: What was said of a message that is not whole.
    """

    turn_id: str
    messages: list[Message]
    pieces: list[str] = []

    @property
    def size(self) -> int:
        """In estimated tokens."""
        return sum(map(tokens, self.messages))

    def finish(self) -> None:
        """Make a turn that was cut short one that can stand in a conversation: every call has its result, and the
        last word is the model's."""
        said = "".join(self.pieces)
        self.pieces = []
        open_calls = list(_calls_without_result(self.messages))
        self.messages += [{"role": "tool", "tool_call_id": call_id, "content": NO_RESULT} for call_id in open_calls]
        self.messages.append({"role": "assistant", "content": f"{said}\n\n{CUT}" if said else CUT})


class Transcript:
    """A conversation. Its turns but for those that were left out are in `past`; the running one is in `present`.

    Use `begin`; or `open` where there must be one already, or `branch` where it begins as another one did. The file is
    this process's alone.
    """

    def __init__(self, path: Path | None) -> None:
        """Begin a conversation; without a path it is kept in memory alone. Its file comes with the first message."""
        self.past: list[Turn] = []
        self.present: Turn | None = None
        self._path = path
        self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    @classmethod
    def open(cls, path: Path) -> "Transcript":
        """Go on with a conversation.

        Raises:
            Missing: It is gone, or can't be read.
        """
        transcript = cls(path)
        data = _read(path)
        transcript._take_in(data)
        transcript._tidy(len(data), ends=not data or data.endswith(b"\n"))
        return transcript

    @classmethod
    def branch(cls, origin: Path, turn_id: str, path: Path) -> "Transcript":
        """Begin a conversation with what another one held when that turn was over. The other one may be in use.

        Raises:
            Missing: The other one is gone, can't be read, or does not hold that turn any more.
        """
        transcript = cls(path)
        transcript._take_in(_read(origin))
        ends = [place for place, turn in enumerate(transcript.past, 1) if turn.turn_id == turn_id]
        if not ends:
            raise Missing(f"it does not hold the turn {turn_id} any more")
        del transcript.past[ends[-1] :]
        transcript._rewrite(_lines(transcript.past))
        return transcript

    @property
    def last_turn(self) -> str | None:
        """The last turn that is over and in the conversation."""
        return self.past[-1].turn_id if self.past else None

    @property
    def answered(self) -> bool:
        """Whether the model has done anything in the running turn."""
        return self.present is not None and (len(self.present.messages) > 1 or bool(self.present.pieces))

    def begin(self, turn_id: str, message: Message) -> None:
        """Begin a turn. Returns once that is on disk."""
        self._write(Begun(turn_id, message), sync=True)

    def add(self, message: Message) -> None:
        """Add a whole message to the turn."""
        self._write(Added(message))

    def say(self, text: str) -> None:
        """Note a piece of what the model says."""
        self._write(Said(text))

    def end(self, how: End) -> None:
        """The turn is over."""
        self._write(Ended(how), sync=True)

    def leave_out(self, turns: int) -> None:
        """Do not send the oldest turns any more."""
        self._write(LeftOut(turns))

    # The state that the records give

    def _take_in(self, data: bytes) -> None:
        for record in _records(data):
            self._apply(record)
        if self.present is not None:
            self._close_turn("cut")

    def _apply(self, record: Record) -> None:
        match record:
            case Begun(turn_id=turn_id, message=message):
                if self.present is not None:
                    self._close_turn("cut")
                self.present = Turn(turn_id, [message])
            case Ended(how=how):
                self._close_turn(how)
            case LeftOut(turns=turns):
                del self.past[:turns]
            case Added(message=message):
                if self.present is not None:
                    self.present.messages.append(message)
                    self.present.pieces = []
            case Said(text=text):
                if self.present is not None:
                    self.present.pieces.append(text)

    def _close_turn(self, how: End) -> None:
        turn, self.present = self.present, None
        if turn is None or how == "dropped":
            return
        if how == "cut":
            turn.finish()
        self.past.append(turn)

    # The file

    def _write(self, record: Record, *, sync: bool = False) -> None:
        if self._path is not None:
            if self._fd < 0:
                self._fd = _appending(self._path)
            _write_all(self._fd, _line(record))
            if sync:
                os.fsync(self._fd)
        self._apply(record)

    def _tidy(self, size: int, *, ends: bool) -> None:
        """Write the file anew when it holds much that is left out, or when its last line is torn."""
        lines = _lines(self.past)
        if not ends or (size > REWRITE_FROM_BYTES and size > REWRITE_FACTOR * sum(map(len, lines))):
            self._rewrite(lines)

    def _rewrite(self, lines: list[bytes]) -> None:
        assert self._path is not None
        beside = self._path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        fd = _appending(beside)
        try:
            for line in lines:
                _write_all(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)
        beside.replace(self._path)


def _records(data: bytes) -> Iterator[Record]:
    """The records in a file. What can't be read, because the machine went down while it was written, is skipped."""
    for line in data.split(b"\n"):
        try:
            yield msgspec.json.decode(line, type=Record)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue


def _read(path: Path) -> bytes:
    """What is in a file.

    Raises:
        Missing: It can't be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Missing(error.strerror or str(error)) from error


def _lines(turns: list[Turn]) -> list[bytes]:
    return [_line(record) for turn in turns for record in _records_of(turn)]


def _records_of(turn: Turn) -> Iterator[Record]:
    first, *more = turn.messages
    yield Begun(turn.turn_id, first)
    for message in more:
        yield Added(message)
    yield Ended("completed")


def _calls_without_result(messages: list[Message]) -> Iterator[str]:
    results = {message.get("tool_call_id") for message in messages if message["role"] == "tool"}
    for message in messages:
        for call in message.get("tool_calls", ()):
            if call["id"] not in results:
                yield call["id"]


def _line(record: Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def _appending(path: Path) -> int:
    """The file to write to, made if need be, in a directory that knows of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
