"""A Claude Code that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.claude SCRIPT.json

The script is a JSON list of steps, each an object with one key, carried out one after the other:

| step | does |
|---|---|
| `{"await": "user"}` | reads until a message of the user comes |
| `{"await": SUBTYPE}` | reads until a request of that subtype comes |
| `{"answer": RESULT}` | answers the request that was awaited last |
| `{"refuse": MESSAGE}` | answers it with an error |
| `{"tell": LINE}` | sends a line, whatever it holds |
| `{"await_answer": ID}` | reads until that request of ours is answered; the answer goes to stderr |
| `{"raw": TEXT}` | writes the text as a line |
| `{"hex": DIGITS}` | writes those bytes as a line |
| `{"long": [HEAD, BYTES]}` | writes a line of HEAD and then so many letters |
| `{"stderr": TEXT}` | writes to stderr |
| `{"close": "stdout"}` | closes stdout and lives on |
| `{"exit": CODE}` | ends at once |
| `{"signal": NUMBER}` | sends itself a signal |
| `{"hang": true}` | never reads or writes again, and ignores SIGTERM |

In a line, `"$1"`, `"$2"`… stand for the uuids of the user's messages that came, in their order.

Requests that no step awaits are left unanswered, but for `initialize`, which is answered unless a step awaits it. After
the last step it reads on, and ends with its input.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class _Request(msgspec.Struct):
    subtype: str


class _Response(msgspec.Struct):
    request_id: str
    response: Any = None
    error: Any = None


class _Message(msgspec.Struct):
    type: str
    uuid: str = ""
    request_id: str = ""
    request: _Request | None = None
    response: _Response | None = None

    @property
    def what(self) -> str:
        """What a step awaits it by."""
        return self.request.subtype if self.request else self.type


class ScriptedClaude:
    """Follows one script."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps
        self._awaited = {step["await"] for step in steps if "await" in step}
        self._last_request = ""
        self._uuids: list[str] = []
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
                message = next(message for message in self._messages if message.what == value)
                self._last_request = message.request_id
            case "answer":
                self._answer({"subtype": "success", "response": value})
            case "refuse":
                self._answer({"subtype": "error", "error": value})
            case "tell":
                self._write(msgspec.json.encode(value))
            case "await_answer":
                answers = (each.response for each in self._messages if each.response)
                answer = next(answer for answer in answers if answer.request_id == value)
                sys.stderr.write(f"answer {msgspec.json.encode(answer.response or answer.error).decode()}\n")
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

    def _answer(self, response: dict[str, Any]) -> None:
        told = {"request_id": self._last_request, **response}
        self._write(msgspec.json.encode({"type": "control_response", "response": told}))

    def _read(self) -> Iterator[_Message]:
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line, type=_Message)
            if message.type == "user":
                self._uuids.append(message.uuid)
            elif message.what == "initialize" and "initialize" not in self._awaited:
                self._last_request = message.request_id
                self._answer({"subtype": "success", "response": {}})
            yield message

    def _write(self, line: bytes) -> None:
        for number, message_uuid in enumerate(self._uuids, 1):
            line = line.replace(b'"$%d"' % number, b'"%s"' % message_uuid.encode())
        left = memoryview(line + b"\n")
        while left:
            left = left[os.write(1, left) :]


def main() -> None:
    """Follow the script that the first argument names; what `claude` would take besides is ignored."""
    ScriptedClaude(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[dict[str, Any]])).run()


if __name__ == "__main__":
    main()
