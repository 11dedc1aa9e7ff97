"""A `codex app-server` that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.codex SCRIPT.json

The script is a JSON list of steps, each an object with one key, carried out one after the other:

| step | does |
|---|---|
| `{"await": METHOD}` | reads until that request comes |
| `{"answer": RESULT}` | answers the request that was awaited last |
| `{"refuse": MESSAGE}` | answers it with an error |
| `{"tell": {"method": …, "params": …}}` | sends a message, whatever it holds; with an `id` it is a request |
| `{"await_answer": ID}` | reads until that request of ours is answered; the answer goes to stderr |
| `{"raw": TEXT}` | writes the text as a line |
| `{"hex": DIGITS}` | writes those bytes as a line |
| `{"long": [HEAD, BYTES]}` | writes a line of HEAD and then so many letters |
| `{"stderr": TEXT}` | writes to stderr |
| `{"close": "stdout"}` | closes stdout and lives on |
| `{"exit": CODE}` | ends at once |
| `{"signal": NUMBER}` | sends itself a signal |
| `{"hang": true}` | never reads or writes again, and ignores SIGTERM |

Requests that no step awaits are left unanswered, but for the opening: `initialize`, `thread/start` and `thread/resume`
are answered (with the thread `thread-1`) unless a step awaits them. After the last step it reads on, and ends with its
input.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

THREAD_ID = "thread-1"
OPENING: dict[str, dict[str, Any]] = {
    "initialize": {"userAgent": "fault_lab/0"},
    "thread/start": {"thread": {"id": THREAD_ID}},
    "thread/resume": {"thread": {"id": THREAD_ID}},
}


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: Any = None
    error: Any = None


class ScriptedCodex:
    """Follows one script."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps
        self._awaited = {step["await"] for step in steps if "await" in step}
        self._last_request: int | str | None = None
        self._messages = self._read()

    def run(self) -> None:
        """Carry out the steps, then read until the input ends."""
        for step in self._steps:
            for kind, value in step.items():
                self._do(kind, value)
        for _ in self._messages:
            pass

    def _do(self, kind: str, value: Any) -> None:
        match kind:
            case "await":
                self._last_request = next(message.id for message in self._messages if message.method == value)
            case "answer":
                self._write(msgspec.json.encode({"id": self._last_request, "result": value}))
            case "refuse":
                error = {"code": -32600, "message": value}
                self._write(msgspec.json.encode({"id": self._last_request, "error": error}))
            case "tell":
                self._write(msgspec.json.encode(value))
            case "await_answer":
                answers = (message for message in self._messages if message.method is None and message.id == value)
                answer = next(answers)
                sys.stderr.write(f"answer {msgspec.json.encode(answer.result or answer.error).decode()}\n")
                sys.stderr.flush()
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

    def _read(self) -> Iterator[_Message]:
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line, type=_Message)
            if message.method in OPENING and message.method not in self._awaited:
                self._write(msgspec.json.encode({"id": message.id, "result": OPENING[message.method]}))
            yield message

    def _write(self, line: bytes) -> None:
        left = memoryview(line + b"\n")
        while left:
            left = left[os.write(1, left) :]


def main() -> None:
    """Follow the script that the first argument names; what `codex` would take besides is ignored."""
    ScriptedCodex(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[dict[str, Any]])).run()


if __name__ == "__main__":
    main()
