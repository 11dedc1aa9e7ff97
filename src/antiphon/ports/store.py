"""Where sessions are kept."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn

KEYS_MAX = 10_000
"""So many idempotency keys of one session are kept, and as many more as are young."""
KEYS_YOUNG_MS = 7 * 24 * 3600 * 1000
"""For so long a key is kept at the least."""
KEYS_SLACK = 1024
"""After so many further events of a session, at the latest, its keys are as few as they should be."""


class SequenceMoved(Exception):
    """The session's sequence is not the expected one: load, decide again, append again. Nothing was written."""


class Fenced(Exception):
    """This host's claim on the session is no longer the newest. Nothing was written; its agent must be ended."""


class KeyTaken(Exception):
    """The key belongs to the session `session_id`. Nothing was written."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id


class StoreDamaged(StoreUnavailable):
    """The store, or one row of it, can't be read. It is left as it is."""


class OtherFeed(ValueError):
    """A position of the feed of another store: of the one that this one is a copy of."""


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is kept: its record, and what the person wrote."""

    message: Message
    text: str
    files: tuple[dict[str, Any], ...] = ()


class KeyedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What an idempotency key was spent on."""

    message_id: str
    digest: str | None


class NewText(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wrote, or wrote anew, for a message of the same commit."""

    message_id: str
    text: str
    files: tuple[dict[str, Any], ...] = ()
    idempotency_key: str | None = None
    digest: str | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one step of a session changes, to be written together or not at all.

    Attributes:
        session: The session after the step; its `sequence` is that of the last entry.
        expected: The sequence the session must have before it; 0 for a session that must not exist yet.
        entries: The events, numbered `expected + 1` and on without a gap.
        messages, turns, permissions: The records that the step made or changed, whole, each id at most once.
        texts: New texts of messages, with the idempotency keys they were sent under.
        fence: The claim under which the owner writes; None for a command that any host may commit.
    """

    session: Session
    expected: int
    entries: tuple[Entry, ...]
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    permissions: tuple[Permission, ...] = ()
    texts: tuple[NewText, ...] = ()
    fence: int | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A page: what was found, and where the next page begins (None at the end)."""

    items: tuple[Any, ...]
    next_cursor: str | None = None


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list. `labels` must all match; `text` is looked for in key and title, without case.

    `statuses` are as `Session.status()` tells.
    """

    statuses: tuple[str, ...] = ()
    agent: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    text: str | None = None


class FeedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in the feed of all sessions, with its place there."""

    position: str
    entry: Entry


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened to a session: its journal has reached `sequence`, or more."""

    session_id: str
    sequence: int
    ended: Mapping[str, str | None] | None = None
    """The messages that came to their end since the notice before, each with its turn; None where that isn't known."""


class Store(Protocol):
    """The journal and the records of all sessions.

    `commit` is atomic and durable: when it returns, everything in it is on disk and every later read, by anybody,
    sees it; when it raises, nothing of it is there. The only exception is `StoreUnavailable` with `in_doubt` among
    its `ids`: then the caller must read the session's sequence before it tries again.
    Reads see a state between two commits, never half of one. Any method may raise `StoreUnavailable`; no method
    holds a lock after it has returned or was cancelled. A cancelled `commit` may or may not have been written.
    A row that can't be read raises `StoreDamaged` for its session only; lists leave it out and count it.
    """

    @property
    def epoch(self) -> str:
        """The name of this journal: cursors of another epoch can't be served."""
        ...

    async def commit(self, commit: Commit) -> None:
        """Write one step of a session.

        Raises:
            SequenceMoved: `expected` is not the session's sequence (or, with 0, its id exists already).
            KeyTaken: A new session's key belongs to a living session.
            Fenced: `fence` is older than the session's newest claim.
            StoreUnavailable: Disk full, I/O error, read-only, no connection.
        """
        ...

    async def load(self, session_id: str) -> Session | None:
        """The session after its last commit; None when it never was or has been deleted."""
        ...

    async def find(self, key: str) -> str | None:
        """The id of the living session that has this key."""
        ...

    async def claim(self, session_id: str, host: str) -> int | None:
        """Become the owner: a fence greater than all before it, or None while another living host is the owner.

        Where only one host can open the store, every claim succeeds. Must be released.
        """
        ...

    async def release(self, session_id: str, fence: int) -> None:
        """Give ownership up; a fence that is no longer the newest frees nobody else's claim."""
        ...

    async def unsettled(self) -> Sequence[str]:
        """The ids of sessions for which `Session.unsettled` holds."""
        ...

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        """Living sessions (`Session`), newest activity first (`active_at`, then id, both descending).

        A session that moves between two pages may be met again, and is never left out.

        Raises:
            ValueError: The cursor is not one of this store's.
        """
        ...

    async def count(self) -> int:
        """How many living sessions there are."""
        ...

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        """The journal after a sequence, ascending, at most `limit` entries and about 4 MiB, at least one if any."""
        ...

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        """The last `limit` entries before a sequence (or of all), ascending."""
        ...

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        """Entries of all sessions after a position, in an order that never changes; deleted sessions may be missing.

        Raises:
            ValueError: `after` is not a position of this store; `OtherFeed` when it may be one of the store that this
                one was copied from, whose journal has the same epoch.
        """
        ...

    async def feed_end(self) -> str:
        """The position after which nothing has been committed yet."""
        ...

    async def message(self, message_id: str) -> StoredMessage | None:
        """A message of a living session."""
        ...

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        """Those of the messages that exist, in the order asked for."""
        ...

    async def gone(self, message_id: str) -> Message | None:
        """The last record of a message whose session was deleted; None for others, and once it has been purged."""
        ...

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        """The message that this key was spent on in this session.

        A key lasts as long as its session. Only where a session has more than `KEYS_MAX`, the oldest of those that
        were spent more than `KEYS_YOUNG_MS` before its last commit are forgotten.
        """
        ...

    async def turn(self, turn_id: str) -> Turn | None:
        """A turn of a living session."""
        ...

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        """A session's turns (`Turn`), oldest first; of one generation, or of all."""
        ...

    async def reply(self, turn_id: str, *, until: int | None = None) -> str | None:
        """The joined `turn.text` of a turn, also while it runs; None when it has said nothing, or there is none.

        Args:
            turn_id: The turn.
            until: The last sequence that counts; None for all of it.
        """
        ...

    async def answered(self, message_id: str, turn_id: str) -> tuple[StoredMessage, str | None] | None:
        """A message and, as of the same moment, the `reply` of a turn, which is probably its own; None as `message`."""
        ...

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        """A generation's messages (`StoredMessage`) in the order accepted, by page."""
        ...

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        """Permission requests (`Permission`) of living sessions, newest first."""
        ...

    async def permission(self, permission_id: str) -> Permission | None:
        """A permission request of a living session."""
        ...

    async def purge(self, limit: int) -> int:
        """Take away at most about `limit` rows that deleted sessions left; how many it took, 0 when none are left."""
        ...

    def notices(self) -> AsyncIterator[Notice]:
        """Commits made by others than this object, coalesced, at least once each; one that is lost is made good by
        reading. Where nobody else can write it never yields."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go. Idempotent."""
        ...
