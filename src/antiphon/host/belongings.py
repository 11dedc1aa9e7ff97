"""What adapters keep of their sessions: a directory for each, made by who needs it, gone with the session."""

import logging
import shutil
from pathlib import Path

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import Store, StoreDamaged

log = logging.getLogger("antiphon.host")


class Belongings:
    """The directories below `root`; without one nothing is kept."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def of(self, session_id: str) -> str | None:
        """A session's directory, which may not be there yet."""
        return None if self._root is None else str((self._root / session_id).absolute())

    def discard(self, session_id: str) -> None:
        """Forget what belongs to a session that was deleted."""
        if self._root is None:
            return
        try:
            shutil.rmtree(self._root / session_id)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning(
                "what an agent kept could not be removed",
                extra={"action": "discard_failed", "session_id": session_id, "code": type(error).__name__},
            )

    async def sweep(self, store: Store) -> None:
        """Forget what belongs to sessions that are not there any more: one may have been deleted as a host died."""
        for session_id in self._held():
            try:
                gone = await store.load(session_id) is None
            except StoreDamaged:
                continue  # it may be mended
            except StoreUnavailable:
                return  # the next start sees to it
            if gone:
                self.discard(session_id)

    def _held(self) -> list[str]:
        if self._root is None or not self._root.is_dir():
            return []
        return [entry.name for entry in self._root.iterdir() if entry.name.startswith("ses_")]
