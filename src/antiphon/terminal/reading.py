"""Reading along: a session's story and the overview of all sessions, kept up to date through restarts of the host.

Readers own no screen. They tell by a callback that something has changed, and by `trouble` what is in the way; the
cursor of the last event that was taken leads on after a break, so that nothing is taken twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress

from antiphon.cli.exits import told
from antiphon.client import AsyncClient, ClientError, ConnectionLost, Event, HostNotReached, NotFound, Pace, Session
from antiphon.terminal.attention import by_attention
from antiphon.terminal.story import Story

PACE = Pace(reconnect_s=0, retry_s=2)
"""Readers look for a lost host themselves, for as long as it takes, and tell meanwhile that it is lost."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
WINDOW, WINDOW_MAX, TURNS_WANTED = 300, 20_000, 10
SINGLY_MAX = 8
SETTLE_S, SOON_S, REFRESH_S, REVIEW_S = 0.15, 1.0, 15.0, 30.0
_PIECES = frozenset({"turn.text", "turn.thought"})
MOVING = ("session.*", "message.*", "queue.*", "permission.*", "turn.started", "turn.ended", "turn.cancel_requested")
"""The types of events after which a session stands otherwise on the board."""

Changed = Callable[[], None]


class _Reader:
    """What both readers do when the host is away."""

    def __init__(self, client: AsyncClient, changed: Changed) -> None:
        self._client, self._changed = client, changed
        self._pause_s = FIRST_PAUSE_S
        self.trouble: str | None = "Connecting …"
        """What is in the way, in words for a person; None while all is well."""

    def _well(self) -> None:
        self._pause_s = FIRST_PAUSE_S
        self.trouble = None
        self._changed()

    async def _ill(self, error: ClientError) -> None:
        """Tell of the trouble and wait a little before trying again."""
        lost = isinstance(error, HostNotReached | ConnectionLost)
        self.trouble = "Offline: the host is not there. Looking for it …" if lost else told(error)
        self._changed()
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


class SessionReader(_Reader):
    """Reads one session.

    Attributes:
        story: What there is to see. It is another object after a gap, or when more of the past was asked for.
        session: The session as it is; None until it was read.
    """

    def __init__(self, client: AsyncClient, ref: str, changed: Changed) -> None:
        super().__init__(client, changed)
        self._ref, self._window, self._begins = ref, WINDOW, False
        self.story = Story()
        self.session: Session | None = None
        self._stirred, self._telling = asyncio.Event(), asyncio.Lock()

    @property
    def whole(self) -> bool:
        """Whether the story begins with the session."""
        return self._begins

    async def run(self) -> None:
        """Read until the session is deleted, or this is cancelled."""
        while not self.story.deleted:
            try:
                await self._read()
            except NotFound as error:
                self.trouble = told(error)
                self._changed()
                return
            except ClientError as error:
                await self._ill(error)

    async def stay_fresh(self) -> None:
        """Read the session's state soon after anything happened, and every now and then, until this is cancelled."""
        while not self.story.deleted:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):
                    await self._stirred.wait()
            self._stirred.clear()
            if self.trouble is None:  # else `run` reads the state once the host is there again
                await self._refresh()
            await asyncio.sleep(SETTLE_S)

    def stir(self) -> None:
        """Something was done that changes the session's state."""
        self._stirred.set()

    async def earlier(self, wanted: int) -> None:
        """Let the story begin further back, if it has fewer items than are wanted."""
        async with self._telling:
            if len(self.story.items) < wanted and not self._begins and self._window < WINDOW_MAX:
                self._window *= 4
                with suppress(ClientError):  # `run` tells of it
                    self.story = await self._told()
        self._changed()

    async def _refresh(self) -> None:
        with suppress(ClientError):  # `run` meets the same trouble, and tells of it
            self.session = await self._client.session(self._id)
            self._changed()

    @property
    def _id(self) -> str:
        return self.session.id if self.session else self._ref

    async def _read(self) -> None:
        self.session = await self._client.session(self._id)
        if self.story.cursor is None:
            self.story = await self._told()
        self._well()
        async with aclosing(self._client.events(self._id, after=self.story.cursor)) as events:
            async for event in events:
                story = self.story
                if story.cursor and not _follows(event, story.cursor):
                    continue  # the story was told anew meanwhile, up to a later event
                if not story.take(event):
                    self.story = Story()
                    return
                if event.type not in _PIECES:
                    self.stir()
                self._changed()

    async def _told(self) -> Story:
        """The story from as far back as is wanted, up to now."""
        story = Story()
        for event in await self._recent():
            story.take(event)
        return story

    async def _recent(self) -> Sequence[Event]:
        """The last events, at least some turns of them, and all of the one that runs."""
        first = [event async for event in self._client.journal(self._id, limit=1)]
        session = await self._client.session(self._id)
        while first:
            start = session.sequence - self._window
            self._begins = start <= 0
            after = None if self._begins else f"{first[0].cursor.rpartition(':')[0]}:{start}"
            events = [event async for event in self._client.journal(self._id, after=after)]
            if self._begins or self._window >= WINDOW_MAX or _is_enough(events, session.turn_id):
                return events
            self._window *= 4
        return ()


