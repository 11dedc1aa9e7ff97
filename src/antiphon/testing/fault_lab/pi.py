"""A `pi --mode rpc` that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.pi SCRIPT.json

Its steps are those of `antiphon.testing.fault_lab.scripted`, and these:

| step | does |
|---|---|
| `{"await": TYPE}` | reads until that command comes |
| `{"answer": DATA}` | answers, with success, the command that was awaited last |
| `{"refuse": MESSAGE}` | answers it with an error |

Commands that no step awaits at the moment are answered: `get_state` with an idle pi whose session is
`--session-dir`/`lab.jsonl`, any other with success.
"""

import sys
from typing import Any

import msgspec

from antiphon.testing.fault_lab.scripted import ScriptedProgram, Step, script


class _Command(msgspec.Struct):
    type: str
    id: str | None = None


class ScriptedPi(ScriptedProgram[_Command]):
    """Follows one script.

    Args:
        steps: The script.
        place: Where its session would be.
    """

    def __init__(self, steps: list[Step], place: str) -> None:
        super().__init__(steps)
        self._state = {"isStreaming": False, "sessionFile": f"{place}/lab.jsonl"}
        self._last = _Command("")
        self._awaiting = ""

    def take(self, line: bytes) -> _Command:
        """Answer what no step does."""
        command = msgspec.json.decode(line, type=_Command)
        if command.type != self._awaiting:
            data = {"data": self._state} if command.type == "get_state" else {}
            self._respond(command, success=True, **data)
        return command

    def act(self, kind: str, value: Any) -> bool:
        """Await and answer."""
        match kind:
            case "await":
                self._awaiting = value
                self._last = next(command for command in self.messages if command.type == value)
            case "answer":
                self._respond(self._last, success=True, data=value)
            case "refuse":
                self._respond(self._last, success=False, error=value)
            case _:
                return False
        return True

    def followed(self) -> None:
        """No step awaits anything any more."""
        self._awaiting = ""

    def _respond(self, command: _Command, **fields: Any) -> None:
        self.send({"id": command.id, "type": "response", "command": command.type, **fields})


def main() -> None:
    """Follow the script that the first argument names; of what `pi` would take besides only `--session-dir` matters."""
    options = dict(zip(sys.argv[2:], sys.argv[3:], strict=False))
    ScriptedPi(script(), options.get("--session-dir", "")).run()


if __name__ == "__main__":
    main()
