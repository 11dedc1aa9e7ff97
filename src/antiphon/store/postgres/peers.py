"""Hosts that share a schema: each holds an advisory lock of its own, on the connection that holds its claims."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from antiphon.ports.peers import GRACE_S, HOST_LABEL, LEASE_S, SETTLING_S, Bulletin, Peer
from antiphon.store.postgres.driver import CLAIMS_NAME, HOST_NAME
from antiphon.store.sql import rows
from antiphon.store.sql.statements import Command

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

_log = logging.getLogger("antiphon.store")
Run = Callable[[Command[Any]], Awaitable[Any]]

TIDY_S = 3600.0
_MS = "(extract(epoch FROM {}) * 1000)::bigint"
_NOW = "clock_timestamp()"
_DAY = f"{_NOW} - interval '1 day'"
_FRESH = f"h.seen_at >= {_NOW} - make_interval(secs => {LEASE_S})"
_LOCK = "hashtextextended($1 || h.id, 0)"
_HELD = f"NOT pg_try_advisory_xact_lock_shared({_LOCK})"
"""Whether a host holds its lock. Looking takes it, shared, until the statement ends: the host itself waits so long."""


class Standing(Protocol):
    """The connection on which the claims are."""

    @property
    def steady_s(self) -> float:
        """For how long it has been there, and its hosts have announced themselves, without a break."""
        ...

    def announces(self, host: str) -> bool:
        """Whether it is the connection of this host."""
        ...

    async def announce(self, host: str, bulletin: Bulletin) -> None: ...

    async def leave(self, host: str) -> None: ...


def lock_prefix(schema: str) -> str:
    """What the name of a host's lock begins with; its id follows."""
    return f"antiphon host {schema} "


ANNOUNCE = f"""
WITH before AS (SELECT NOT {_FRESH} AS silent FROM hosts h WHERE h.id = $1)
INSERT INTO hosts (id, name, url, version, agents_open, max_agents, leaving, started_at, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, {_NOW}, {_NOW})
ON CONFLICT (id) DO UPDATE SET name = excluded.name, url = excluded.url, version = excluded.version,
    agents_open = excluded.agents_open, max_agents = excluded.max_agents, leaving = excluded.leaving,
    seen_at = excluded.seen_at
RETURNING (SELECT silent FROM before)"""
"""Tells whether the host had been silent for longer than the lease, by the clock that all hosts are judged by."""


IS_BACK = f"UPDATE hosts SET seen_at = {_NOW} WHERE id = ANY($1::text[])"
"""For hosts whose connection was away for longer than the lease: before they hold their locks again, so that nobody
takes them for silent until their next announcement, and ends the connection once more."""


def announcement(host: str, bulletin: Bulletin) -> tuple[Any, ...]:
    """The parameters of `ANNOUNCE`."""
    there = (bulletin.name, bulletin.url, bulletin.version)
    return host, *there, bulletin.agents_open, bulletin.max_agents, bulletin.leaving


_PEER = f"""
SELECT h.id, h.name, h.url, h.version, h.agents_open, h.max_agents, h.leaving,
    {_MS.format("h.started_at")}, {_MS.format("h.seen_at")}, {_HELD} AND {_FRESH},
    CASE WHEN $2 THEN (SELECT count(*) FROM sessions s WHERE s.owner = h.id AND s.deleted_at IS NULL) ELSE 0 END,
    EXISTS (SELECT FROM drained d WHERE d.name = h.name)
FROM hosts h"""


def _peer(row: Sequence[Any]) -> Peer:
    id, name, url, version, agents_open, max_agents, leaving, started_at, seen_at, living, sessions, drained = row
    bulletin = Bulletin(
        name=name, url=url, version=version, agents_open=agents_open, max_agents=max_agents, leaving=leaving
    )
    return Peer(
        id=id,
        bulletin=bulletin,
        started_at=started_at,
        seen_at=seen_at,
        living=living,
        sessions=sessions,
        drained=drained,
    )


_ABSENT = """
SELECT '', d.name, '', '', 0, 0, false, 0, 0, false, 0, true
FROM drained d WHERE NOT EXISTS (SELECT FROM there WHERE there.name = d.name)"""
"""Names that are drained, of hosts that are not there."""
_HOSTS = f"WITH there AS MATERIALIZED ({_PEER} WHERE h.seen_at > {_DAY} OR {_HELD}) TABLE there UNION ALL {_ABSENT}"


def _hosts(prefix: str, *, counted: bool) -> Command[list[Peer]]:
    peers = [_peer(row) for row in (yield _HOSTS, (prefix, counted))]
    return sorted(peers, key=lambda peer: (peer.name, peer.started_at, peer.id))


def _owner(prefix: str, session_id: str) -> Command[Peer | None]:
    found = yield (
        f"{_PEER} JOIN sessions o ON o.owner = h.id WHERE o.id = $3 AND o.deleted_at IS NULL",
        (prefix, False, session_id),
    )
    peers = [peer for peer in map(_peer, found) if peer.living]
    return peers[0] if peers else None


_DRAIN = """
INSERT INTO drained SELECT DISTINCT name FROM hosts WHERE name = $1
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING 1"""


def _drain(name: str, *, drained: bool) -> Command[bool]:
    if not drained:
        undone = yield "DELETE FROM drained WHERE name = $1 RETURNING 1", (name,)
        known = yield "SELECT 1 FROM hosts WHERE name = $1 LIMIT 1", (name,)
        return bool(undone or known)
    return bool((yield _DRAIN, (name,)))


