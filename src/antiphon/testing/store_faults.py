"""A disk that fails when it is told to: SQLite's VFS with faults, for tests of the SQLite store."""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

import apsw

_numbers = count(1)


class FaultyDisk:
    """A VFS on top of the real one. Give its `name` to the store as `vfs`, and `close` it after the store.

    Operations are named after SQLite's (`xWrite`, `xSync`, `xRead`, `xTruncate`, `xOpen`). Faults may be planned from
    any thread.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.operations: Counter[str] = Counter()
        """How often each operation was asked for so far."""
        self._lock = threading.Lock()
        self._faults: dict[str, apsw.Error] = {}
        self._paused = threading.Event()
        self._paused.set()
        self._vfs = _Disk(self)

    @contextmanager
    def failing(self, error: type[apsw.Error], *operations: str) -> Generator[None]:
        """Within, each of these operations fails with this error (`apsw.FullError`, `apsw.IOError`, …)."""
        with self._lock:
            self._faults.update({operation: error("injected") for operation in operations})
        try:
            yield
        finally:
            with self._lock:
                for operation in operations:
                    del self._faults[operation]

    @contextmanager
    def hanging(self) -> Generator[None]:
        """Within, writes and syncs take for ever; afterwards they go on."""
        self._paused.clear()
        try:
            yield
        finally:
            self._paused.set()

    def close(self) -> None:
        """Take the VFS out of SQLite again. Nothing may be open on it."""
        self._vfs.unregister()

    def meet(self, operation: str) -> None:
        """Called for every operation.

        Raises:
            apsw.Error: It is to fail.
        """
        with self._lock:
            self.operations[operation] += 1
            fault = self._faults.get(operation)
        if operation in {"xWrite", "xSync"}:
            self._paused.wait()
        if fault is not None:
            raise fault


class _Disk(apsw.VFS):
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        self._disk.meet("xOpen")
        return _File(self._disk, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.meet("xRead")
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.meet("xWrite")
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]  # its stub is not typed to the end

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.meet("xTruncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.meet("xSync")
        super().xSync(flags)
