"""What is kept in memory, for all stores that share it."""

from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import KeyedMessage, NewText
from antiphon.store.cursors import Activity
from antiphon.store.memory.outbox import MemoryOutbox
from antiphon.store.memory.timetable import MemoryTimetable


class Kept:
    """What is kept of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.fence = 0
        self.owner: str | None = None
        self.entries: list[Entry] = []
        self.accepted: dict[str, int] = {}
        self.turns: dict[str, Turn] = {}
        self.permissions: dict[str, Permission] = {}
        self.keys: dict[str, KeyedMessage] = {}
        self.keys_spent_at: dict[str, int] = {}

    @property
    def living(self) -> bool:
        return self.session.lifecycle != "deleted"

    @property
    def activity(self) -> Activity:
        return self.session.active_at, self.session.id


class Data:
    """The journal and the records of all sessions."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.keys: dict[str, str] = {}
        self.messages: dict[str, Message] = {}
        self.texts: dict[str, NewText] = {}
        self.turns: dict[str, str] = {}
        self.permissions: dict[str, str] = {}
        self.feed: list[tuple[str, int]] = []
        self.fence = 0
        self.outbox = MemoryOutbox(self.messages.get, lambda session_id: self.living(session_id) is not None)
        self.timetable = MemoryTimetable()

    def living(self, session_id: str) -> Kept | None:
        """What is kept of a session that has not been deleted."""
        kept = self.kept.get(session_id)
        return kept if kept and kept.living else None
