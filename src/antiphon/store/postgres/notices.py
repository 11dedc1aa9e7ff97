"""Telling other hosts what was committed here, and hearing what was committed there."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import Notice
from antiphon.store.notices import Waiting

Told = tuple[int, Mapping[str, str | None] | None]
"""How far a session has come, and which of its messages have ended, if that is known."""

PAYLOAD_BYTES = 7000
"""PostgreSQL takes less than 8000 (https://www.postgresql.org/docs/current/sql-notify.html)."""
LINGER_S = 0.005
"""What nobody has to act on may be told so much later."""
NAMED_MAX = 20
"""A notification names so many messages of a session that ended, or none."""
REMEMBERED = 10_000
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
"""Tells the channel `$1` at once. A notification is a transaction of its own, whose commit would wait for the disk, and
for a standby, although nothing of it is kept (https://www.postgresql.org/docs/current/wal-async-commit.html)."""


class Outbox:
    """Commits to be told to others, coalesced: while one notification is on its way the next gathers.

    NOTIFY takes a lock over all commits of the database until its own transaction ends. So it never rides in a commit,
    but follows on another connection.
    """

    def __init__(self, origin: str, send: Callable[[str], Awaitable[None]]) -> None:
        self._origin = origin
        self._send = send
        self._waiting = Waiting()
        self._due = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None

    def put(self, notice: Notice, *, soon: bool) -> None:
        """Have others told of a commit: at once, or within `LINGER_S`, together with what comes until then."""
        self._waiting.put(notice)
        if soon:
            self._due.set()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self._due.set)

    async def deliver(self) -> None:
        """Tell what waits, for ever. What can't be told is dropped: whoever listens reads the feed too."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            for payload in self._payloads(self._waiting.take()):
                await self._send(payload)

    def _payloads(self, notices: list[Notice]) -> list[str]:
        payloads: list[str] = []
        part: dict[str, Told] = {}
        size = 0
        for notice in notices:
            ended = notice.ended if notice.ended is not None and len(notice.ended) <= NAMED_MAX else None
            part[notice.session_id] = notice.sequence, ended
            size += len(notice.session_id) + 40 + 100 * len(ended or ())
            if size > PAYLOAD_BYTES - 400 - NAMED_MAX * 100:
                payloads.append(self._payload(part))
                part, size = {}, 0
        return [*payloads, self._payload(part)] if part else payloads

    def _payload(self, part: dict[str, Told]) -> str:
        return msgspec.json.encode((self._origin, part)).decode()


class Inbox(Waiting):
    """What one reader of notices has not been told yet."""

    def __init__(self) -> None:
        super().__init__()
        self.missed = True
        """Some notifications may have been missed: the feed tells."""

    def miss(self) -> None:
        """The feed must be read."""
        self.missed = True
        self.ready.set()


LATE_PAUSES_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Lookout:
    """Waits for commits that the feed holds back while an older transaction runs.

    Who is woken by a commit may find nothing in the feed yet, and nothing would wake him when the older transaction
    has ended. So what somebody looked for in vain is told once more when the feed has it.
    """

    def __init__(self, settled_before: Callable[[], Awaitable[int]], tell: Callable[[Notice], None]) -> None:
        """Args:
        settled_before: Before which transaction all have ended.
        tell: Told what the feed has now.
        """
        self._settled_before = settled_before
        self._tell = tell
        self._expected: dict[int, Notice] = {}
        self._ready = asyncio.Event()

    def expect(self, xid: int, notice: Notice) -> None:
        """Have it told when the feed holds what this transaction wrote."""
        self._expected[xid] = notice
        self._ready.set()

    async def watch(self) -> None:
        """Look, for ever."""
        while True:
            await self._ready.wait()
            attempt = 0
            while self._expected:
                await asyncio.sleep(LATE_PAUSES_S[min(attempt, len(LATE_PAUSES_S) - 1)])
                attempt += 1
                try:
                    before = await self._settled_before()
                except StoreUnavailable:  # the next look makes it good
                    continue
                for xid in [xid for xid in self._expected if xid < before]:
                    self._tell(self._expected.pop(xid))
            self._ready.clear()


class Known:
    """The sequences that this store wrote itself lately: the feed does not say whose a commit was."""

    def __init__(self) -> None:
        self._sequences: OrderedDict[str, int] = OrderedDict()

    def put(self, session_id: str, sequence: int) -> None:
        """Remember a commit of this store."""
        self._sequences[session_id] = sequence
        self._sequences.move_to_end(session_id)
        if len(self._sequences) > REMEMBERED:
            self._sequences.popitem(last=False)

    def has(self, notice: Notice) -> bool:
        """Whether nobody but this store need have written that."""
        return self._sequences.get(notice.session_id, 0) >= notice.sequence


_heard = msgspec.json.Decoder(tuple[str, dict[str, Told]]).decode


def heard(payload: str, own: str) -> list[Notice]:
    """What a notification tells; nothing where it is this store's own, or anybody else's on this channel."""
    try:
        origin, told = _heard(payload)
    except msgspec.MsgspecError:
        return []
    return [
        Notice(session_id=session_id, sequence=sequence, ended=ended)
        for session_id, (sequence, ended) in (told.items() if origin != own else ())
    ]