_YOUNG = f"{_NOW} < pg_postmaster_start_time() + make_interval(secs => {SETTLING_S})"


def _looked(prefix: str) -> Command[list[Sequence[Any]]]:
    return (yield f"SELECT h.id, {_HELD}, {_FRESH}, {_YOUNG} FROM hosts h", (prefix,))


_OTHERS = """
WITH RECURSIVE owners (id) AS (
    (SELECT min(owner) FROM sessions WHERE owner IS NOT NULL)
    UNION ALL
    SELECT (SELECT min(owner) FROM sessions WHERE owner > owners.id) FROM owners WHERE owners.id IS NOT NULL)
SELECT id FROM owners WHERE id <> ALL($1)"""
"""Owners that are none of these, by as many looks into the index as there are owners."""
_FREE = "(instr(labels, $1) = 0 OR instr(labels, $2) > 0)"
_UNOWNED = f"""
SELECT id FROM sessions WHERE owner IS NULL AND unsettled = 1 AND {_FREE} ORDER BY active_at, id LIMIT $3"""
_ORPHANED = f"""
WITH found AS MATERIALIZED (
    SELECT id, active_at FROM sessions WHERE owner = ANY($4) AND unsettled = 1 AND {_FREE})
SELECT id FROM found ORDER BY active_at, id LIMIT $3"""


def _abandoned(kept: Sequence[str], name: str, limit: int) -> Command[list[str]]:
    own = rows.label_needle(HOST_LABEL, name)
    bound = rows.label_needle(HOST_LABEL, "").removesuffix('""]')
    found = [id for (id,) in (yield _UNOWNED, (bound, own, limit))]
    gone = [id for (id,) in (yield _OTHERS, (list(kept),))]
    if gone and len(found) < limit:
        found += [id for (id,) in (yield _ORPHANED, (bound, own, limit - len(found), gone))]
    return found


_END = f"""
WITH holder AS (
    SELECT a.pid, a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0))
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM holder UNION
    SELECT a.pid FROM pg_stat_activity a JOIN holder
        ON a.application_name = replace(holder.name, '{CLAIMS_NAME} ', '{HOST_NAME} ')) AS doomed"""
"""Ends the connection that holds a lock, and the others of the same store: one may be amid a transaction."""
_GONE = f"""
DELETE FROM hosts WHERE id IN (
    SELECT id FROM hosts h WHERE h.seen_at <= {_DAY} AND NOT {_HELD} FOR UPDATE SKIP LOCKED)
RETURNING id"""
_DISOWN = """
UPDATE sessions SET owner = NULL WHERE number IN (
    SELECT number FROM sessions WHERE owner = ANY($1) FOR NO KEY UPDATE SKIP LOCKED)"""


def _end(lock: str) -> Command[bool]:
    return bool((yield _END, (lock,)))


def _tidy(prefix: str) -> Command[None]:
    """Forget hosts that have not been here for a day."""
    gone = yield _GONE, (prefix,)
    if gone:
        yield _DISOWN, ([id for (id,) in gone],)


class PostgresPeers:
    """See `antiphon.ports.peers.Peers`."""

    def __init__(
        self,
        standing: Standing,
        schema: str,
        *,
        read: Run,
        write: Run,
        bounded: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        """For the store.

        Args:
            standing: Where the claims are.
            schema: The schema's name, which is part of every lock's.
            read: Runs a command of one statement.
            write: Runs a command that writes.
            bounded: Does something on the standing connection within the store's time limit.
            monotonic: Seconds that never go back.
        """
        self._standing = standing
        self._prefix = lock_prefix(schema)
        self._read = read
        self._write = write
        self._bounded = bounded
        self._monotonic = monotonic
        self._gone: dict[str, float] = {}
        self._tidied: float | None = None

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        await self._bounded(partial(self._standing.announce, host, bulletin))
        now = self._monotonic()
        if self._tidied is None or now - self._tidied > TIDY_S:
            self._tidied = now
            await self._write(_tidy(self._prefix))

    async def leave(self, host: str) -> None:
        await self._bounded(partial(self._standing.leave, host))

    async def hosts(self, *, counted: bool = True) -> Sequence[Peer]:
        return await self._read(_hosts(self._prefix, counted=counted))

    async def owner(self, session_id: str) -> Peer | None:
        return await self._read(_owner(self._prefix, session_id))

    async def drain(self, name: str, *, drained: bool) -> bool:
        return await self._write(_drain(name, drained=drained))

    async def abandoned(self, name: str, limit: int) -> Sequence[str]:
        return await self._read(_abandoned(await self._kept(), name, limit))

    async def _kept(self) -> list[str]:
        """The hosts whose sessions nobody may take up. Those that are silent have their connections ended."""
        found = await self._read(_looked(self._prefix))
        silent = [id for id, held, fresh, _ in found if held and not fresh]
        was_silent_itself = any(map(self._standing.announces, silent))
        now, steady_s = self._monotonic(), 0.0 if was_silent_itself else self._standing.steady_s
        self._gone = {id: self._gone.get(id, now) for id, held, _, _ in found if not held}
        if steady_s >= LEASE_S:
            for id in silent:
                await self._end(id)
        settling = steady_s < SETTLING_S or any(young for *_, young in found)
        return [id for id, held, _, _ in found if held or settling or now - self._gone[id] < GRACE_S]

    async def _end(self, host: str) -> None:
        """End the connections of a host that does not speak any more. It is gone with one of the next looks."""
        if await self._read(_end(self._prefix + host)):
            _log.warning("A silent host's connections were ended", extra={"action": "end_host", "host": host})
