"""The steps of scripted programs that speak JSON-RPC, beside those of all (see `antiphon.testing.fault_lab.scripted`).

| step | does |
|---|---|
| `{"await": METHOD}` | reads until that request or notification comes |
| `{"answer": RESULT}` | answers the request that was awaited last |
| `{"refuse": ERROR}` | answers it with an error: a message, or an object with `code`, `message` and `data` |
| `{"await_answer": ID}` | reads until that request of ours is answered; the answer goes to stderr |

A message that is told with an `id` is a request. Requests that no step awaits are left unanswered, but for those of the
opening, which are answered unless a step awaits them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.testing.fault_lab.scripted import ScriptedProgram, Step

INTERNAL_ERROR = -32603
"""JSON-RPC 2.0, section 5.1."""


class Message(msgspec.Struct):
    """A line that came: a request, a notification, or an answer."""

    id: int | str | None = None
    method: str | None = None
    result: Any = None
    error: Any = None


class ScriptedPeer(ScriptedProgram[Message]):
    """Follows one script.

    Args:
        steps: The script.
        opening: What the requests of the opening are answered with.
    """

    def __init__(self, steps: list[Step], opening: Mapping[str, Any]) -> None:
        super().__init__(steps)
        self._opening = opening
        self.last_request: int | str | None = None

    def take(self, line: bytes) -> Message:
        """Answer what is of the opening."""
        message = msgspec.json.decode(line, type=Message)
        opening = self._opening.get(message.method or "")
        if opening is not None and message.method not in self.awaited:
            self.send({"id": message.id, "result": opening})
        return message

    def act(self, kind: str, value: Any) -> bool:
        """Await and answer."""
        match kind:
            case "await":
                self.last_request = next(message.id for message in self.messages if message.method == value)
            case "answer":
                self.settle({"result": value})
            case "refuse":
                error = {"code": INTERNAL_ERROR, "message": value}
                self.settle({"error": error if isinstance(value, str) else value})
            case "await_answer":
                answers = (message for message in self.messages if message.method is None and message.id == value)
                answer = next(answers)
                self.note(f"answer {msgspec.json.encode(answer.result or answer.error).decode()}\n")
            case _:
                return False
        return True

    def settle(self, outcome: Step) -> None:
        """Answer the request that was awaited last."""
        self.send({"id": self.last_request, **outcome})
