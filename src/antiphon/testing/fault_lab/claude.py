"""A Claude Code that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.claude SCRIPT.json

Its steps are those of `antiphon.testing.fault_lab.scripted`, and these:

| step | does |
|---|---|
| `{"await": "user"}` | reads until a message of the user comes |
| `{"await": SUBTYPE}` | reads until a request of that subtype comes |
| `{"answer": RESULT}` | answers the request that was awaited last |
| `{"refuse": MESSAGE}` | answers it with an error |
| `{"await_answer": ID}` | reads until that request of ours is answered; the answer goes to stderr |

In a line, `"$1"`, `"$2"`… stand for the uuids of the user's messages that came, in their order. Requests that no step
awaits are left unanswered, but for `initialize`, which is answered unless a step awaits it.
"""

from typing import Any

import msgspec

from antiphon.testing.fault_lab.scripted import ScriptedProgram, Step, script


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


class ScriptedClaude(ScriptedProgram[_Message]):
    """Follows one script."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(steps)
        self._last_request = ""
        self._uuids: list[str] = []

    def take(self, line: bytes) -> _Message:
        """Note the user's messages; answer the opening."""
        message = msgspec.json.decode(line, type=_Message)
        if message.type == "user":
            self._uuids.append(message.uuid)
        elif message.what == "initialize" and "initialize" not in self.awaited:
            self._answer(message.request_id, {"subtype": "success", "response": {}})
        return message

    def act(self, kind: str, value: Any) -> bool:
        """Await and answer."""
        match kind:
            case "await":
                self._last_request = next(message.request_id for message in self.messages if message.what == value)
            case "answer":
                self._answer(self._last_request, {"subtype": "success", "response": value})
            case "refuse":
                self._answer(self._last_request, {"subtype": "error", "error": value})
            case "await_answer":
                answers = (each.response for each in self.messages if each.response)
                answer = next(answer for answer in answers if answer.request_id == value)
                self.note(f"answer {msgspec.json.encode(answer.response or answer.error).decode()}\n")
            case _:
                return False
        return True

    def filled(self, line: bytes) -> bytes:
        """A line with the uuids of messages."""
        for number, message_uuid in enumerate(self._uuids, 1):
            line = line.replace(b'"$%d"' % number, b'"%s"' % message_uuid.encode())
        return line

    def _answer(self, request_id: str, outcome: dict[str, Any]) -> None:
        self.send({"type": "control_response", "response": {"request_id": request_id, **outcome}})


def main() -> None:
    """Follow the script that the first argument names; what `claude` would take besides is ignored."""
    ScriptedClaude(script()).run()


if __name__ == "__main__":
    main()
