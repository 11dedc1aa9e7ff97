"""The part of a host that knows of others over the same store."""

import asyncio
import contextlib

from msgspec.structs import replace

from antiphon import __version__
from antiphon.core import errors
from antiphon.core.session import Turn
from antiphon.host.following import Following
from antiphon.host.neighbours import Neighbours
from antiphon.host.views import HostView, Page, Receipt, SessionView, host_view, receipt
from antiphon.ports.peers import Bulletin, Peer
from antiphon.ports.store import Notice

LEAVE_TIMEOUT_S = 2.0


class Together(Following):
    """What a host does with others, or for want of them."""

    name: str = ""
    url: str = ""

    async def session(self, ref: str) -> SessionView:
        """See `Service.session`."""
        view = await super().session(ref)
        owner = await self.context.neighbours.owner(view.id) if self.context.neighbours else None
        return replace(view, host=owner.name if owner else None)

    async def hosts(self) -> Page:
        """See `Service.hosts`."""
        neighbours = self.context.neighbours
        peers = await neighbours.hosts() if neighbours else [await self._alone()]
        items = tuple(host_view(peer, this=peer.id == self.context.host_id) for peer in peers)
        return Page(items=items, next_cursor=None)

    async def drain_host(self, name: str, *, drained: bool) -> HostView:
        """See `Service.drain_host`."""
        neighbours = self.context.neighbours
        if neighbours is None:
            if name != self.name:
                raise errors.NotFound("host", name)
            detail = (
                "No other host can take this one's sessions over: its store can't be shared. Stop the host instead."
            )
            raise errors.InvalidRequest(detail, name=name)
        if not await neighbours.drain(name, drained=drained):
            raise errors.NotFound("host", name)
        found = [peer for peer in await neighbours.hosts() if peer.name == name]
        if not found:
            raise errors.NotFound("host", name)
        newest = max(found, key=lambda peer: (peer.living, peer.seen_at))
        return host_view(newest, this=newest.id == self.context.host_id)

    async def _alone(self) -> Peer:
        now, places = self.context.clock.now(), self.context.places
        told = Bulletin(
            name=self.name,
            url=self.url,
            version=__version__,
            agents_open=places.taken,
            max_agents=places.limit,
            leaving=self.context.draining,
        )
        owned = sum(actor.owns for actor in self._actors.values())
        return Peer(
            id=self.context.host_id,
            bulletin=told,
            started_at=self._began_at,
            seen_at=now,
            living=True,
            sessions=owned,
            drained=False,
        )

    def moved(self, notice: Notice) -> None:
        """Another host wrote to a session: whoever follows it, waits for it or owns it here learns of that."""
        self.context.fanout.moved(notice.session_id, notice.sequence, notice.ended)
        if actor := self._actors.get(notice.session_id):
            actor.moved(notice.sequence)

    def let_others_have(self) -> None:
        """Look at every session that another host should have: it is given up as soon as nothing of it runs here."""
        for actor in self._actors.values():
            if actor.owns:
                actor.wake()

    async def wait_anywhere(self, message_id: str, seconds: float | None) -> Receipt:
        """Wait for a message that any host may end: after each of their commits it is looked at again.

        Raises:
            NotFound, StoreUnavailable.
        """
        fanout, clock = self.context.fanout, self.context.clock
        until = None if seconds is None else clock.monotonic() + seconds
        known: Receipt | None = None
        with fanout.waiting(message_id) as ended:
            if (session_id := self._homes.get(message_id)) is None:
                known = await self.receipt(message_id)
                session_id = known.session_id
            with fanout.moves(session_id, message_id) as moved:
                ended.add_done_callback(lambda _: moved.set())
                while not ended.done():
                    moved.clear()
                    if at_hand := self._at_hand(session_id, message_id):
                        known = at_hand
                    elif self._waits_elsewhere(session_id, message_id):
                        pass
                    elif end := await self._end_of(message_id, moved.turn_id, known):
                        return end
                    left_s = None if until is None else until - clock.monotonic()
                    if left_s is not None and left_s <= 0:
                        break
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left_s):
                            await moved.wait()
            if ended.done() and not ended.cancelled():
                return ended.result()
        return await self.receipt(message_id)

    async def over_anywhere(self, turn: Turn, seconds: float | None) -> None:
        """Wait, at the most so long, for a turn that any host may end: after each of their commits it is looked at.

        Raises:
            NotFound, StoreUnavailable.
        """
        fanout = self.context.fanout
        with fanout.moves(turn.session_id) as moved, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not fanout.closed and (await self._turn(turn.id)).ended_at is None:
                    await moved.wait()
                    moved.clear()

    async def _gone(self, message_id: str, known: Receipt | None) -> Receipt:
        """The last receipt of a message whose session another host deleted, which ended it.

        Raises:
            NotFound: It had come to another end before, of which nothing is kept, or it has been purged.
            StoreUnavailable.
        """
        message = await self.context.store.gone(message_id)
        if message is None or message.state != "cancelled":
            raise errors.NotFound("message", message_id)
        return receipt(message, reply=known.reply if known else None, position=None, waiting_for=None)

    async def _end_of(self, message_id: str, turn_id: str | None, known: Receipt | None) -> Receipt | None:
        """The receipt of a message that has ended; None for any other. `turn_id`: in which turn, as far as was heard.

        Raises:
            NotFound, StoreUnavailable.
        """
        store, said = self.context.store, None
        if turn_id is None:
            stored = await store.message(message_id)
        else:
            stored, said = await store.answered(message_id, turn_id) or (None, None)
        if stored is None:  # it was deleted meanwhile
            return self.context.fanout.farewell(message_id) or await self._gone(message_id, known)
        message = stored.message
        if message.ended_at is None:
            return None
        if said is not None and message.turn_id == turn_id and message.left_at is None:
            return receipt(message, reply=said, position=None, waiting_for=None)
        return await self._receipt(message)

    def _at_hand(self, session_id: str, message_id: str) -> Receipt | None:
        """The receipt of a message that has not ended as far as this host knows, which owns its session.

        Another one may have ended it since; of that a notice comes.
        """
        actor = self._actors.get(session_id)
        return actor.receipt(message_id) if actor and actor.owns and actor.certain else None

    def _waits_elsewhere(self, session_id: str, message_id: str) -> bool:
        """Whether a message that another host's agent is to answer waits still, as far as was heard. See `_at_hand`."""
        actor = self._actors.get(session_id)
        return actor is not None and actor.certain and actor.sees_waiting(message_id)


async def bid_farewell(neighbours: Neighbours) -> None:
    """Tell the others that this host is gone; they notice too when there is no time for it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await neighbours.gone()
