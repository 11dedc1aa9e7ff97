"""What a person has seen: for each session, how many of its turns had ended. Kept on this machine, for this person."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

SESSIONS_MAX = 10_000


class Seen:
    """The marks of one host. A mark that can't be kept is no more than a session shown as unread again."""

    def __init__(self, epoch: str, directory: Path | None = None) -> None:
        """Read the marks for the host whose journal has this epoch."""
        self._path = (directory or _state_directory()) / f"seen-{_safe(epoch)}.json"
        known = _read(self._path)
        self.first_time = known is None
        """Nobody has looked at this host from here before."""
        self.marks: dict[str, int] = known or {}

    def mark(self, session_id: str, turns: int) -> None:
        """Everything up to this turn was seen."""
        if self.marks.get(session_id, -1) < turns:
            self.marks.pop(session_id, None)
            self.marks[session_id] = turns

    def keep(self) -> None:
        """Write the marks, whole or not at all. The oldest are forgotten when there are too many."""
        self.marks = dict(list(self.marks.items())[-SESSIONS_MAX:])
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=self._path.parent, prefix=".seen-")
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump(self.marks, file)
            Path(name).replace(self._path)


def _state_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "antiphon"


def _safe(epoch: str) -> str:
    return "".join(char for char in epoch if char.isalnum() or char in "-_")[:80]


def _read(path: Path) -> dict[str, int] | None:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    pairs = cast("dict[str, Any]", found).items()
    return {session_id: turns for session_id, turns in pairs if isinstance(turns, int)}
