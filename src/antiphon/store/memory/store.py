"""The store in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import (
    KEYS_MAX,
    Commit,
    FeedEntry,
    Fenced,
    KeyedMessage,
    KeyTaken,
    Listed,
    NewText,
    Notice,
    SequenceMoved,
    SessionQuery,
    StoredMessage,
)
from antiphon.store.cursors import Activity, Walk, cursor, place
from antiphon.store.memory.outbox import MemoryOutbox
from antiphon.store.memory.timetable import MemoryTimetable
from antiphon.store.steps import forgets_before, require_whole, spent_at
from antiphon.store.telling import tellings

PAGE_BYTES = 4 * 1024 * 1024
T = TypeVar("T")


class Kept:
    """What is kept of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.fence = 0
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


class MemoryStore:
    """A store whose every method is done before it first awaits: the order of calls is the order of everything.

    Only one host can open it, so every claim succeeds.
    """

    def __init__(self, *, epoch: str = "memory") -> None:
        self._epoch = epoch
        self._kept: dict[str, Kept] = {}
        self._keys: dict[str, str] = {}
        self._messages: dict[str, Message] = {}
        self._texts: dict[str, NewText] = {}
        self._turns: dict[str, str] = {}
        self._permissions: dict[str, str] = {}
        self._feed: list[tuple[str, int]] = []
        self._fence = 0
        self._closed = asyncio.Event()
        self.outbox = MemoryOutbox(self._messages.get, lambda session_id: self._living(session_id) is not None)
        self.timetable = MemoryTimetable()

    @property
    def epoch(self) -> str:
        """The name of this journal."""
        return self._epoch

    # Writing

    async def commit(self, commit: Commit) -> None:
        require_whole(commit)
        kept = self._kept.get(commit.session.id)
        self._require_unspent(kept, commit)
        kept = self._create(commit, kept) if commit.expected == 0 else self._advance(commit, kept)
        kept.session = commit.session
        kept.entries.extend(commit.entries)
        self._feed.extend((entry.session_id, entry.sequence) for entry in commit.entries)
        self._keep_records(kept, commit)
        if not kept.living and commit.session.key is not None:
            self._keys.pop(commit.session.key, None)
        self.outbox.tell(tellings(commit))

    def _create(self, commit: Commit, kept: Kept | None) -> Kept:
        session = commit.session
        if kept is not None:
            raise SequenceMoved(session.id)
        if session.key is not None:
            if session.key in self._keys:
                raise KeyTaken(self._keys[session.key])
            self._keys[session.key] = session.id
        kept = self._kept[session.id] = Kept(session)
        kept.fence = commit.fence or 0
        return kept

    @staticmethod
    def _advance(commit: Commit, kept: Kept | None) -> Kept:
        if kept is None or not kept.living:
            raise SequenceMoved(commit.session.id)
        if commit.fence is not None and commit.fence < kept.fence:
            raise Fenced(commit.session.id)
        if kept.session.sequence != commit.expected:
            raise SequenceMoved(commit.session.id)
        return kept

    @staticmethod
    def _require_unspent(kept: Kept | None, commit: Commit) -> None:
        for text in commit.texts:
            spent = kept.keys.get(text.idempotency_key or "") if kept else None
            if spent and spent.message_id != text.message_id:
                raise ValueError(f"the idempotency key of {text.message_id} was spent on {spent.message_id}")

    def _keep_records(self, kept: Kept, commit: Commit) -> None:
        for message in commit.messages:
            kept.accepted[message.id] = message.sequence
            self._messages[message.id] = message
        for turn in commit.turns:
            kept.turns[turn.id] = turn
            self._turns[turn.id] = kept.session.id
        for permission in commit.permissions:
            kept.permissions[permission.id] = permission
            self._permissions[permission.id] = kept.session.id
        for text in commit.texts:
            self._texts[text.message_id] = text
            if text.idempotency_key is not None:
                kept.keys.setdefault(text.idempotency_key, KeyedMessage(message_id=text.message_id, digest=text.digest))
                kept.keys_spent_at.setdefault(text.idempotency_key, spent_at(commit))
        before = forgets_before(commit)
        if before is not None:
            self._forget_keys(kept, before)

    @staticmethod
    def _forget_keys(kept: Kept, before: int) -> None:
        excess = len(kept.keys) - KEYS_MAX
        old = sorted((at, key) for key, at in kept.keys_spent_at.items() if at < before)
        for _, key in old[: max(excess, 0)]:
            del kept.keys[key], kept.keys_spent_at[key]

    async def claim(self, session_id: str, host: str) -> int | None:  # noqa: ARG002  # every host is this one
        self._fence += 1
        if kept := self._living(session_id):
            kept.fence = self._fence
        return self._fence

    async def release(self, session_id: str, fence: int) -> None:
        """Nothing is held that could be freed: the next claim succeeds anyway."""

    async def purge(self, limit: int) -> int:
        taken = 0
        for kept in [kept for kept in self._kept.values() if not kept.living]:
            while taken < limit and self._take_row(kept):
                taken += 1
        return taken

    def _take_row(self, kept: Kept) -> bool:
        if kept.entries:
            kept.entries.pop()
        elif kept.accepted:
            message_id, _ = kept.accepted.popitem()
            self._messages.pop(message_id, None)
            self._texts.pop(message_id, None)
        elif kept.turns:
            self._turns.pop(kept.turns.popitem()[0], None)
        elif kept.permissions:
            self._permissions.pop(kept.permissions.popitem()[0], None)
        else:
            return self._kept.pop(kept.session.id, None) is not None
        return True

    # Reading

    def _living(self, session_id: str) -> Kept | None:
        kept = self._kept.get(session_id)
        return kept if kept and kept.living else None

    async def load(self, session_id: str) -> Session | None:
        kept = self._living(session_id)
        return kept.session if kept else None

    async def find(self, key: str) -> str | None:
        return self._keys.get(key)

    async def unsettled(self) -> Sequence[str]:
        return sorted(kept.session.id for kept in self._kept.values() if kept.session.unsettled)

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        walk = Walk.parse(cursor)
        found = sorted(
            (kept for kept in self._kept.values() if kept.living and _matches(kept.session, query)),
            key=lambda kept: kept.activity,
            reverse=walk.down,
        )
        ahead = [kept for kept in found if walk.is_ahead(kept.activity)]
        met = ahead[:limit]
        newer = walk.top is not None and any(kept.activity > walk.top for kept in found)
        next_cursor = walk.next_cursor([kept.activity for kept in met], more=len(ahead) > limit, newer=newer)
        items = tuple(kept.session for kept in met)
        return Listed(items=items if walk.down else items[::-1], next_cursor=next_cursor)

    async def count(self) -> int:
        return sum(kept.living for kept in self._kept.values())

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        kept = self._living(session_id)
        return _within(kept.entries[max(after, 0) : max(after, 0) + limit]) if kept else ()

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        kept = self._living(session_id)
        if kept is None:
            return ()
        end = len(kept.entries) if before is None else max(min(before - 1, len(kept.entries)), 0)
        return kept.entries[max(end - limit, 0) : end]

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        found: list[FeedEntry] = []
        for position in range(self._position(after), len(self._feed)):
            session_id, sequence = self._feed[position]
            if kept := self._living(session_id):
                found.append(FeedEntry(position=str(position + 1), entry=kept.entries[sequence - 1]))
                if len(found) == limit:
                    break
        return found

    def _position(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) > len(self._feed):
            raise ValueError("not a position of this store's feed")
        return int(text)

    async def feed_end(self) -> str:
        return str(len(self._feed))

    async def message(self, message_id: str) -> StoredMessage | None:
        message = self._messages.get(message_id)
        if message is None or not self._living(message.session_id):
            return None
        text = self._texts.get(message_id)
        return StoredMessage(message=message, text=text.text if text else "", files=text.files if text else ())

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        found = [await self.message(message_id) for message_id in message_ids]
        return [message for message in found if message is not None]

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        kept = self._living(session_id)
        return kept.keys.get(idempotency_key) if kept else None

    async def turn(self, turn_id: str) -> Turn | None:
        kept = self._living(self._turns.get(turn_id, ""))
        return kept.turns.get(turn_id) if kept else None

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        kept = self._living(session_id)
        turns = kept.turns.values() if kept else ()
        asked = [turn for turn in turns if generation is None or turn.generation == generation]
        return _page("turns", asked, lambda turn: (turn.first_sequence, turn.id), cursor, limit)

    async def reply(self, turn: Turn) -> str | None:
        kept = self._living(turn.session_id)
        entries = kept.entries[turn.first_sequence - 1 : turn.last_sequence] if kept else ()
        texts = [entry.data["text"] for entry in entries if entry.type == "turn.text" and entry.turn_id == turn.id]
        return "".join(texts) if texts else None

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        kept = self._living(session_id)
        places = kept.accepted if kept else {}
        asked = [id for id in places if self._messages[id].generation == generation]
        page = _page("transcript", asked, lambda message_id: (places[message_id], message_id), cursor, limit)
        return Listed(items=tuple(await self.messages(page.items)), next_cursor=page.next_cursor)

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        asked = [
            permission
            for kept in self._kept.values()
            if kept.living and session_id in {None, kept.session.id}
            for permission in kept.permissions.values()
            if state in {None, permission.state}
        ]
        return _page(
            "permissions", asked, lambda asked: (asked.requested_at, asked.id), cursor, limit, newest_first=True
        )

    async def permission(self, permission_id: str) -> Permission | None:
        kept = self._living(self._permissions.get(permission_id, ""))
        return kept.permissions.get(permission_id) if kept else None

    # Its end

    async def notices(self) -> AsyncIterator[Notice]:
        """Nobody else can write here: this only ends, when the store is closed."""
        await self._closed.wait()
        for nothing in ():
            yield nothing

    async def close(self) -> None:
        self._closed.set()


