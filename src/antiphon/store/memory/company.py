"""Those who share the data in memory: who is connected, and who holds which session."""

from dataclasses import dataclass, field
from typing import NamedTuple

from antiphon.ports.clock import Clock
from antiphon.ports.peers import GRACE_S, LEASE_S, Bulletin
from antiphon.ports.store import Notice
from antiphon.store.memory.data import Data
from antiphon.store.notices import Waiting


class Claim(NamedTuple):
    """Under which fence a host owns a session."""

    fence: int
    host: str


class Seat:
    """One store's place in the company: what would be its connection to a server.

    Attributes:
        claims: Its claims by session; they hold while it is connected.
        lost: It can't be reached, nor reach anything, until somebody says otherwise.
        silent: Its announcements don't arrive.
        steady_since: Since when it has been connected, if it came back.
        inboxes: Of those who read its notices.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.connected = True
        self.lost = False
        self.silent = False
        self.steady_since: float | None = None
        self.inboxes: set[Waiting] = set()


@dataclass
class Known:
    """A host that has announced itself. Times are the clock's: `at` since the epoch, and for durations."""

    seat: Seat
    bulletin: Bulletin
    started_at: int
    seen_at: int
    seen: float
    gone: float | None = None
    """Since when it is not connected any more."""
    left: bool = False


@dataclass
class Company:
    """All who share the data. There is always one; the clock comes with the second."""

    data: Data
    clock: Clock | None = None
    seats: list[Seat] = field(default_factory=list[Seat])
    holders: dict[str, Seat] = field(default_factory=dict[str, Seat])
    hosts: dict[str, Known] = field(default_factory=dict[str, Known])
    drained: set[str] = field(default_factory=set[str])

    def sit_down(self) -> Seat:
        """A place for one more store."""
        seat = Seat()
        self.seats.append(seat)
        return seat

    def monotonic(self) -> float:
        """Seconds, for durations; they stand still while nobody has joined."""
        return self.clock.monotonic() if self.clock else 0.0

    # Claims

    def claim(self, seat: Seat, session_id: str, host: str) -> int | None:
        """See `Store.claim`."""
        self.come_back(seat)
        if self.holders.setdefault(session_id, seat) is not seat:
            return None
        self.data.fence += 1
        seat.claims[session_id] = Claim(self.data.fence, host)
        if kept := self.data.living(session_id):
            kept.fence, kept.owner = self.data.fence, host
        return self.data.fence

    def release(self, seat: Seat, session_id: str, fence: int) -> None:
        """See `Store.release`."""
        self.come_back(seat)
        if self._held(seat, session_id, fence):
            self._free(seat, session_id)
            del seat.claims[session_id]
            kept = self.data.kept.get(session_id)
            if kept and kept.fence == fence:
                kept.owner = None

    def release_all(self, seat: Seat, host: str) -> None:
        """Give up everything that this host owns."""
        for session_id, claim in list(seat.claims.items()):
            if claim.host == host:
                self.release(seat, session_id, claim.fence)

    def owner(self, seat: Seat, session_id: str, fence: int | None) -> str | None:
        """Which host it is that makes a session under this claim."""
        return seat.claims[session_id].host if self._held(seat, session_id, fence) else None

    @staticmethod
    def _held(seat: Seat, session_id: str, fence: int | None) -> bool:
        claim = seat.claims.get(session_id)
        return claim is not None and claim.fence == fence

    def _free(self, seat: Seat, session_id: str) -> None:
        if self.holders.get(session_id) is seat:
            del self.holders[session_id]

    # Connections

    def part(self, seat: Seat, *, grace: bool) -> None:
        """End a store's connection, and with it its claims; without grace its hosts are dead at once."""
        if not seat.connected:
            return
        seat.connected = False
        for session_id in seat.claims:
            self._free(seat, session_id)
        for known in self.hosts.values():
            if known.seat is seat:
                known.gone = self.monotonic() - (0 if grace else GRACE_S)

    def come_back(self, seat: Seat) -> None:
        """Connect a store anew, with the claims that nobody has taken meanwhile."""
        if seat.connected:
            return
        seat.connected, seat.steady_since = True, self.monotonic()
        for session_id, claim in list(seat.claims.items()):
            kept = self.data.living(session_id)
            if session_id in self.holders or (kept and kept.fence != claim.fence):
                del seat.claims[session_id]
            else:
                self.holders[session_id] = seat
        for known in self.hosts.values():
            if known.seat is seat and not known.left:
                known.gone = None

    def tell(self, teller: Seat, notice: Notice) -> None:
        """Have all others hear of a commit."""
        for seat in self.seats:
            for inbox in seat.inboxes if seat is not teller else ():
                inbox.put(notice)

    # Hosts

    def lives(self, host: str) -> bool:
        """Whether a host is connected and was heard of within the lease."""
        known = self.hosts.get(host)
        return known is not None and known.gone is None and self.monotonic() - known.seen <= LEASE_S

    def steady_s(self, seat: Seat) -> float:
        """For how long a store has been connected, and its hosts have announced themselves, without a break."""
        hosts = [host for host, known in self.hosts.items() if known.seat is seat and not known.left]
        if not all(self.lives(host) for host in hosts):
            return 0.0
        return self.monotonic() - seat.steady_since if seat.steady_since is not None else float("inf")

    def is_missed(self, host: str | None) -> bool:
        """Whether a session of this owner may be taken up by somebody else."""
        known = self.hosts.get(host) if host is not None else None
        return known is None or (known.gone is not None and self.monotonic() - known.gone >= GRACE_S)

    def end_silent(self) -> None:
        """End the connections of hosts that have not been heard of within the lease."""
        for host, known in self.hosts.items():
            if known.gone is None and not self.lives(host):
                self.part(known.seat, grace=False)
