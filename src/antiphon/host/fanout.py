"""Fan-out: what is durable reaches whoever waits for a message or follows a session.

A viewer is not pushed to. It holds a sequence and pulls what comes after it: from a short memory of the newest entries
while it keeps up, from the store when it has fallen behind. So a slow viewer costs no memory, and nobody waits for it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager

import msgspec

from antiphon.core import events as e
from antiphon.core.events import Entry
from antiphon.host.sharing import Shared
from antiphon.host.views import EventView, Receipt, event_view
from antiphon.ports.store import Store

RECENT_MAX = 1024
PIECE_MAX = 4096
RECENT_BYTES_MAX = 4 << 20
FAREWELLS_MAX = 1024
PAGE = 256
_ENDS = {e.TurnEnded.TYPE, e.SessionDeleted.TYPE}


class Topic:
    """The newest entries of one session that somebody follows.

    Attributes:
        recent: Entries without a gap among them, up to the last one told of.
        last: The session's end, once it has been deleted.
        heard: How far others have told that the session reaches: what they wrote is not in this memory.
    """

    def __init__(self) -> None:
        self.recent: deque[Entry] = deque(maxlen=RECENT_MAX)
        self.wakers: dict[asyncio.Event, None] = {}
        self.last: Entry | None = None
        self.heard = 0
        self._sizes: deque[int] = deque(maxlen=RECENT_MAX)
        self._told = 0

    def forget(self, heard: int) -> None:
        """Read on from the store, as far as was heard at the least."""
        self.heard = max(self.heard, heard)
        self.recent.clear()
        self._sizes.clear()

    def add(self, entries: tuple[Entry, ...]) -> None:
        """Remember what is durable. It may come late, or on top of what others wrote: then the store is read."""
        if entries[-1].sequence <= self._told:
            return
        if entries[0].sequence != self._told + 1:
            self.recent.clear()
            self._sizes.clear()
        self.recent.extend(entries)
        self._sizes.extend(map(_size, entries))
        self._told = entries[-1].sequence
        while len(self.recent) > 1 and sum(self._sizes) > RECENT_BYTES_MAX:
            self.recent.popleft()
            self._sizes.popleft()
        if entries[-1].type == "session.deleted":
            self.last = entries[-1]

    def after(self, sequence: int) -> list[Entry] | None:
        """The entries after a sequence, at most a page; None when they aren't all in this memory: older, or others'."""
        if not self.recent or self.recent[0].sequence > sequence + 1:
            return None
        newer = self.recent[-1].sequence - sequence
        if newer <= 0 and self.heard > sequence:
            return None
        first = max(0, len(self.recent) - newer)
        return [self.recent[index] for index in range(first, min(first + PAGE, len(self.recent)))]


class Mover(asyncio.Event):
    """Set when there may be something to look for: of all that others write, or of the end of one message.

    Attributes:
        turn_id: The turn in which that message is said to have ended.
    """

    def __init__(self, message_id: str | None) -> None:
        super().__init__()
        self.turn_id: str | None = None
        self._message_id = message_id

    def hear(self, ended: Mapping[str, str | None] | None) -> None:
        """Others wrote, and ended these messages; None: any."""
        if ended is None or self._message_id is None:
            self.set()
        elif self._message_id in ended:
            self.turn_id = ended[self._message_id]
            self.set()


def _size(entry: Entry) -> int:
    """About how many bytes of JSON an entry's data is; a piece of text, by far the most frequent, is not encoded."""
    text = entry.data.get("text")
    return len(text) if isinstance(text, str) else len(msgspec.json.encode(entry.data))


def _is_small(view: EventView) -> bool:
    """Whether it is a piece of what the agent says, as by far the most are, and no large one."""
    return view.type == e.TurnText.TYPE and len(view.data["text"]) <= PIECE_MAX