def _matches(session: Session, query: SessionQuery) -> bool:
    text = (query.text or "").casefold()
    return (
        (not query.statuses or session.status() in query.statuses)
        and (query.agent is None or session.agent == query.agent)
        and all(session.labels.get(name) == value for name, value in query.labels)
        and (text in (session.key or "").casefold() or text in (session.title or "").casefold())
    )


def _page(
    kind: str,
    items: Iterable[T],
    order: Callable[[T], tuple[int, str]],
    after: str | None,
    limit: int,
    *,
    newest_first: bool = False,
) -> Listed:
    """The items after a cursor, in their order, and the cursor of the rest."""
    start: tuple[Any, ...] | None = place(kind, after, int, str) if after is not None else None
    ordered = sorted(items, key=order, reverse=newest_first)
    rest = [item for item in ordered if start is None or (order(item) < start if newest_first else order(item) > start)]
    more = len(rest) > limit
    return Listed(items=tuple(rest[:limit]), next_cursor=cursor(kind, *order(rest[limit - 1])) if more else None)


def _within(entries: list[Entry]) -> Sequence[Entry]:
    """As many of the entries as fit into a page, at least one."""
    size, fitting = 0, 0
    for entry in entries:
        size += len(str(entry.data))
        if fitting and size > PAGE_BYTES:
            break
        fitting += 1
    return entries[:fitting]
