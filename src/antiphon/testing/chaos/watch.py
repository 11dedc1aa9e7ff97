"""Looking at hosts and database from outside: who owns what, and how soon a dead host's work was taken over."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from antiphon.testing.chaos.database import FAULTS, Database
from antiphon.testing.chaos.fleet import Member

STRAYS_S = 30.0
LOOK_AGAIN_S = 0.2
AT_WORK_S = 3.0

_OWNED = """
SELECT s.id, s.status = 'running' FROM sessions s WHERE s.unsettled = 1
    AND s.owner = (SELECT h.id FROM hosts h WHERE h.name = $1 ORDER BY h.started_at DESC LIMIT 1)"""
_OWNERS = """
SELECT s.id, h.name FROM sessions s LEFT JOIN hosts h ON h.id = s.owner WHERE s.id = ANY($1::text[])"""
_COMMITTED = """
SELECT e.type, e.turn_id, e.message_id,
    extract(epoch FROM pg_xact_commit_timestamp(f.xid::text::xid))::float8 * 1000
FROM sessions s JOIN entries e ON e.session = s.number JOIN feed f ON f.position = e.position
WHERE s.id = $1 ORDER BY e.sequence"""
_JOURNAL = """
SELECT e.sequence, e.type, e.turn_id, e.message_id, convert_from(e.data, 'UTF8'),
    pg_xact_commit_timestamp(f.xid::text::xid)::time
FROM sessions s JOIN entries e ON e.session = s.number JOIN feed f ON f.position = e.position
WHERE s.id = $1 ORDER BY e.sequence"""
_BEGUN, _ENDED = "turn.started", "turn.ended"
LAST_WORDS_MS = 50.0
"""So long after a host's death the server may still carry out what it had sent."""


class Death(msgspec.Struct):
    """A host that was killed.

    Attributes:
        host: Its name.
        owned: The ids of the sessions that it owned just before.
        at: When it was killed, in milliseconds since the epoch.
    """

    host: str
    owned: tuple[str, ...] = ()
    at: float = 0.0


class Happening(msgspec.Struct, frozen=True):
    """An event of a session, and when its commit was made, in milliseconds since the epoch."""

    type: str
    turn_id: str | None
    message_id: str | None
    committed_at: float


class Watch:
    """Somebody who looks on, by connections of his own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.strayed_s = 0.0
        """How long an agent of a lost session went on, at the most, after its host came back."""

    def now(self) -> float:
        """The machine's time, which is the database's too, in milliseconds since the epoch."""
        return time.time() * 1000

    async def before_death(self, member: Member) -> Death:
        """What a host owns that is about to be killed, as soon as a turn runs there, or after a moment."""
        deadline = time.monotonic() + AT_WORK_S
        while True:
            owned = await self._rows(_OWNED, member.name)
            if any(runs for _, runs in owned) or time.monotonic() > deadline:
                return Death(member.name, tuple(id for id, _ in owned))
            await asyncio.sleep(LOOK_AGAIN_S)

    async def strays(self, member: Member) -> list[str]:
        """Agents that a host goes on running for sessions that it lost, some time after it could know."""
        began, owners = time.monotonic(), dict[str, str | None]()
        suspects = member.agents()
        while suspects and time.monotonic() < began + STRAYS_S:
            await asyncio.sleep(LOOK_AGAIN_S)
            with contextlib.suppress(*FAULTS):
                owners = await self._owners(suspects.values())
                now = member.agents().items()
                suspects = {
                    pid: of for pid, of in suspects.items() if (pid, of) in now and owners.get(of) != member.name
                }
        late = f"at {datetime.now(UTC):%H:%M:%S}, {STRAYS_S:g} s after it came back"
        return [
            f"{member.name} runs agent {pid} of {of} {late}, and {owners.get(of)} owns that"
            for pid, of in suspects.items()
        ]

    async def _owners(self, session_ids: Iterable[str]) -> dict[str, str | None]:
        """The names of the hosts that own sessions."""
        return dict(await self._rows(_OWNERS, list(session_ids)))

    async def takeovers_ms(self, deaths: Sequence[Death]) -> list[float]:
        """How long each session that a dead host had at work waited for the first event of its next owner."""
        found: list[float] = []
        for death in deaths:
            for session_id in death.owned:
                happenings = [Happening(*row) for row in await self._rows(_COMMITTED, session_id)]
                took_ms = taken_over_after_ms(happenings, death.at)
                found += [] if took_ms is None else [took_ms]
        return found

    async def journal(self, session_id: str) -> list[Any]:
        """A session's events: sequence, type, turn, message, data, and the time of the commit."""
        return await self._rows(_JOURNAL, session_id)

    async def _rows(self, sql: str, *args: Any) -> list[Any]:
        connection = await self._database.connect()
        try:
            return [tuple(row) for row in await connection.fetch(sql, *args)]
        finally:
            connection.terminate()


def taken_over_after_ms(happenings: Sequence[Happening], died_at: float) -> float | None:
    """How long after its owner's death a session at work was gone on with; None where nothing ran or waited then.

    What only an owner writes counts: that a turn ends or starts, not what clients ask for through other doors.
    """
    running: str | None = None
    waiting: set[str] = set()
    before = [happening for happening in happenings if happening.committed_at <= died_at + LAST_WORDS_MS]
    for happening in before:
        message = happening.message_id or ""
        if happening.type == _BEGUN:
            running = happening.turn_id
        elif happening.type == _ENDED:
            running = None
        elif happening.type == "message.accepted":
            waiting.add(message)
        elif happening.type == "message.ended":
            waiting.discard(message)
    if running is None and not waiting:
        return None
    for happening in happenings[len(before) :]:
        if happening.type in (_BEGUN, _ENDED):
            return happening.committed_at - died_at
    return None
