"""Faults in an order that a seed decides: of hosts, of their lines, and of the database, up to two at a time."""

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec

from antiphon.testing.chaos.database import FAULTS, Database
from antiphon.testing.chaos.fleet import Fleet, Member
from antiphon.testing.chaos.watch import Death, Watch
from antiphon.testing.torture.victim import Troubled

AT_ONCE = 2
SHORT_S, LONG_S = (0.3, 2.5), (6.5, 9.0)
"""Shorter and longer than the lease, by which a host that is silent loses what it owns."""
GONE_S = (1.5, 5.0)
CALM_S, TAKEN_OVER_S = 2.5, 3.0
"""Longer than hosts judge nobody after trouble of their own, and than a takeover takes."""
PAUSE_S = (0.2, 2.0)
LET_IN_S = 0.1


class Tally(msgspec.Struct):
    """What was done, and what was found meanwhile."""

    host_kills: int = 0
    freezes: int = 0
    restarts: int = 0
    cuts: int = 0
    silences: int = 0
    backends_ended: int = 0
    database_restarts: int = 0
    failovers: int = 0
    deaths: list[Death] = []
    findings: list[str] = []


class Storm:
    """All faults, dealt from a deck that is shuffled anew when it is used up: so every kind comes in its turn."""

    def __init__(
        self, fleet: Fleet, database: Database, watch: Watch, chance: random.Random, only: Sequence[str] = ()
    ) -> None:
        """Of all faults, or `only` of those of certain names.

        Raises:
            Troubled: There is no fault of that name.
        """
        self.tally = Tally()
        self._fleet = fleet
        self._database = database
        self._watch = watch
        self._chance = chance
        self._order = random.Random(chance.random())  # noqa: S311 - of the deck, whatever else is left to chance
        self._room = asyncio.Semaphore(AT_ONCE)
        self._calm = asyncio.Lock()
        deck: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("kill", self._kill_alone),
            ("kill in bad weather", self._kill),
            ("short freeze", lambda: self._freeze(SHORT_S)),
            ("long freeze", lambda: self._freeze(LONG_S)),
            ("restart in good order", self._restart),
            ("short cut", lambda: self._cut(SHORT_S)),
            ("long cut", lambda: self._cut(LONG_S)),
            ("short silence", lambda: self._silence(SHORT_S)),
            ("long silence", lambda: self._silence(LONG_S)),
            ("deafness", self._deafen),
            ("ended backends", self._end_backends),
            ("database restart", lambda: self._restart_database(signal.SIGINT)),
            ("database crash", lambda: self._restart_database(signal.SIGQUIT)),
            ("failover", lambda: self._fail_over(silently=False)),
            ("silent failover", lambda: self._fail_over(silently=True)),
        )
        unknown = set(only) - {name for name, _ in deck}
        if unknown:
            raise Troubled(f"no such fault: {min(unknown)}; known are {', '.join(sorted({name for name, _ in deck}))}")
        self._deck = [card for card in deck if not only or card[0] in only]

    async def rage(self, seconds: float) -> None:
        """Go on for so long; in the end everything works again."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end:
                for name, fault in self._order.sample(self._deck, len(self._deck)):
                    await asyncio.sleep(self._chance.uniform(*PAUSE_S))
                    await self._room.acquire()
                    if time.monotonic() > end:
                        return
                    group.create_task(self._one(name, fault, end))

    async def _one(self, name: str, fault: Callable[[], Awaitable[None]], end: float) -> None:
        began = time.monotonic()
        print(f"{end - began:6.1f} s to go: {name}", file=sys.stderr)
        try:
            await fault()
            print(f"{end - time.monotonic():6.1f} s to go: over is the {name}", file=sys.stderr)
        except (Troubled, *FAULTS, AssertionError) as trouble:
            self.tally.findings.append(f"{name}: {type(trouble).__name__}: {trouble}")
        finally:
            self._room.release()

    @contextlib.asynccontextmanager
    async def _somebody(self) -> AsyncGenerator[Member]:
        """A host that has no trouble yet, where another one has none either."""
        while True:
            free = [member for member in self._fleet if not member.lock.locked()]
            if len(free) > 1:
                break
            await asyncio.sleep(LET_IN_S)
        member = self._chance.choice(free)
        async with member.lock:
            if (code := member.victim.exit_code) is not None:
                self.tally.findings.append(f"host {member.name} ended by itself, with {code}")
                await member.revive()
            yield member

    # Hosts

    async def _kill_alone(self) -> None:
        """SIGKILL while nothing else happens or has just happened, so that the takeover can be timed."""
        async with self._calm, contextlib.AsyncExitStack() as quiet:
            await quiet.enter_async_context(self._database.lock)
            for member in self._fleet:
                await quiet.enter_async_context(member.lock)
            await asyncio.sleep(CALM_S)
            member = self._chance.choice(self._fleet)
            death = await self._watch.before_death(member)
            member.victim.kill()
            death.at = self._watch.now()
            self.tally.host_kills += 1
            self.tally.deaths.append(death)
            await asyncio.sleep(TAKEN_OVER_S)
            await member.revive()

    async def _kill(self) -> None:
        async with self._somebody() as member:
            member.victim.kill()
            self.tally.host_kills += 1
            await asyncio.sleep(self._chance.uniform(*GONE_S))
            await member.revive()

    async def _freeze(self, how_long_s: tuple[float, float]) -> None:
        async with self._somebody() as member:
            member.victim.freeze()
            self.tally.freezes += 1
            await asyncio.sleep(self._chance.uniform(*how_long_s))
            member.victim.thaw()
            self.tally.findings += await self._watch.strays(member)

    async def _restart(self) -> None:
        async with self._somebody() as member:
            self.tally.restarts += 1
            await member.stop()
            await member.revive()

    # Lines

    async def _cut(self, how_long_s: tuple[float, float]) -> None:
        async with self._somebody() as member:
            self.tally.cuts += 1
            for way in member.ways:
                way.shut("cut")
            await asyncio.sleep(self._chance.uniform(*how_long_s))
            for way in member.ways:
                await way.mend("cut")
            self.tally.findings += await self._watch.strays(member)

    async def _silence(self, how_long_s: tuple[float, float]) -> None:
        async with self._somebody() as member:
            self.tally.silences += 1
            deliver = self._chance.random() < 0.5
            for way in member.ways:
                way.silence("silent")
            await asyncio.sleep(self._chance.uniform(*how_long_s))
            for way in member.ways:
                await way.mend("silent", deliver=deliver)
            self.tally.findings += await self._watch.strays(member)

    async def _deafen(self) -> None:
        async with self._somebody() as member:
            self.tally.cuts += 1
            for way in member.ways:
                way.deafen(deaf=True)
            await asyncio.sleep(self._chance.uniform(0.05, 1.0))
            for way in member.ways:
                way.deafen(deaf=False)

    # The database

    async def _end_backends(self) -> None:
        self.tally.backends_ended += await self._database.end_backends(4, self._chance)

    async def _restart_database(self, how: signal.Signals) -> None:
        self.tally.database_restarts += 1
        await self._database.restart(how, self._chance.uniform(0.1, 2.0))

    async def _fail_over(self, *, silently: bool) -> None:
        self.tally.failovers += 1
        await self._database.fail_over(self._chance.uniform(0.1, 2.0), silently=silently)