class Fanout:
    """Who waits for what."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._topics: dict[str, Topic] = {}
        self._waiters: dict[str, dict[asyncio.Future[Receipt], None]] = {}
        self._feeders: dict[asyncio.Event, deque[Entry]] = {}
        self._movers: dict[str, dict[Mover, None]] = {}
        self._farewells: OrderedDict[str, Receipt] = OrderedDict()
        self._closed = False
        self.view = Shared[Entry, EventView](lambda entry: event_view(entry, store.epoch), keeps=_is_small)
        """An entry as clients see it: one object for all who follow."""

    @property
    def closed(self) -> bool:
        """Whether the host goes down: who waits or follows comes to the end of it."""
        return self._closed

    @property
    def viewers(self) -> int:
        """How many follow a session or the feed."""
        return sum(len(topic.wakers) for topic in self._topics.values()) + len(self._feeders)

    def publish(self, session_id: str, entries: tuple[Entry, ...]) -> None:
        """Tell of entries that are durable."""
        if topic := self._topics.get(session_id):
            topic.add(entries)
            for waker in topic.wakers:
                waker.set()
        if (movers := self._movers.get(session_id)) and any(entry.type in _ENDS for entry in entries):
            for waker in movers:
                waker.set()
        for waker, farewells in self._feeders.items():
            if entries and entries[-1].type == "session.deleted":
                farewells.append(entries[-1])
            waker.set()

    def moved(self, session_id: str, sequence: int = 0, ended: Mapping[str, str | None] | None = None) -> None:
        """Tell that others wrote to the session: whoever follows it, or waits for it, reads on from the store.

        Args:
            session_id: The session.
            sequence: How far it has come at the least.
            ended: The messages that ended, each with its turn; None when any may have.
        """
        for waker in self._movers.get(session_id, ()):
            waker.hear(ended)
        if topic := self._topics.get(session_id):
            topic.forget(sequence)
            for waker in topic.wakers:
                waker.set()
        for waker in self._feeders:
            waker.set()

    def close(self) -> None:
        """Let all who follow or wait come to their end."""
        self._closed = True
        wakers = [waker for topic in self._topics.values() for waker in topic.wakers]
        movers = [waker for wakers in self._movers.values() for waker in wakers]
        for waker in (*wakers, *movers, *self._feeders):
            waker.set()
        for futures in list(self._waiters.values()):
            for future in futures:
                future.cancel()

    # Waiting for a message's end

    @contextmanager
    def waiting(self, message_id: str) -> Generator[asyncio.Future[Receipt]]:
        """A future that holds the message's receipt once its end is durable. Take it before you look at the message.

        It is cancelled when the host closes, or when the receipt must be read: then look yourself.
        """
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.cancel()
        waiters = self._waiters.setdefault(message_id, {})
        waiters[future] = None
        try:
            yield future
        finally:
            waiters.pop(future, None)
            if not waiters and self._waiters.get(message_id) is waiters:
                del self._waiters[message_id]

    @contextmanager
    def moves(self, session_id: str, message_id: str | None = None) -> "Generator[Mover]":
        """An event that is set whenever others have written to the session, or a turn of it has ended here.

        With a message only when that may have ended.
        """
        waker = Mover(message_id)
        wakers = self._movers.setdefault(session_id, {})
        wakers[waker] = None
        try:
            yield waker
        finally:
            wakers.pop(waker, None)
            if not wakers and self._movers.get(session_id) is wakers:
                del self._movers[session_id]

    def awaited(self, message_id: str) -> bool:
        """Whether somebody waits for this message."""
        return message_id in self._waiters

    def ended(self, receipt: Receipt) -> None:
        """Tell everyone who waits for this message that it has ended."""
        for future in self._waiters.get(receipt.id, ()):
            if not future.done():
                future.set_result(receipt)

    def bid_farewell(self, receipt: Receipt) -> None:
        """Keep, for a while, the last receipt of a message whose session is gone: somebody may be about to wait."""
        self._farewells[receipt.id] = receipt
        if len(self._farewells) > FAREWELLS_MAX:
            self._farewells.popitem(last=False)

    def farewell(self, message_id: str) -> Receipt | None:
        """The last receipt of a message whose session was deleted lately."""
        return self._farewells.get(message_id)

    def unread(self, message_id: str) -> None:
        """Tell everyone who waits for this message that it has ended, and that its receipt could not be read."""
        for future in self._waiters.get(message_id, ()):
            future.cancel()

    # Following

    async def follow(self, session_id: str, after: int) -> AsyncGenerator[Entry, None]:
        """The entries of a session after a sequence, then as they become durable; ends with `session.deleted`.

        Ends too when the host closes. Nothing comes twice, and nothing is left out, unless the session was deleted
        before this reader had caught up: then its end may follow with a gap before it.
        """
        topic, waker = self._topics.setdefault(session_id, Topic()), asyncio.Event()
        topic.wakers[waker] = None
        try:
            while not self._closed:
                waker.clear()
                entries = topic.after(after)
                if entries is None:
                    entries = await self._store.entries(session_id, after=after, limit=PAGE)
                for entry in entries:
                    after = entry.sequence
                    yield entry
                    if entry.type == "session.deleted" or self._closed:
                        return
                if entries:
                    continue
                if topic.last:
                    if topic.last.sequence > after:
                        yield topic.last
                    return
                if (not topic.recent or topic.heard > after) and await self._store.load(session_id) is None:
                    return  # it was deleted before anybody followed it
                await waker.wait()
        finally:
            topic.wakers.pop(waker, None)
            if not topic.wakers and self._topics.get(session_id) is topic:
                del self._topics[session_id]

    async def follow_all(self, after: str) -> AsyncGenerator[tuple[str, Entry], None]:
        """The entries of all sessions after a position of the feed, with their positions, then as they come.

        A deleted session is gone from the store's feed. Whoever follows hears of its end all the same, at the position
        that was reached.
        """
        waker, farewells = asyncio.Event(), deque[Entry](maxlen=FAREWELLS_MAX)
        self._feeders[waker] = farewells
        try:
            while not self._closed:
                waker.clear()
                found = await self._store.feed(after=after, limit=PAGE)
                for place in found:
                    after = place.position
                    yield place.position, place.entry
                    if self._closed:
                        return
                while farewells and not self._closed:
                    yield after, farewells.popleft()
                if not found:
                    await waker.wait()
        finally:
            self._feeders.pop(waker, None)
