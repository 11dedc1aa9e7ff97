"""A program that speaks ACP and follows a script, for orders and faults that real ones do not produce on demand.

    python -m antiphon.testing.fault_lab.acp SCRIPT.json

The script is a JSON list of steps, each an object with one key, carried out one after the other:

| step | does |
|---|---|
| `{"await": METHOD}` | reads until that request or notification comes |
| `{"answer": RESULT}` | answers the request that was awaited last |
| `{"refuse": ERROR}` | answers it with an error: a message, or an object with `code`, `message` and `data` |
| `{"update": UPDATE}` | tells an update of the session |
| `{"tell": {"method": …, "params": …}}` | sends a message, whatever it holds; with an `id` it is a request |
| `{"await_answer": ID}` | reads until that request of ours is answered; the answer goes to stderr |
| `{"at_once": [STEP, …]}` | carries out the steps, and writes all that they send in one write |
| `{"raw": TEXT}` | writes the text as a line |
| `{"hex": DIGITS}` | writes those bytes as a line |
| `{"long": [HEAD, BYTES]}` | writes a line of HEAD and then so many letters |
| `{"bytewise": true}` | from here on every byte is a write of its own |
| `{"stderr": TEXT}`, `{"stderr": BYTES}` | writes the text to stderr, or so many letters |
| `{"close": "stdout"}`, `{"close": "stdin"}` | closes it and lives on |
| `{"exit": CODE}` | ends at once |
| `{"signal": NUMBER}` | sends itself a signal |
| `{"hang": true}` | never reads or writes again, and ignores SIGTERM |

Requests that no step awaits are left unanswered, but for the opening, which is answered unless a step awaits it: a
session `session-1`, which can be loaded and resumed. In text, `$1`, `$2`… stand for the numbers of the prompts that
came, as they are written in JSON. A prompt that comes while another runs is told on stderr as `a second prompt`. After
the last step it reads on, and ends with its input.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

SESSION_ID = "session-1"
CAPABILITIES: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
OPENING: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": CAPABILITIES, "authMethods": []},
    "authenticate": {},
    "session/new": {"sessionId": SESSION_ID},
    "session/load": {},
    "session/resume": {},
    "session/set_mode": {},
    "session/set_model": {},
    "session/set_config_option": {"configOptions": []},
}
SECOND_PROMPT = "a second prompt"


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: Any = None
    error: Any = None


class ScriptedAcp:
    """Follows one script."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps
        self._awaited = {step["await"] for step in steps if "await" in step}
        self._last_request: int | str | None = None
        self._prompts: list[int | str | None] = []
        self._running: set[int | str | None] = set()
        self._messages = self._read()
        self._bytewise = False
        self._gathered: list[bytes] | None = None

    def run(self) -> None:
        """Carry out the steps, then read until the input ends."""
        self._follow(self._steps)
        for _ in self._messages:
            pass

    def _follow(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            for kind, value in step.items():
                self._do(kind, value)

    def _do(self, kind: str, value: Any) -> None:
        match kind:
            case "await":
                self._last_request = next(message.id for message in self._messages if message.method == value)
            case "answer":
                self._running.discard(self._last_request)
                self._send({"id": self._last_request, "result": value})
            case "refuse":
                self._running.discard(self._last_request)
                error = {"code": -32603, "message": value}
                self._send({"id": self._last_request, "error": error if isinstance(value, str) else value})
            case "update":
                self._send({"method": "session/update", "params": {"sessionId": SESSION_ID, "update": value}})
            case "tell":
                self._send(value)
            case "await_answer":
                answers = (message for message in self._messages if message.method is None and message.id == value)
                answer = next(answers)
                self._note(f"answer {msgspec.json.encode(answer.result or answer.error).decode()}\n")
            case "at_once":
                self._gathered = []
                self._follow(value)
                gathered, self._gathered = b"".join(self._gathered), None
                self._write(gathered)
            case _:
                self._misbehave(kind, value)

    def _misbehave(self, kind: str, value: Any) -> None:
        match kind:
            case "raw":
                self._line(value.encode())
            case "hex":
                self._line(bytes.fromhex(value))
            case "long":
                head, size = value
                self._line(head.encode() + b"x" * size)
            case "bytewise":
                self._bytewise = value
            case "stderr":
                self._note(value if isinstance(value, str) else "x" * value)
            case "close":
                os.close({"stdin": 0, "stdout": 1}[value])
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
            if message.method == "session/prompt":
                if self._running:
                    self._note(f"{SECOND_PROMPT}\n")
                self._prompts.append(message.id)
                self._running.add(message.id)
            if message.method in OPENING and message.method not in self._awaited:
                self._send({"id": message.id, "result": OPENING[message.method]})
            yield message

    def _send(self, message: dict[str, Any]) -> None:
        self._line(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _line(self, line: bytes) -> None:
        for place, number in enumerate(self._prompts, 1):
            known = msgspec.json.encode(number)
            line = line.replace(b'"$%d"' % place, known).replace(b"$%d" % place, known)
        if self._gathered is not None:
            self._gathered.append(line + b"\n")
        else:
            self._write(line + b"\n")

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(1, left[:1] if self._bytewise else left) :]

    def _note(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def main() -> None:
    """Follow the script that the first argument names."""
    ScriptedAcp(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[dict[str, Any]])).run()


if __name__ == "__main__":
    main()
