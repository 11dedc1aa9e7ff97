"""What a simulated host hears of the others, and tells them of itself, over the same shaky connection."""

from collections.abc import Sequence

from antiphon.ports.peers import Bulletin, Peer, Peers
from antiphon.testing.simulation.store import ShakyStore


class ShakyPeers:
    """See `antiphon.ports.peers.Peers`: those of the store in memory, as a host's connection lets it reach them."""

    def __init__(self, peers: Peers, store: ShakyStore) -> None:
        self._peers = peers
        self._store = store

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        await self._store.reach(self._peers.announce, host, bulletin)

    async def hosts(self, *, counted: bool = True) -> Sequence[Peer]:
        return await self._store.reach(self._peers.hosts, counted=counted)

    async def abandoned(self, name: str, limit: int) -> Sequence[str]:
        return await self._store.reach(self._peers.abandoned, name, limit)

    async def owner(self, session_id: str) -> Peer | None:
        return await self._store.reach(self._peers.owner, session_id)

    async def drain(self, name: str, *, drained: bool) -> bool:
        return await self._store.reach(self._peers.drain, name, drained=drained)

    async def leave(self, host: str) -> None:
        await self._store.reach(self._peers.leave, host)
