"""A disk with a volatile cache, and the power cut that shows what was not synced: for tests of the SQLite store.

The model: a write reaches the cache at once and the medium with the next sync of its file. At a cut, of what only the
cache held each sector of 512 bytes reaches the medium or not, in any combination, as a drive that reorders would leave
it. A deletion or a truncation is on the medium at once.
"""

import random
import threading
from itertools import count
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_numbers = count(1)


class PowerCut:
    """A VFS on top of the real one. Give its `name` to the store as `vfs`.

    To simulate a cut: `cut_after(n)` (or `cut()` at once), wait until the store has failed, close it, then `settle()`:
    after that the files on the real disk are what a restarted machine would find, to be opened without this VFS.
    """

    def __init__(self, choice: random.Random) -> None:
        self.name = f"power-{next(_numbers)}"
        self._choice = choice
        self._lock = threading.RLock()
        self._files: dict[str, _Cached] = {}
        self._left: int | None = None
        self.off = threading.Event()
        """Set once the power is off: from then on nothing reaches cache or medium."""
        self.ignore_syncs = False
        """A disk that lies: nothing reaches the medium until the cut."""
        self._vfs = _Disk(self)

    def cut_after(self, operations: int) -> None:
        """Cut the power when so many further writes and syncs were done."""
        with self._lock:
            self._left = operations

    def cut(self) -> None:
        """Cut the power now."""
        self.off.set()

    def settle(self, kept: float | None = None) -> None:
        """Let what was only cached reach the medium in part, and end the VFS. Nothing may be open on it.

        Args:
            kept: The part of the sectors that reach it; by default from none to all, as it falls out.
        """
        self.off.set()
        kept = self._choice.choice([0.0, 0.5, 0.95, 1.0]) if kept is None else kept
        for cached in self._files.values():
            cached.settle(self._choice, kept)
        self._vfs.unregister()

    def meet(self) -> None:
        """Called for every change.

        Raises:
            apsw.IOError: The power is off.
        """
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self.off.set()
        if self.off.is_set():
            raise apsw.IOError("the power is off")

    def cached(self, name: str) -> "_Cached":
        """The file of that name, as all that have it open see it."""
        with self._lock:
            return self._files.setdefault(name, _Cached(Path(name), self._lock))

    def forget(self, name: str) -> None:
        """The file was deleted."""
        with self._lock:
            self.meet()
            self._files.pop(name, None)


class _Cached:
    """A file: what its readers see, and what of it only the cache holds."""

    def __init__(self, path: Path, lock: threading.RLock) -> None:
        self.path = path
        self.lock = lock
        self.content = bytearray(path.read_bytes() if path.exists() else b"")
        self.unsynced: list[tuple[int, bytes]] = []

    def write(self, data: bytes, offset: int) -> None:
        """Write into the cache."""
        missing = offset + len(data) - len(self.content)
        self.content.extend(bytes(max(missing, 0)))
        self.content[offset : offset + len(data)] = data
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        """Cut the file off, cache and medium."""
        self.sync()
        del self.content[size:]
        with self.path.open("r+b") as file:
            file.truncate(size)

    def sync(self) -> None:
        """Bring everything to the medium."""
        self._store(self.unsynced)
        self.unsynced = []

    def settle(self, choice: random.Random, kept: float) -> None:
        """Bring a random part to the medium, sector by sector."""
        sectors = [
            (offset + start, data[start : start + SECTOR])
            for offset, data in self.unsynced
            for start in range(0, len(data), SECTOR)
        ]
        self._store([sector for sector in sectors if choice.random() < kept])

    def _store(self, writes: list[tuple[int, bytes]]) -> None:
        if writes and self.path.exists():
            with self.path.open("r+b") as file:
                for offset, data in writes:
                    file.seek(offset)
                    file.write(data)


class _Disk(apsw.VFS):
    def __init__(self, power: PowerCut) -> None:
        self._power = power
        super().__init__(power.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        if name is None:
            return apsw.VFSFile("", name, flags)
        if self._power.off.is_set():
            raise apsw.CantOpenError("the power is off")
        return _File(self._power, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._power.forget(filename)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, power: PowerCut, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._power = power
        self._cached = power.cached(name if isinstance(name, str) else name.filename())

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        with self._cached.lock:
            return bytes(self._cached.content[offset : offset + amount])

    def xFileSize(self) -> int:  # noqa: N802
        with self._cached.lock:
            return len(self._cached.content)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        with self._cached.lock:
            self._power.meet()
            self._cached.write(bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._cached.lock:
            self._power.meet()
            self._cached.truncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self._cached.lock:
            self._power.meet()
            if not self._power.ignore_syncs:
                self._cached.sync()
