"""The store in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.clock import Clock
from antiphon.ports.store import (
    KEYS_MAX,
    Commit,
    FeedEntry,
    Fenced,
    KeyedMessage,
    KeyTaken,
    Listed,
    Notice,
    SequenceMoved,
    SessionQuery,
    StoredMessage,
)
from antiphon.store.cursors import Walk, cursor, place
from antiphon.store.memory.company import Company
from antiphon.store.memory.data import Data, Kept
from antiphon.store.memory.peers import MemoryPeers
from antiphon.store.notices import Waiting, notice_of
from antiphon.store.steps import forgets_before, require_whole, spent_at
from antiphon.store.telling import tellings

PAGE_BYTES = 4 * 1024 * 1024
T = TypeVar("T")


class MemoryStore:
    """A store whose every method is done before it first awaits: the order of calls is the order of everything.

    While nobody has joined it, it is the only one on its data and every claim succeeds.

    Attributes:
        outbox: Its webhooks, and what is to be told to them; shared with all who joined.
        timetable: Its schedules; shared likewise.
    """

    def __init__(self, *, epoch: str = "memory", company: Company | None = None) -> None:
        """Args:
        epoch: The name of the journal.
        company: Those whose data it shares, for `join`; None for data of its own.
        """
        self._epoch = epoch
        self._company = company or Company(Data())
        self._seat = self._company.sit_down()
        self._closed = asyncio.Event()
        self.outbox = self._company.data.outbox
        self.timetable = self._company.data.timetable

    @property
    def _data(self) -> Data:
        self._require_reach()
        return self._company.data

    def _require_reach(self) -> None:
        if self._seat.lost:
            raise StoreUnavailable("The store can't be reached.", retry_after_s=1)

    # Several stores on the same data

    def join(self, clock: Clock) -> "MemoryStore":
        """Another store on the same data, as another host would have it: with its own claims and notices.

        Args:
            clock: The store's time, for `peers`; that of the first call counts.
        """
        self._company.clock = self._company.clock or clock
        return MemoryStore(epoch=self._epoch, company=self._company)

    @property
    def peers(self) -> MemoryPeers | None:
        """The hosts that share the data; None while nobody has joined."""
        return MemoryPeers(self._company, self._seat) if self._company.clock else None

    def lose(self) -> None:
        """Cut this store off, as when its host dies: its claims are free, and its calls raise `StoreUnavailable`."""
        self._seat.lost = True
        self._company.part(self._seat, grace=True)

    def regain(self) -> None:
        """Let it reach the data again, with those of its claims that nobody took."""
        self._seat.lost = False
        self._company.come_back(self._seat)
        for inbox in self._seat.inboxes:
            inbox.ready.set()

    def mute(self, *, muted: bool = True) -> None:
        """Swallow its announcements, or no longer: it looks like a host that hangs, and does not know."""
        self._seat.silent = muted

    @property
    def epoch(self) -> str:
        """The name of this journal."""
        return self._epoch

    # Writing

    async def commit(self, commit: Commit) -> None:
        require_whole(commit)
        kept = self._data.kept.get(commit.session.id)
        kept = self._create(commit, kept) if commit.expected == 0 else self._advance(commit, kept)
        self._require_unspent(kept, commit)
        kept.session = commit.session
        kept.entries.extend(commit.entries)
        self._data.feed.extend((entry.session_id, entry.sequence) for entry in commit.entries)
        self._keep_records(kept, commit)
        if not kept.living and commit.session.key is not None:
            self._data.keys.pop(commit.session.key, None)
        self.outbox.tell(tellings(commit))
        self._company.tell(self._seat, notice_of(commit))

    def _create(self, commit: Commit, kept: Kept | None) -> Kept:
        session = commit.session
        if kept is not None:
            raise SequenceMoved(session.id)
        if session.key is not None:
            if session.key in self._data.keys:
                raise KeyTaken(self._data.keys[session.key])
            self._data.keys[session.key] = session.id
        kept = self._data.kept[session.id] = Kept(session)
        kept.fence = commit.fence or 0
        kept.owner = self._company.owner(self._seat, session.id, commit.fence)
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
    def _require_unspent(kept: Kept, commit: Commit) -> None:
        for text in commit.texts:
            spent = kept.keys.get(text.idempotency_key or "")
            if spent and spent.message_id != text.message_id:
                raise ValueError(f"the idempotency key of {text.message_id} was spent on {spent.message_id}")

    def _keep_records(self, kept: Kept, commit: Commit) -> None:
        for message in commit.messages:
            kept.accepted[message.id] = message.sequence
            self._data.messages[message.id] = message
        for turn in commit.turns:
            kept.turns[turn.id] = turn
            self._data.turns[turn.id] = kept.session.id
        for permission in commit.permissions:
            kept.permissions[permission.id] = permission
            self._data.permissions[permission.id] = kept.session.id
        for text in commit.texts:
            self._data.texts[text.message_id] = text
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

    async def claim(self, session_id: str, host: str) -> int | None:
        self._require_reach()
        return self._company.claim(self._seat, session_id, host)

    async def release(self, session_id: str, fence: int) -> None:
        self._require_reach()
        self._company.release(self._seat, session_id, fence)

    async def purge(self, limit: int) -> int:
        taken = 0
        for kept in [kept for kept in self._data.kept.values() if not kept.living]:
            while taken < limit and self._take_row(kept):
                taken += 1
        return taken

    def _take_row(self, kept: Kept) -> bool:
        if kept.entries:
            kept.entries.pop()
        elif kept.accepted:
            message_id, _ = kept.accepted.popitem()
            self._data.messages.pop(message_id, None)
            self._data.texts.pop(message_id, None)
        elif kept.turns:
            self._data.turns.pop(kept.turns.popitem()[0], None)
        elif kept.permissions:
            self._data.permissions.pop(kept.permissions.popitem()[0], None)
        else:
            return self._data.kept.pop(kept.session.id, None) is not None
        return True

    # Reading

    async def load(self, session_id: str) -> Session | None:
        kept = self._data.living(session_id)
        return kept.session if kept else None

    async def find(self, key: str) -> str | None:
        return self._data.keys.get(key)

    async def unsettled(self) -> Sequence[str]:
        return sorted(kept.session.id for kept in self._data.kept.values() if kept.session.unsettled)

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        walk = Walk.parse(cursor)
        found = sorted(
            (kept for kept in self._data.kept.values() if kept.living and _matches(kept.session, query)),
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
        return sum(kept.living for kept in self._data.kept.values())

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        kept = self._data.living(session_id)
        return _within(kept.entries[max(after, 0) : max(after, 0) + limit]) if kept else ()

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        kept = self._data.living(session_id)
        if kept is None:
            return ()
        end = len(kept.entries) if before is None else max(min(before - 1, len(kept.entries)), 0)
        return kept.entries[max(end - limit, 0) : end]

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        found: list[FeedEntry] = []
        for position in range(self._position(after), len(self._data.feed)):
            session_id, sequence = self._data.feed[position]
            if kept := self._data.living(session_id):
                found.append(FeedEntry(position=str(position + 1), entry=kept.entries[sequence - 1]))
                if len(found) == limit:
                    break
        return found

    def _position(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) > len(self._data.feed):
            raise ValueError("not a position of this store's feed")
        return int(text)

    async def feed_end(self) -> str:
        return str(len(self._data.feed))

    async def message(self, message_id: str) -> StoredMessage | None:
        message = self._data.messages.get(message_id)
        if message is None or not self._data.living(message.session_id):
            return None
        text = self._data.texts.get(message_id)
        return StoredMessage(message=message, text=text.text if text else "", files=text.files if text else ())

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        found = [await self.message(message_id) for message_id in message_ids]
        return [message for message in found if message is not None]

    async def gone(self, message_id: str) -> Message | None:
        message = self._data.messages.get(message_id)
        return message if message and not self._data.living(message.session_id) else None

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        kept = self._data.living(session_id)
        return kept.keys.get(idempotency_key) if kept else None

    async def turn(self, turn_id: str) -> Turn | None:
        kept = self._data.living(self._data.turns.get(turn_id, ""))
        return kept.turns.get(turn_id) if kept else None

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        kept = self._data.living(session_id)
        turns = kept.turns.values() if kept else ()
        asked = [turn for turn in turns if generation is None or turn.generation == generation]
        return _page("turns", asked, lambda turn: (turn.first_sequence, turn.id), cursor, limit)

    async def reply(self, turn_id: str, *, until: int | None = None) -> str | None:
        turn = await self.turn(turn_id)
        kept = self._data.living(turn.session_id) if turn else None
        entries = kept.entries[turn.first_sequence - 1 : until or turn.last_sequence] if kept and turn else ()
        texts = [entry.data["text"] for entry in entries if entry.type == "turn.text" and entry.turn_id == turn_id]
        return "".join(texts) if texts else None

    async def answered(self, message_id: str, turn_id: str) -> tuple[StoredMessage, str | None] | None:
        stored = await self.message(message_id)
        return (stored, await self.reply(turn_id)) if stored else None

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        kept = self._data.living(session_id)
        places = kept.accepted if kept else {}
        asked = [id for id in places if self._data.messages[id].generation == generation]
        page = _page("transcript", asked, lambda message_id: (places[message_id], message_id), cursor, limit)
        return Listed(items=tuple(await self.messages(page.items)), next_cursor=page.next_cursor)

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        asked = [
            permission
            for kept in self._data.kept.values()
            if kept.living and session_id in {None, kept.session.id}
            for permission in kept.permissions.values()
            if state in {None, permission.state}
        ]
        return _page(
            "permissions", asked, lambda asked: (asked.requested_at, asked.id), cursor, limit, newest_first=True
        )

    async def permission(self, permission_id: str) -> Permission | None:
        kept = self._data.living(self._data.permissions.get(permission_id, ""))
        return kept.permissions.get(permission_id) if kept else None

    # Its end

    async def notices(self) -> AsyncIterator[Notice]:
        """What others commit to the same data."""
        inbox = Waiting()
        self._seat.inboxes.add(inbox)
        try:
            while not self._closed.is_set():
                if self._seat.lost:
                    inbox.ready.clear()  # `regain` sets it
                for notice in inbox.take() if not self._seat.lost else ():
                    yield notice
                if not self._closed.is_set():
                    await inbox.ready.wait()
        finally:
            self._seat.inboxes.discard(inbox)

    async def close(self) -> None:
        self._closed.set()
        self._company.part(self._seat, grace=True)
        for inbox in self._seat.inboxes:
            inbox.ready.set()


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
