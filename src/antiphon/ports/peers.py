"""Several hosts over one store: who they are, which of them live, and which sessions nobody has."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

HOST_LABEL = "host"
"""The label that binds a session to the host of that name, because its files are there."""


class Bulletin(msgspec.Struct, frozen=True, kw_only=True):
    """What a host tells the others of itself.

    Attributes:
        name: Which machine it is; the same after a restart.
        url: Where it is reached, for people.
        agents_open, max_agents: How many agents it runs, and how many it may.
        leaving: It shuts down: it takes no session up any more.
    """

    name: str
    url: str
    version: str
    agents_open: int = 0
    max_agents: int = 0
    leaving: bool = False


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A host, as the others see it. Times are the store's, in milliseconds since the epoch.

    Attributes:
        id: This run of it, as in `Store.claim`; empty for a name that is only drained and not there.
        living: Its claims hold: its connection to the store is there, and it was heard of within the lease.
        sessions: How many sessions it owns.
        drained: A person wants it to own none.
    """

    id: str
    bulletin: Bulletin
    started_at: int
    seen_at: int
    living: bool
    sessions: int
    drained: bool

    @property
    def name(self) -> str:
        """Which machine it is."""
        return self.bulletin.name

    @property
    def free(self) -> bool:
        """Whether it would take up a session now: it lives, wants to, and has a place for one more agent."""
        there = self.living and not (self.drained or self.bulletin.leaving)
        return there and self.bulletin.agents_open < self.bulletin.max_agents


class Peers(Protocol):
    """The hosts that share a store.

    A host lives from its first `announce` on for as long as the connection that holds its claims is there, and it was
    heard of within the lease. When the connection ends, all its claims are free in that instant; a host that is
    connected but silent for longer than the lease has its connection ended by whoever looks next, so that its claims
    become free, and what it writes later is `Fenced`. All times are the store's own, so the hosts' clocks need not
    agree. Any method may raise `StoreUnavailable`.
    """

    async def announce(self, host: str, bulletin: Bulletin) -> None:
        """Tell of oneself: at first, and then every `ANNOUNCE_S` seconds. `host` is this run's id, as in `claim`."""
        ...

    async def hosts(self, *, counted: bool = True) -> Sequence[Peer]:
        """All that live, those that are drained, and those that were here within the last day, by name.

        To count what each owns takes long where they own thousands: without that, `sessions` is 0.
        """
        ...

    async def abandoned(self, name: str, limit: int) -> Sequence[str]:
        """Unsettled sessions (ids) that no living host owns, and that no label binds to a host other than `name`.

        A host whose connection was lost a moment ago counts as living for `GRACE_S` more, and all do for `SETTLING_S`
        after this store's own connection came back, or its host spoke again: then everybody's was lost, and each takes
        its own claims up again. While its host is silent it is for others to judge.
        """
        ...

    async def owner(self, session_id: str) -> Peer | None:
        """The living host that owns a session."""
        ...

    async def drain(self, name: str, *, drained: bool) -> bool:
        """Have the host of that name own no session from now on, or let it again; False when it is not known."""
        ...

    async def leave(self, host: str) -> None:
        """Be gone from now on: what is still claimed is free. Idempotent."""
        ...


ANNOUNCE_S = 1.0
LEASE_S = 5.0
"""After so long without an announcement a host's claims are taken from it."""
GRACE_S = 0.4
"""So long a host has to come back after its connection was lost, before its sessions are called abandoned."""
SETTLING_S = 2.0
"""For so long after this store's own connection came back no host's sessions are called abandoned, and for `LEASE_S`
nobody silent: after a restart of the database all have lost theirs, and come back one after another."""
