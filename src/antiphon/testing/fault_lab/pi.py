"""A `pi --mode rpc` that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.pi SCRIPT.json

The script is a JSON list of steps, each an object with one key, carried out one after the other:

| step | does |
|---|---|
| `{"await": TYPE}` | reads until that command comes |
| `{"answer": DATA}` | answers, with success, the command that was awaited last |
| `{"refuse": MESSAGE}` | answers it with an error |
| `{"tell": {"type": …}}` | says an event, whatever it holds |
| `{"raw": TEXT}` | writes the text as a line |
| `{"hex": DIGITS}` | writes those bytes as a line |
| `{"long": [HEAD, BYTES]}` | writes a line of HEAD and then so many letters |
| `{"split": {"type": …}}` | says an event, each byte in a write of its own |
| `{"stderr": TEXT}` | writes to stderr |
| `{"close": "stdout"}` | closes stdout and lives on |
| `{"exit": CODE}` | ends at once |
| `{"signal": NUMBER}` | sends itself a signal |
| `{"hang": true}` | never reads or writes again, and ignores SIGTERM |

Commands that no step awaits are answered: `get_state` with an idle pi whose session is `--session-dir`/`lab.jsonl`,
any other with success. After the last step it reads on, and ends with its input.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class _Command(msgspec.Struct):
    type: str
    id: str | None = None


class ScriptedPi:
    """Follows one script.

    Args:
        steps: The script.
        place: Where its session would be.
    """

    def __init__(self, steps: list[dict[str, Any]], place: str) -> None:
        self._steps = steps
        self._state = {"isStreaming": False, "sessionFile": f"{place}/lab.jsonl"}
        self._last = _Command("")
        self._commands = self._read()
        self._awaiting = ""

    def run(self) -> None:
        """Carry out the steps, then read until the input ends."""
        for step in self._steps:
            for kind, value in step.items():
                self._do(kind, value)
        self._awaiting = ""
        for _ in self._commands:
            pass

    def _do(self, kind: str, value: Any) -> None:
        match kind:
            case "await":
                self._awaiting = value
                self._last = next(command for command in self._commands if command.type == value)
            case "answer":
                self._respond(self._last, success=True, data=value)
            case "refuse":
                self._respond(self._last, success=False, error=value)
            case "tell":
                self._write(msgspec.json.encode(value))
            case "split":
                line = msgspec.json.encode(value) + b"\n"
                for place in range(len(line)):
                    os.write(1, line[place : place + 1])
            case _:
                self._misbehave(kind, value)

    def _misbehave(self, kind: str, value: Any) -> None:
        match kind:
            case "raw":
                self._write(value.encode())
            case "hex":
                self._write(bytes.fromhex(value))
            case "long":
                head, size = value
                self._write(head.encode() + b"x" * size)
            case "stderr":
                sys.stderr.write(value)
                sys.stderr.flush()
            case "close":
                os.close(1)
            case "exit":
                os._exit(value)
            case "signal":
                os.kill(os.getpid(), value)
            case "hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    signal.pause()
            case _:
                raise ValueError(f"no step is called {kind!r}")

    def _read(self) -> Iterator[_Command]:
        for line in sys.stdin.buffer:
            command = msgspec.json.decode(line, type=_Command)
            if command.type != self._awaiting:
                data = {"data": self._state} if command.type == "get_state" else {}
                self._respond(command, success=True, **data)
            yield command

    def _respond(self, command: _Command, **fields: Any) -> None:
        self._write(msgspec.json.encode({"id": command.id, "type": "response", "command": command.type, **fields}))

    def _write(self, line: bytes) -> None:
        left = memoryview(line + b"\n")
        while left:
            left = left[os.write(1, left) :]


def main() -> None:
    """Follow the script that the first argument names; of what `pi` would take besides only `--session-dir` matters."""
    options = dict(zip(sys.argv[2:], sys.argv[3:], strict=False))
    steps = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[dict[str, Any]])
    ScriptedPi(steps, options.get("--session-dir", "")).run()


if __name__ == "__main__":
    main()
