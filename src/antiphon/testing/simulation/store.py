"""The store as one run of a host meets it: the store in memory, with everything that can come between."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import ParamSpec, Protocol, TypeVar, cast

from antiphon.core import commands as c
from antiphon.core.decide import Given
from antiphon.core.errors import StoreUnavailable
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.step import Step
from antiphon.ports.clock import Clock
from antiphon.ports.store import (
    Commit,
    FeedEntry,
    KeyedMessage,
    Listed,
    Notice,
    SessionQuery,
    StoreDamaged,
    StoredMessage,
)
from antiphon.store.memory import MemoryStore
from antiphon.testing.simulation.chronicle import Chronicle, Story
from antiphon.testing.simulation.ledger import Ledger, Patch
from antiphon.testing.simulation.machine import Machine
from antiphon.testing.simulation.trace import Trace
from antiphon.testing.simulation.weather import Weather
from antiphon.testing.simulation.wire import Life

POLL_S = 2.0
"""How often a store looks through what others wrote, for what it was not told."""
LATE_S = 0.3
P = ParamSpec("P")
T = TypeVar("T")


class Shelf:
    """The one place where sessions are kept, whichever host runs.

    Attributes:
        memory: The store behind it.
        chronicle: Everything that was committed to it.
        away_until: Until when it can't be reached, in seconds of the simulation.
        damaged: The sessions that can't be read any more.
        commits: How often somebody has tried to commit.
        claims: The newest claim on each session: its fence, and whose it is.
    """

    def __init__(self, *, clock: Clock, dice: random.Random, weather: Weather, ledger: Ledger, trace: Trace) -> None:
        self.memory = MemoryStore(epoch="simulation")
        self.chronicle = Chronicle()
        self.clock = clock
        self.dice = dice
        self.weather = weather
        self.ledger = ledger
        self.trace = trace
        self.away_until = 0.0
        self.damaged: set[str] = set()
        self.commits = 0
        self.claims: dict[str, tuple[int, Life]] = {}

    def owner(self, session_id: str) -> Life | None:
        """Which host's claim on a session is the newest."""
        return self.claims[session_id][1] if session_id in self.claims else None

    async def commit(self, commit: Commit, memory: MemoryStore | None = None) -> None:
        """Commit, through the store that a host has or from outside, and take note of it."""
        await (memory or self.memory).commit(commit)
        self.chronicle.add(commit, self.clock.monotonic())

    def readable(self) -> list[Story]:
        """The living sessions that have not been damaged."""
        return [story for story in self.chronicle.living() if story.session.id not in self.damaged]

    async def pause(self) -> None:
        """As long as a call takes on its way, or on its way back."""
        fate = self.dice.random()
        if fate < 0.6:
            return
        if fate < 0.8 or not self.weather.slow_s:
            for _ in range(1 + (fate < 0.66)):
                await asyncio.sleep(0)
            return
        await asyncio.sleep(self.weather.slow_s * self.dice.random())

    async def rival(self, session_id: str) -> None:
        """Another writer changes metadata of a session, by its own right."""
        session = await self.memory.load(session_id)
        if session is None:
            return
        token = self.ledger.token()
        field = self.dice.choice(("title", "label", "setting"))
        changes = {"title": {"title": token}, "label": {"labels": {"rival": token}}}.get(
            field, {"settings": {"rival": token}}
        )
        step = Step(session, Given(now=self.clock.now()), session_id=session_id)
        step.take(c.PatchSession(changes=changes))
        step.seal()
        assert step.session is not None, "it was loaded"
        await self.commit(Commit(session=step.session, expected=session.sequence, entries=tuple(step.entries)))
        self.ledger.patches.append(Patch(value=token, changes=changes, outcome="accepted"))
        self.trace.note("rival", session_id, step.session.sequence)


class Crash(Protocol):
    """How the host's process is killed, or comes to a standstill."""

    def __call__(self) -> None: ...


