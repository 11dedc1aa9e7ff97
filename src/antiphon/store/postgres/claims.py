"""Claims: advisory locks on one connection, and the rows in which their fences and owners stand."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.postgres.driver import Connection
from antiphon.store.postgres.faults import FAULTS, OWN, is_passing

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

_LOCK = "hashtextextended($1 || id, 0)"
_CLAIM = f"""
WITH asked AS MATERIALIZED (
    SELECT id, host, CASE WHEN mine THEN true ELSE pg_try_advisory_lock({_LOCK}) END AS locked
    FROM unnest($2::text[], $3::text[], $4::boolean[]) AS given (id, host, mine)),
picked AS MATERIALIZED (
    SELECT number, id FROM sessions
    WHERE id = ANY(ARRAY(SELECT id FROM asked WHERE locked)) AND deleted_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED),
fenced AS MATERIALIZED (
    SELECT id, host, nextval('fences') AS fence FROM asked
    WHERE locked AND (id IN (SELECT id FROM picked)
        OR NOT EXISTS (SELECT FROM sessions s WHERE s.id = asked.id AND s.deleted_at IS NULL))),
owned AS (
    UPDATE sessions SET fence = fenced.fence, owner = fenced.host
    FROM picked JOIN fenced USING (id) WHERE sessions.number = picked.number)
SELECT asked.id, locked, fence FROM asked LEFT JOIN fenced USING (id)"""
"""Locks what is free, and puts new fences into the rows. It waits for nobody: a row that somebody else writes just now
is left for the next time, locked without a fence."""

_FREE = f"""
WITH given_up AS MATERIALIZED (
    SELECT id, fence, locked FROM unnest($2::text[], $3::bigint[], $4::boolean[]) AS given (id, fence, locked)),
picked AS MATERIALIZED (
    SELECT number, s.id FROM sessions s JOIN given_up USING (id, fence) WHERE owner IS NOT NULL
    FOR NO KEY UPDATE OF s SKIP LOCKED),
disowned AS (UPDATE sessions SET owner = NULL FROM picked WHERE sessions.number = picked.number),
done AS MATERIALIZED (
    SELECT id, locked FROM given_up
    WHERE id IN (SELECT id FROM picked) OR NOT EXISTS (
        SELECT FROM sessions s WHERE s.id = given_up.id AND s.fence = given_up.fence AND s.owner IS NOT NULL))
SELECT id, CASE WHEN locked THEN pg_advisory_unlock({_LOCK}) END FROM done"""
"""Takes the owner out of the rows, and frees the locks. It waits for nobody either."""

_TRY_LOCKS = f"SELECT id, pg_try_advisory_lock({_LOCK}) FROM unnest($2::text[]) AS given (id)"
_UNLOCKS = f"SELECT pg_advisory_unlock({_LOCK}) FROM unnest($2::text[]) AS given (id)"
_FENCES = "SELECT id, fence FROM sessions WHERE id = ANY($1::text[])"
_SWEEP = """
WITH stale AS MATERIALIZED (
    SELECT number FROM sessions WHERE owner = ANY($1::text[]) AND id <> ALL($2::text[]) FOR NO KEY UPDATE SKIP LOCKED),
