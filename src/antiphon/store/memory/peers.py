"""Hosts that share a store in memory."""

from collections.abc import Sequence

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.peers import HOST_LABEL, LEASE_S, SETTLING_S, Bulletin, Peer
from antiphon.store.memory.company import Company, Known, Seat
from antiphon.store.memory.data import Kept

DAY_MS = 24 * 3600 * 1000


class MemoryPeers:
    """See `antiphon.ports.peers.Peers`. Every method is done before it first awaits."""

    def __init__(self, company: Company, seat: Seat) -> None:
        """For `MemoryStore.join`."""
        self._shared = company
        self._seat = seat

    @property
    def _company(self) -> Company:
        if self._seat.lost:
            raise StoreUnavailable("The store can't be reached.", retry_after_s=1)
        return self._shared

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        company = self._company
        if self._seat.silent:
            return
        company.come_back(self._seat)
        now = company.clock.now() if company.clock else 0
        known = company.hosts.get(host)
        if known and not known.left and not company.lives(host):  # it was paused, and perhaps all others with it
            self._seat.steady_since = company.monotonic()
        company.hosts[host] = Known(
            seat=self._seat,
            bulletin=bulletin,
            started_at=known.started_at if known else now,
            seen_at=now,
            seen=company.monotonic(),
        )

    async def hosts(self, *, counted: bool = True) -> Sequence[Peer]:  # noqa: ARG002  # here it costs nothing
        company = self._company
        now = company.clock.now() if company.clock else 0
        there = [self._peer(host) for host, known in company.hosts.items() if now - known.seen_at < DAY_MS]
        names = {peer.name for peer in there}
        there += [
            Peer(
                id="",
                bulletin=Bulletin(name=name, url="", version=""),
                started_at=0,
                seen_at=0,
                living=False,
                sessions=0,
                drained=True,
            )
            for name in company.drained - names
        ]
        return sorted(there, key=lambda peer: (peer.name, peer.started_at, peer.id))

    def _peer(self, host: str) -> Peer:
        company = self._shared
        known = company.hosts[host]
        return Peer(
            id=host,
            bulletin=known.bulletin,
            started_at=known.started_at,
            seen_at=known.seen_at,
            living=company.lives(host),
            sessions=sum(kept.living and kept.owner == host for kept in company.data.kept.values()),
            drained=known.bulletin.name in company.drained,
        )

    async def abandoned(self, name: str, limit: int) -> Sequence[str]:
        company = self._company
        company.come_back(self._seat)
        steady_s = company.steady_s(self._seat)
        if steady_s >= LEASE_S:
            company.end_silent()
        settling = steady_s < SETTLING_S
        missed = [
            kept
            for kept in company.data.kept.values()
            if kept.session.unsettled
            and (company.is_missed(kept.owner) and not (settling and kept.owner in company.hosts))
            and _is_free_for(kept, name)
        ]
        missed.sort(key=lambda kept: kept.activity)
        return [kept.session.id for kept in missed[:limit]]

    async def owner(self, session_id: str) -> Peer | None:
        company = self._company
        kept = company.data.living(session_id)
        return self._peer(kept.owner) if kept and kept.owner is not None and company.lives(kept.owner) else None

    async def drain(self, name: str, *, drained: bool) -> bool:
        company = self._company
        known = name in company.drained or any(known.bulletin.name == name for known in company.hosts.values())
        if known and drained:
            company.drained.add(name)
        else:
            company.drained.discard(name)
        return known

    async def leave(self, host: str) -> None:
        company = self._company
        company.release_all(self._seat, host)
        if host in company.hosts:
            known = company.hosts[host]
            known.gone, known.left = company.monotonic(), True


def _is_free_for(kept: Kept, name: str) -> bool:
    return kept.session.labels.get(HOST_LABEL, name) == name
