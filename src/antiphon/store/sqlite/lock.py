"""The lock on the data directory: one host at a time."""

import fcntl
import os
from pathlib import Path
from typing import Self

from antiphon.core.errors import StoreUnavailable


class DirectoryLock:
    """An exclusive `flock` on a file that names its holder.

    The kernel lets go of it when the holder's process ends, however it ends; the file itself stays and means nothing.
    The descriptor is not inherited by programs that the host starts.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> Self:
        """Become the holder, or say at once who is.

        Raises:
            StoreUnavailable: Another process holds it; `ids["pid"]` is its number.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StoreUnavailable(
                f"The data directory {path.parent} is in use by another host (process {holder or 'not known'}).",
                pid=int(holder) if holder.isdigit() else None,
            ) from error
        except OSError:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        """Let go. Idempotent."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