freed AS (UPDATE sessions SET owner = NULL FROM stale WHERE sessions.number = stale.number)
SELECT count(*) > (SELECT count(*) FROM stale) FROM sessions WHERE owner = ANY($1::text[]) AND id <> ALL($2::text[])"""
_DISOWN_ALL = """
UPDATE sessions SET owner = NULL
WHERE number IN (SELECT number FROM sessions WHERE owner = $1 FOR NO KEY UPDATE SKIP LOCKED)"""
_UNLOCK_ALL = "SELECT pg_advisory_unlock_all()"

BATCH = 100
"""So many claims are made by one statement; then other things have their turn on the connection."""
LOST_MAX = 10_000
NEVER = -1
"""The fence of a claim that never came about."""


class Claim(NamedTuple):
    """Under which fence a host owns a session."""

    fence: int
    host: str


class Asked(NamedTuple):
    """A claim that somebody waits for."""

    session_id: str
    host: str
    outcome: "asyncio.Future[int | None]"


class Claims:
    """What one connection holds. All methods that take the connection are called by one task only."""

    def __init__(self, schema: str) -> None:
        """Args:
        schema: The schema's name, which is part of every lock's.
        """
        self._prefix = f"antiphon {schema} "
        self._held: dict[str, Claim] = {}
        self._unfenced: set[str] = set()
        """Locked, but with nothing in their rows yet."""
        self._given_up: dict[str, int] = {}
        """With their last fences: to be freed."""
        self._locked: set[str] = set()
        """Those of which this connection has the lock."""
        self._hosts: set[str] = set()
        self._stale = False
        """Rows may name one of these hosts as the owner of what it does not hold."""
        self._lost: OrderedDict[str, int] = OrderedDict()
        """Sessions whose claims could not be kept, with their last fences."""

    def owner(self, session_id: str, fence: int | None) -> str | None:
        """Which host it is that makes a session under this claim."""
        claim = self._held.get(session_id)
        return claim.host if claim and claim.fence == fence else None

    def is_lost(self, session_id: str, fence: int) -> bool:
        """Whether this claim, or a later one, is known to be held no longer though nobody gave it up."""
        return fence <= self._lost.get(session_id, NEVER)

    def _lose(self, session_id: str) -> None:
        if claim := self._held.pop(session_id, None):
            self._lost[session_id] = claim.fence
            self._lost.move_to_end(session_id)
            if len(self._lost) > LOST_MAX:
                self._lost.popitem(last=False)

    def give_up(self, session_id: str, fence: int) -> bool:
        """Hold a claim no longer, if it is held; then `free` must follow."""
        if self.owner(session_id, fence) is None:
            return False
        self._given_up[session_id] = self._held.pop(session_id).fence
        return True

    # On a connection

    async def take_up(self, connection: Connection) -> None:
        """Take up on a new connection what was held on the last, except what others have taken meanwhile."""
        self._locked.clear()
        self._unfenced.clear()
        self._stale = True  # of a claim that was cut short nobody knows whether it came about
        had = dict(self._held)  # some may be given up meanwhile; `free` takes care of those
        for id, locked in await connection.fetch(_TRY_LOCKS, self._prefix, list(had)):
            if locked:
                self._locked.add(id)
            else:
                self._lose(id)
        newest = dict(await connection.fetch(_FENCES, list(self._locked)))  # under the locks: nobody moves them now
        moved = [id for id in self._locked if newest.get(id, had[id].fence) != had[id].fence]
        for id in moved:
            self._lose(id)
            self._locked.discard(id)
        if moved:
            await connection.fetch(_UNLOCKS, self._prefix, moved)

    async def sweep(self, connection: Connection) -> bool:
        """Take these hosts out of the rows of what they don't hold; whether it has to be done again.

        Raises:
            FAULTS: The connection is of no use any more.
        """
        if self._stale and self._hosts:
            self._stale = await connection.fetchval(_SWEEP, list(self._hosts), list(self._held))
        return self._stale and bool(self._hosts)

    async def claim(self, connection: Connection, asked: Sequence[Asked]) -> None:
        """Claim the first `BATCH` of what is asked for, as one statement. What that does not settle is asked for again.

        Raises:
            FAULTS: The connection is of no use any more.
        """
        may = [one for one in asked if self._may_ask(one)]
        batch = {one.session_id: one for one in may[:BATCH]}
        try:
            await self._claim(connection, list(batch.values()))
        except FAULTS as error:
            if not is_passing(error):
                raise
            for one in batch.values():  # perhaps it lies in one of them
                await self._claim_alone(connection, one)

    def _may_ask(self, one: Asked) -> bool:
        return not one.outcome.done() and one.session_id not in self._given_up

    async def _claim_alone(self, connection: Connection, one: Asked) -> None:
        try:
            await self._claim(connection, [one])
        except FAULTS as error:
            if not is_passing(error):
                raise
            if not one.outcome.done():
                one.outcome.set_exception(error)

    async def _claim(self, connection: Connection, batch: Sequence[Asked]) -> None:
        self._hosts |= {one.host for one in batch}
        ids = [one.session_id for one in batch]
        mine = [id in self._locked for id in ids]
        try:
            found = await connection.fetch(_CLAIM, self._prefix, ids, [one.host for one in batch], mine)
        except FAULTS as error:
            if is_passing(error) and not isinstance(error, OWN):  # locks outlast the statement that failed
                taken = [id for id, had in zip(ids, mine, strict=True) if not had]
                await connection.fetch(_UNLOCKS, self._prefix, taken)
            raise
        outcomes = {id: (locked, fence) for id, locked, fence in found}
        for one in batch:
            self._settle(one, *outcomes[one.session_id])

    def _settle(self, one: Asked, locked: bool, fence: int | None) -> None:
        """Tell what became of a claim; one that nobody wants any more is given up."""
        id = one.session_id
        if not locked:
            self._tell(one, None)
            return
        self._locked.add(id)
        if fence is None:
            self._unfenced.add(id)
            return
        self._unfenced.discard(id)
        self._given_up.pop(id, None)  # an older claim of it, which is no more
        self._lost.pop(id, None)
        self._held[id] = Claim(fence, one.host)
        if not self._tell(one, fence):
            self.give_up(id, fence)

    async def free(self, connection: Connection, asked: Sequence[Asked]) -> bool:
        """Free what was given up, and what was locked for somebody who asks no longer; whether something is left.

        Raises:
            FAULTS: The connection is of no use any more.
        """
        wanted = {one.session_id for one in asked if not one.outcome.done()}
        for id in self._unfenced - wanted:
            self._unfenced.discard(id)
            if id not in self._held:
                self._given_up[id] = NEVER
        if self._given_up:
            ids = list(self._given_up)
            fences, locked = [self._given_up[id] for id in ids], [id in self._locked for id in ids]
            for id, _ in await connection.fetch(_FREE, self._prefix, ids, fences, locked):
                del self._given_up[id]
                self._locked.discard(id)
        return bool(self._given_up)

    async def free_all(self, connection: Connection, host: str) -> None:
        """Free everything at once, and name this host as an owner nowhere any more."""
        self._held.clear()
        self._unfenced.clear()
        self._given_up.clear()
        self._locked.clear()
        await connection.execute(_DISOWN_ALL, host)
        await connection.fetch(_UNLOCK_ALL)

    def forget(self, host: str) -> None:
        """Hold nothing any more for this host, after the connection that had the locks was lost."""
        for id in [id for id, claim in self._held.items() if claim.host == host]:
            self._lose(id)

    @staticmethod
    def _tell(one: Asked, fence: int | None) -> bool:
        """Whether somebody still wanted to know."""
        if one.outcome.done():
            return False
        one.outcome.set_result(fence)
        return True
