"""The other hosts over the same store: what they do is followed here, and what they leave is taken up."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Session
from antiphon.host.directories import is_directory
from antiphon.host.places import Places
from antiphon.ports.clock import Clock
from antiphon.ports.peers import ANNOUNCE_S, HOST_LABEL, Bulletin, Peer, Peers
from antiphon.ports.store import Notice, Store

log = logging.getLogger("antiphon.host")

LOOK_S = 0.25
"""So often a host looks for sessions that nobody owns."""
LATELY_MS = 60_000
LACKING_S = 5.0
ABANDONED_MAX = 64
"""So many of them it takes up at a time: the others are there too."""


class Neighbours:
    """What a host knows of the others that share its store, and tells them of itself."""

    def __init__(
        self, peers: Peers, store: Store, *, host_id: str, bulletin: Bulletin, clock: Clock, places: Places
    ) -> None:
        """For the host. `bulletin` is what it tells of itself at first."""
        self._peers = peers
        self._store = store
        self._host_id = host_id
        self._bulletin = bulletin
        self._clock = clock
        self._places = places
        self._known: Sequence[Peer] = ()
        self._leaving = False
        self._lacking: dict[str, float] = {}
        """Sessions whose working directory is not here, and when that was seen."""
        self._unreleased: dict[tuple[str, int], None] = {}

    @property
    def name(self) -> str:
        """This host's."""
        return self._bulletin.name

    def reached_at(self, url: str) -> None:
        """Where this host listens."""
        self._bulletin = replace(self._bulletin, url=url)

    @property
    def drained(self) -> bool:
        """Whether a person wants this host to own no session."""
        return any(peer.drained for peer in self._known if peer.name == self.name)

    def leave(self) -> None:
        """Own nothing new from now on, and hand over what can be."""
        self._leaving = True

    def may_own(self, session: Session) -> bool:
        """Whether this host should take the session up.

        Not where a label binds it to another, where its working directory is on another machine, or where this host has
        no place to spare and another one has.
        """
        self._lacking.pop(session.id, None)
        if not self.may_keep(session):
            return False
        if session.labels.get(HOST_LABEL) == self.name:
            return True
        if session.cwd is not None and not self._alone and not is_directory(session.cwd):
            self._lacking[session.id] = self._clock.monotonic()
            return False
        return not self.better_elsewhere

    @property
    def _alone(self) -> bool:
        return not any(peer.living for peer in self._known if peer.id != self._host_id)

    def lacks(self, session_id: str) -> bool:
        """Whether this host was found not to have the working directory of that session, a moment ago."""
        return session_id in self._lacking

    def may_keep(self, session: Session) -> bool:
        """Whether the session can stay with this host."""
        return not (self._leaving or self.drained) and session.labels.get(HOST_LABEL, self.name) == self.name

    @property
    def better_elsewhere(self) -> bool:
        """Whether this host has no place for another agent, and one of the others has."""
        return self._places.taken >= self._places.limit and any(
            peer.free for peer in self._known if peer.id != self._host_id
        )

    @property
    def crashed_lately(self) -> bool:
        """Whether an earlier run of this host ended without a word, a moment ago."""
        now = max((peer.seen_at for peer in self._known), default=0)
        return any(
            peer.name == self.name and not (peer.living or peer.bulletin.leaving) and now - peer.seen_at < LATELY_MS
            for peer in self._known
        )

    def hindrance(self, name: str) -> str | None:
        """Why the host of that name owns no session just now, for a person; None where it may."""
        there = [peer for peer in self._known if peer.name == name]
        if name != self.name and not any(peer.living for peer in there):
            return "it is away"
        return "it was drained" if any(peer.drained for peer in there) else None

    # What is done all the time

    async def announce(self) -> None:
        """Tell the others of this host, and hear of them.

        Raises:
            StoreUnavailable.
        """
        told = replace(
            self._bulletin, agents_open=self._places.taken, max_agents=self._places.limit, leaving=self._leaving
        )
        await self._peers.announce(self._host_id, told)
        self._known = await self._peers.hosts(counted=False)

    async def keep_announcing(self) -> None:
        """Announce, for ever."""
        while True:
            await self._clock.sleep(ANNOUNCE_S)
            try:
                await self.announce()
            except StoreUnavailable as error:
                log.warning("the others could not be told", extra={"action": "announce_failed", "code": error.code})

    async def abandoned(self) -> Sequence[str]:
        """Sessions that wait for an owner, and that this host may have.

        Raises:
            StoreUnavailable.
        """
        if self._leaving or self.drained:
            return ()
        now = self._clock.monotonic()
        self._lacking = {id: since for id, since in self._lacking.items() if now - since < LACKING_S}
        found = await self._peers.abandoned(self.name, ABANDONED_MAX + len(self._lacking))
        return [session_id for session_id in found if session_id not in self._lacking]

    def release_later(self, session_id: str, fence: int) -> None:
        """Give that claim up once the store takes it: while this host lives, nobody else can have the session."""
        self._unreleased[session_id, fence] = None

    async def _release(self) -> None:
        for session_id, fence in list(self._unreleased):
            await self._store.release(session_id, fence)
            self._unreleased.pop((session_id, fence), None)

    async def keep_looking(self, take_up: Callable[[str], None]) -> None:
        """Take up what nobody owns, and let go of what this host has given up, for ever."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                await self._release()
                for session_id in await self.abandoned():
                    take_up(session_id)
            except StoreUnavailable:  # whoever announces tells of it
                continue

    async def keep_listening(self, moved: Callable[[Notice], None]) -> None:
        """Hear what the others commit, until the store is closed."""
        async for notice in self._store.notices():
            moved(notice)

    async def hosts(self) -> Sequence[Peer]:
        """All hosts.

        Raises:
            StoreUnavailable.
        """
        return await self._peers.hosts()

    async def drain(self, name: str, *, drained: bool) -> bool:
        """Have a host own no session from now on, or let it again; False where none is known by that name.

        Raises:
            StoreUnavailable.
        """
        found = await self._peers.drain(name, drained=drained)
        self._known = await self._peers.hosts(counted=False)
        return found

    async def owner(self, session_id: str) -> Peer | None:
        """The host that owns a session.

        Raises:
            StoreUnavailable.
        """
        return await self._peers.owner(session_id)

    async def gone(self) -> None:
        """Tell the others that this host is no more; where that can't be told, they notice."""
        try:
            await self._peers.leave(self._host_id)
        except StoreUnavailable as error:
            log.warning("the others could not be told", extra={"action": "leave_failed", "code": error.code})