class ShakyStore:
    """A host's connection to the shelf. After the host's death nothing goes through it any more.

    `plan`, when given, says before each commit what shall happen instead of what the weather says: `crash_before`,
    `crash_after`, `away`, `doubt_lost`, `doubt_written`, `rival`, or `""`. `memory` is the host's own store on the
    shelf's data, where there are several hosts; `machine` tells which of its agents live.
    `stall` lets the host stand still.
    """

    def __init__(
        self,
        shelf: Shelf,
        life: Life,
        crash: Crash,
        plan: Callable[[int], str] | None = None,
        *,
        memory: MemoryStore | None = None,
        machine: Machine,
        stall: Crash,
    ) -> None:
        self._shelf = shelf
        self._shared = memory is not None
        self._memory = memory or shelf.memory
        self._machine = machine
        self._stall = stall
        self._life = life
        self._crash = crash
        self._plan = plan or self._fate

    @property
    def epoch(self) -> str:
        """The name of this journal."""
        return self._memory.epoch

    # Writing

    async def commit(self, commit: Commit) -> None:
        shelf = self._shelf
        await self._pass()
        self._require_reach()
        fate = self._plan(shelf.commits)
        shelf.commits += 1
        by = (self._life.name, commit.fence, *[entry.type for entry in commit.entries]) if self._shared else ()
        shelf.trace.note("commit", commit.session.id, commit.expected, f"+{len(commit.entries)}", fate, *by)
        if fate == "away":
            raise StoreUnavailable("It is away.")
        if fate == "doubt_lost":
            raise self._doubt()
        if fate == "stall":
            self._stall()
            await asyncio.sleep(0)  # until it goes on
        if fate == "crash_before":
            self._die()
        if fate == "rival" and commit.expected:
            await shelf.rival(commit.session.id)
        await shelf.commit(commit, self._memory)
        if fate == "crash_after":
            self._die()
        if fate == "doubt_written":
            raise self._doubt()
        await self._pass()

    def _fate(self, _number: int) -> str:
        weather, dice = self._shelf.weather, self._shelf.dice
        for fate, rate in (
            (("crash_before", "crash_after"), weather.crash),
            (("away",), weather.away),
            (("doubt_lost", "doubt_written"), weather.doubtful),
            (("rival",), weather.rival),
        ):
            if dice.random() < rate:
                return dice.choice(fate)
        return "stall" if self._shared and dice.random() < weather.stalls else ""

    def _doubt(self) -> StoreUnavailable:
        """The connection is lost in the middle of a commit, perhaps for a while."""
        shelf = self._shelf
        if shelf.dice.random() < 0.5:
            shelf.away_until = shelf.clock.monotonic() + 0.3 * shelf.dice.random()
        return StoreUnavailable("It went away meanwhile.", in_doubt=True)

    def _die(self) -> None:
        self._crash()
        raise asyncio.CancelledError

    async def _pass(self) -> None:
        if not self._life.dead:
            await self._shelf.pause()
        if self._life.dead:
            raise asyncio.CancelledError

    def _require_reach(self) -> None:
        if self._shelf.clock.monotonic() < self._shelf.away_until:
            raise StoreUnavailable("It is away.")

    def _require_whole(self, session_id: str) -> None:
        if session_id in self._shelf.damaged:
            raise StoreDamaged(f"Session {session_id} can't be read.", session_id=session_id)

    async def claim(self, session_id: str, host: str) -> int | None:
        return await self.reach(self._claim, session_id, host)

    async def _claim(self, session_id: str, host: str) -> int | None:
        fence = await self._memory.claim(session_id, host)
        if fence is not None:
            self._shelf.claims[session_id] = (fence, self._life)
            if self._shared:
                self._shelf.trace.note("claim", session_id, self._life.name, fence)
        return fence

    async def release(self, session_id: str, fence: int) -> None:
        await self.reach(self._release, session_id, fence)

    async def _release(self, session_id: str, fence: int) -> None:
        await self._memory.release(session_id, fence)
        newest = self._shelf.claims.get(session_id, (0, self._life))[0]
        if newest == fence and self._machine.living(self._life, session_id):
            self._shelf.ledger.finding(f"P1: {session_id} is given up while its agent lives")

    async def purge(self, limit: int) -> int:
        return await self.reach(self._memory.purge, limit)

    # Reading

    async def reach(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the shelf something, if it can be reached and the host lives."""
        await self._pass()
        self._require_reach()
        if self._shelf.dice.random() < self._shelf.weather.read_away:
            raise StoreUnavailable("It is away.")
        found = await call(*args, **kwargs)
        await self._pass()
        return found

    async def load(self, session_id: str) -> Session | None:
        self._require_whole(session_id)
        return await self.reach(self._memory.load, session_id)

    async def find(self, key: str) -> str | None:
        return await self.reach(self._memory.find, key)

    async def unsettled(self) -> Sequence[str]:
        return await self.reach(self._memory.unsettled)

    async def sessions(self, query: SessionQuery, *, cursor: str | None, limit: int) -> Listed:
        return await self.reach(self._memory.sessions, query, cursor=cursor, limit=limit)

    async def count(self) -> int:
        return await self.reach(self._memory.count)

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        self._require_whole(session_id)
        return await self.reach(self._memory.entries, session_id, after=after, limit=limit)

    async def tail(self, session_id: str, *, before: int | None, limit: int) -> Sequence[Entry]:
        return await self.reach(self._memory.tail, session_id, before=before, limit=limit)

    async def feed(self, *, after: str, limit: int) -> Sequence[FeedEntry]:
        return await self.reach(self._memory.feed, after=after, limit=limit)

    async def feed_end(self) -> str:
        return await self.reach(self._memory.feed_end)

    async def message(self, message_id: str) -> StoredMessage | None:
        return await self.reach(self._memory.message, message_id)

    async def messages(self, message_ids: Sequence[str]) -> Sequence[StoredMessage]:
        return await self.reach(self._memory.messages, message_ids)

    async def gone(self, message_id: str) -> Message | None:
        return await self.reach(self._memory.gone, message_id)

    async def keyed(self, session_id: str, idempotency_key: str) -> KeyedMessage | None:
        return await self.reach(self._memory.keyed, session_id, idempotency_key)

    async def turn(self, turn_id: str) -> Turn | None:
        return await self.reach(self._memory.turn, turn_id)

    async def turns(self, session_id: str, *, generation: int | None, cursor: str | None, limit: int) -> Listed:
        return await self.reach(self._memory.turns, session_id, generation=generation, cursor=cursor, limit=limit)

    async def reply(self, turn_id: str, *, until: int | None = None) -> str | None:
        return await self.reach(self._memory.reply, turn_id, until=until)

    async def answered(self, message_id: str, turn_id: str) -> tuple[StoredMessage, str | None] | None:
        return await self.reach(self._memory.answered, message_id, turn_id)

    async def transcript(self, session_id: str, *, generation: int, cursor: str | None, limit: int) -> Listed:
        return await self.reach(self._memory.transcript, session_id, generation=generation, cursor=cursor, limit=limit)

    async def permissions(self, *, state: str | None, session_id: str | None, cursor: str | None, limit: int) -> Listed:
        return await self.reach(
            self._memory.permissions, state=state, session_id=session_id, cursor=cursor, limit=limit
        )

    async def permission(self, permission_id: str) -> Permission | None:
        return await self.reach(self._memory.permission, permission_id)

    # Its end

    async def notices(self) -> AsyncIterator[Notice]:
        """What other hosts commit, some of it late. What is lost on its way is found when the store is looked through.

        Nobody tells of other writers where there is one host.
        """
        if not self._shared:
            return
        told = cast("AsyncGenerator[Notice, None]", self._memory.notices())
        async with aclosing(told) as notices:
            async for notice in notices:
                await self._delay()
                yield notice

    async def _delay(self) -> None:
        dice, weather = self._shelf.dice, self._shelf.weather
        if dice.random() < weather.lost_notices:
            await asyncio.sleep(POLL_S * dice.random())
        elif dice.random() < weather.late_notices:
            await asyncio.sleep(LATE_S * dice.random())
        if self._life.dead:
            raise asyncio.CancelledError

    async def close(self) -> None:
        """The shelf stays."""
