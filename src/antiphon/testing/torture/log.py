"""What callers were told, written down as they are told it."""

import json
import threading
import time
from pathlib import Path
from typing import Any


class Log:
    """A JSON object a line, in the order in which the threads of a process were told it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def write(self, kind: str, **fields: Any) -> None:
        """Write one line, with the seconds since the beginning."""
        at = round(time.monotonic() - self._began, 3)
        with self._lock:
            self._file.write(json.dumps({"kind": kind, "at": at, **fields}) + "\n")