def _follows(event: Event, cursor: str) -> bool:
    """Whether an event is later than a cursor; what has no place of its own always is."""
    epoch, _, sequence = event.cursor.rpartition(":")
    seen_epoch, _, seen = cursor.rpartition(":")
    return event.type in ("gap", "snapshot") or epoch != seen_epoch or int(sequence) > int(seen)


def _is_enough(events: Sequence[Event], running: str | None) -> bool:
    begun = [event.turn_id for event in events if event.type == "turn.started"]
    return len(begun) >= TURNS_WANTED and (running is None or running in begun)


class Overview(_Reader):
    """Reads all sessions.

    Attributes:
        sessions: Every session by its id.
        questions: What the sessions that ask ask, by the session's id.
    """

    def __init__(self, client: AsyncClient, changed: Changed) -> None:
        super().__init__(client, changed)
        self.sessions: dict[str, Session] = {}
        self.questions: dict[str, str] = {}
        self._moved: set[str] = set()
        self._stirred = asyncio.Event()

    def in_order(self) -> list[Session]:
        """All sessions, those first that need somebody."""
        return by_attention(self.sessions.values())

    async def run(self) -> None:
        """Read until this is cancelled."""
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._listen())
                    group.create_task(self._review())
            except* ClientError as errors:
                await self._ill(_first(errors))

    async def _listen(self) -> None:
        """Take note of whose sessions move."""
        async with aclosing(self._client.events(types=MOVING)) as events:
            async for event in events:
                self._moved.add(event.session_id)
                self._stirred.set()

    async def _review(self) -> None:
        """Read all sessions at first and every now and then, for time alone makes one stall; else those that moved."""
        again_s = SOON_S  # what moved while the feed was being opened is seen by the second look
        while True:
            await self._read_all()
            self._well()
            try:
                async with asyncio.timeout(again_s):
                    while True:
                        await self._stirred.wait()
                        await asyncio.sleep(SETTLE_S)
                        await self._read_moved()
                        self._changed()
            except TimeoutError:
                again_s = REVIEW_S

    async def _read_all(self) -> None:
        self._moved.clear()
        self._stirred.clear()
        self.sessions = {session.id: session async for session in self._client.sessions()}
        await self._read_questions()

    async def _read_moved(self) -> None:
        moved = self._moved.copy()
        if len(moved) > SINGLY_MAX or "" in moved:
            await self._read_all()
            return
        self._stirred.clear()
        self._moved.clear()
        for session_id in moved:
            try:
                self.sessions[session_id] = await self._client.session(session_id)
            except NotFound:
                self.sessions.pop(session_id, None)
        if moved & self.questions.keys() or any(self._asks(session_id) for session_id in moved):
            await self._read_questions()

    def _asks(self, session_id: str) -> bool:
        session = self.sessions.get(session_id)
        return session is not None and session.status == "asking"

    async def _read_questions(self) -> None:
        if any(self._asks(session_id) for session_id in self.sessions):
            asked = self._client.permissions()
            self.questions = {each.session_id: each.question async for each in asked}
        else:
            self.questions = {}


def _first(errors: BaseExceptionGroup[ClientError]) -> ClientError:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
