"""Programs that follow a script and misbehave as it says: what those of all protocols have in common.

The script is a JSON list of steps, each an object with one key, carried out one after the other. A protocol has steps
of its own, and these are of all:

| step | does |
|---|---|
| `{"tell": MESSAGE}` | sends a message, whatever it holds |
| `{"at_once": [STEP, …]}` | carries out the steps, and writes all that they send in one write |
| `{"raw": TEXT}` | writes the text as a line |
| `{"hex": DIGITS}` | writes those bytes as a line |
| `{"long": [HEAD, BYTES]}` | writes a line of HEAD and then so many letters |
| `{"bytewise": true}` | from here on every byte is a write of its own |
| `{"stderr": TEXT}`, `{"stderr": BYTES}` | writes the text to stderr, or so many letters |
| `{"close": "stdout"}`, `{"close": "stdin"}` | closes it and lives on |
| `{"fork": true}` | leaves a process behind, in a session of its own, that holds its pipes and ignores SIGTERM |
| `{"exit": CODE}` | ends at once |
| `{"signal": NUMBER}` | sends itself a signal |
| `{"hang": true}` | never reads or writes again, and ignores SIGTERM |

After the last step a program reads on, and ends with its input.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

Message = TypeVar("Message")
Step = dict[str, Any]


def script() -> list[Step]:
    """The script that the program's first argument names."""
    return msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[Step])


class ScriptedProgram(Generic[Message]):
    """Follows one script. A protocol says what it reads, with `take`, and which steps it adds, with `act`.

    Attributes:
        awaited: What some step awaits, and so answers.
        messages: What comes, each message once, whoever looks at it.
    """

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._bytewise = False
        self._gathered: list[bytes] | None = None
        self.awaited = {step["await"] for step in steps if "await" in step}
        self.messages: Iterator[Message] = map(self.take, sys.stdin.buffer)

    def take(self, line: bytes) -> Message:
        """Read a line that came, and answer it where no step does."""
        raise NotImplementedError

    def act(self, kind: str, value: Any) -> bool:
        """Carry out a step of the protocol's own; False when none is called so."""
        raise NotImplementedError

    def filled(self, line: bytes) -> bytes:
        """A line with what it stands for in place of `$1`, `$2`…, where the protocol knows them."""
        return line

    def run(self) -> None:
        """Carry out the steps, then read until the input ends."""
        self._follow(self._steps)
        self.followed()
        for _ in self.messages:
            pass

    def followed(self) -> None:
        """Called after the last step."""

    def send(self, message: Any) -> None:
        """Write a message as a line."""
        self._line(msgspec.json.encode(message))

    def note(self, text: str) -> None:
        """Write to stderr."""
        sys.stderr.write(text)
        sys.stderr.flush()

    def _follow(self, steps: list[Step]) -> None:
        for step in steps:
            for kind, value in step.items():
                if not (self.act(kind, value) or self._write_badly(kind, value)):
                    self._misbehave(kind, value)

    def _write_badly(self, kind: str, value: Any) -> bool:
        match kind:
            case "tell":
                self.send(value)
            case "at_once":
                self._gathered = []
                self._follow(value)
                gathered, self._gathered = b"".join(self._gathered), None
                self._write(gathered)
            case "raw":
                self._line(value.encode())
            case "hex":
                self._line(bytes.fromhex(value))
            case "long":
                head, size = value
                self._line(head.encode() + b"x" * size)
            case "bytewise":
                self._bytewise = value
            case _:
                return False
        return True

    def _misbehave(self, kind: str, value: Any) -> None:
        match kind:
            case "stderr":
                self.note(value if isinstance(value, str) else "x" * value)
            case "close":
                os.close({"stdin": 0, "stdout": 1}[value])
            case "fork":
                if os.fork() == 0:
                    os.setsid()
                    _hang()
            case "exit":
                os._exit(value)
            case "signal":
                os.kill(os.getpid(), value)
            case "hang":
                _hang()
            case _:
                raise ValueError(f"no step is called {kind!r}")

    def _line(self, line: bytes) -> None:
        line = self.filled(line) + b"\n"
        if self._gathered is None:
            self._write(line)
        else:
            self._gathered.append(line)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(1, left[:1] if self._bytewise else left) :]


def _hang() -> NoReturn:
    """Ignore everything."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
