"""A program that speaks ACP and follows a script, for orders and faults that real ones do not produce on demand.

    python -m antiphon.testing.fault_lab.acp SCRIPT.json

Its steps are those of `antiphon.testing.fault_lab.jsonrpc` and `antiphon.testing.fault_lab.scripted`, and one more:

| step | does |
|---|---|
| `{"update": UPDATE}` | tells an update of the session |

The opening that it answers by itself leads to a session `session-1`, which can be loaded and resumed. In text, `$1`,
`$2`… stand for the numbers of the prompts that came, as they are written in JSON. A prompt that comes while another
runs is told on stderr as `a second prompt`.
"""

from typing import Any

import msgspec

from antiphon.testing.fault_lab.jsonrpc import Message, ScriptedPeer
from antiphon.testing.fault_lab.scripted import Step, script

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


class ScriptedAcp(ScriptedPeer):
    """Follows one script."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(steps, OPENING)
        self._prompts: list[int | str | None] = []
        self._running: set[int | str | None] = set()

    def take(self, line: bytes) -> Message:
        """Note the prompts."""
        message = super().take(line)
        if message.method == "session/prompt":
            if self._running:
                self.note(f"{SECOND_PROMPT}\n")
            self._prompts.append(message.id)
            self._running.add(message.id)
        return message

    def act(self, kind: str, value: Any) -> bool:
        """Tell an update."""
        if kind != "update":
            return super().act(kind, value)
        self.send({"method": "session/update", "params": {"sessionId": SESSION_ID, "update": value}})
        return True

    def settle(self, outcome: Step) -> None:
        """Answer the request that was awaited last, which may be a prompt."""
        self._running.discard(self.last_request)
        super().settle(outcome)

    def send(self, message: Any) -> None:
        """Write a message with the version that ACP wants in each."""
        super().send({"jsonrpc": "2.0", **message})

    def filled(self, line: bytes) -> bytes:
        """A line with the numbers of prompts."""
        for place, number in enumerate(self._prompts, 1):
            known = msgspec.json.encode(number)
            line = line.replace(b'"$%d"' % place, known).replace(b"$%d" % place, known)
        return line


def main() -> None:
    """Follow the script that the first argument names."""
    ScriptedAcp(script()).run()


if __name__ == "__main__":
    main()
