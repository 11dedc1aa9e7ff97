"""Who owns a session: the one host that starts its turns, runs its agent, and settles what a crash left."""

import logging
from collections.abc import Iterable

from antiphon.core import events as e
from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Session
from antiphon.host.context import Context

log = logging.getLogger("antiphon.host")

_GUESTS_TURN_EVENTS = {e.TurnCancelRequested.TYPE}


class Ownership:
    """This host's hold on a session. A host without one is the session's guest: it decides clients' commands only.

    Attributes:
        fence: The claim under which this host writes; None for a guest.
        settled: Whether what an earlier owner left has been seen to.
    """

    def __init__(self, session_id: str, context: Context) -> None:
        self.fence: int | None = None
        self.settled = False
        self._session_id = session_id
        self._context = context
        self._wanted = True
        self._retired = False

    @property
    def held(self) -> bool:
        """Whether this host owns the session."""
        return self.fence is not None

    def want(self) -> None:
        """Have it claimed at the next look."""
        self._wanted = True

    def retire(self) -> None:
        """Claim nothing more: another actor of this host may be about to have the session."""
        self._retired = True

    async def seek(self) -> None:
        """Claim the session, where that is wanted and this host may have it.

        Raises:
            StoreUnavailable: Then it is still wanted.
        """
        if self.held or not self._wanted:
            return
        if neighbours := self._context.neighbours:
            if self._retired:
                return
            session = await self._context.store.load(self._session_id)
            if session is None or not neighbours.may_own(session):
                self._wanted = False
                return
        self.fence = await self._context.store.claim(self._session_id, self._context.host_id)
        self._wanted = False

    def lose(self) -> None:
        """Others have it, or had it: what was begun here is not the session's any more."""
        if (neighbours := self._context.neighbours) and self.fence is not None:
            neighbours.release_later(self._session_id, self.fence)
        self.fence, self.settled, self._wanted = None, False, True

    def should_leave(self, session: Session, *, waits: bool = False) -> bool:
        """Whether another host should have it, as soon as nothing runs; `waits`: here it waits for a place."""
        neighbours = self._context.neighbours
        if not self.held or neighbours is None:
            return False
        return not (neighbours.may_own(session) if waits else neighbours.may_keep(session))

    async def release(self) -> None:
        """Give it up, later where the store does not take that now; at the latest it ends with the connection."""
        fence, self.fence, self.settled = self.fence, None, False
        if fence is None:
            return
        try:
            await self._context.store.release(self._session_id, fence)
        except StoreUnavailable as error:
            extra = {"action": "release_failed", "session_id": self._session_id, "code": error.code}
            log.warning("a session could not be released", extra=extra)
            if neighbours := self._context.neighbours:
                neighbours.release_later(self._session_id, fence)


def of_an_owner(entries: Iterable[Entry]) -> bool:
    """Whether only a session's owner can have written these."""
    return any(
        entry.type == e.PermissionRequested.TYPE
        or entry.type.startswith("agent.")
        or (entry.type.startswith("turn.") and entry.type not in _GUESTS_TURN_EVENTS)
        for entry in entries
    )
