"""A `codex app-server` that follows a script, for orders and faults that the real one does not produce on demand.

    python -m antiphon.testing.fault_lab.codex SCRIPT.json

Its steps are those of `antiphon.testing.fault_lab.jsonrpc` and `antiphon.testing.fault_lab.scripted`. The opening that
it answers by itself is `initialize`, `thread/start` and `thread/resume`, with the thread `thread-1`.
"""

from typing import Any

from antiphon.testing.fault_lab.jsonrpc import ScriptedPeer
from antiphon.testing.fault_lab.scripted import script

THREAD_ID = "thread-1"
OPENING: dict[str, dict[str, Any]] = {
    "initialize": {"userAgent": "fault_lab/0"},
    "thread/start": {"thread": {"id": THREAD_ID}},
    "thread/resume": {"thread": {"id": THREAD_ID}},
}


def main() -> None:
    """Follow the script that the first argument names; what `codex` would take besides is ignored."""
    ScriptedPeer(script(), OPENING).run()


if __name__ == "__main__":
    main()
