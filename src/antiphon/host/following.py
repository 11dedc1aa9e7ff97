"""Following what happens: pages and streams of events, from any cursor."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from antiphon.core import events as e
from antiphon.core.errors import InvalidRequest, NotFound
from antiphon.core.events import Entry
from antiphon.core.session import Session
from antiphon.host.cursors import parsed
from antiphon.host.reading import Reading
from antiphon.host.views import EventView, Page, Receipt, event_view, rfc3339
from antiphon.ports.store import OtherFeed

PAGE_BYTES = 4 << 20
BACKWARDS_STEP = 50


class Following(Reading):
    """The half of a host that tells what happened and what happens."""

    async def events(self, ref: str, *, after: str | None, limit: int) -> Page:
        """See `Service.events`."""
        session = await self.load(ref)
        told, start = await self._from(session, after)
        entries = await self.context.store.entries(session.id, after=start, limit=limit)
        items = (*told, *[event_view(entry, self.context.store.epoch) for entry in entries])
        more = bool(entries) and entries[-1].sequence < session.sequence
        return Page(items=items, next_cursor=items[-1].cursor if more else None)

    async def earlier_events(self, ref: str, *, before: str | None, limit: int) -> Page:
        """See `Service.earlier_events`."""
        session = await self.load(ref)
        told, start = await self._from(session, before) if before else ((), session.sequence + 1)
        entries = await self._backwards(session.id, start + 1 if told else start, limit)
        epoch = self.context.store.epoch
        items = (*told, *[event_view(entry, epoch) for entry in entries])
        more = bool(entries) and entries[0].sequence > 1
        return Page(items=items, next_cursor=f"{epoch}:{entries[0].sequence}" if more else None)

    async def _backwards(self, session_id: str, before: int, limit: int) -> list[Entry]:
        """The newest entries before a sequence, in their order: as many as were asked for, or about 4 MiB of them."""
        found: list[Entry] = []
        size = 0
        while len(found) < limit and size < PAGE_BYTES:
            wanted = min(limit - len(found), BACKWARDS_STEP)
            chunk = await self.context.store.tail(session_id, before=before, limit=wanted)
            found[:0] = chunk
            if len(chunk) < wanted:
                break
            size += sum(len(msgspec.json.encode(entry.data)) for entry in chunk)
            before = chunk[0].sequence
        return found

    async def event(self, ref: str, sequence: int) -> EventView | None:
        """See `Service.event`."""
        session = await self.load(ref)
        if sequence < 1:
            return None
        entries = await self.context.store.entries(session.id, after=sequence - 1, limit=1)
        found = bool(entries) and entries[0].sequence == sequence
        return event_view(entries[0], self.context.store.epoch) if found else None

    async def follow(self, ref: str, *, after: str | None) -> AsyncGenerator[EventView, None]:
        """See `Service.follow`."""
        session = await self.load(ref)
        told, start = await self._from(session, after)
        for view in told:
            yield view
        view = self.context.fanout.view
        async with aclosing(self.context.fanout.follow(session.id, start)) as entries:
            async for entry in entries:
                if entry.sequence > start + 1:
                    yield self._lost(session, start)
                start = entry.sequence
                yield view(entry)

    def _lost(self, session: Session, sequence: int) -> EventView:
        """The session was deleted, with what followed that sequence: the gap before its end."""
        at, asked_for = rfc3339(self.context.clock.now()) or "", f"{self.context.store.epoch}:{sequence}"
        data = {"asked_for": asked_for}
        return EventView(type="gap", cursor="", session_id=session.id, generation=session.generation, at=at, data=data)

    async def _from(self, session: Session, after: str | None) -> tuple[tuple[EventView, ...], int]:
        """What to tell first, and the sequence after which to go on: a cursor that can't be served is told as a gap."""
        if after is None:
            return (), 0
        epoch, sequence = parsed(after)
        if epoch == self.context.store.epoch and sequence <= session.sequence:
            return (), sequence
        return await self._gap(session, after), session.sequence

    async def _gap(self, session: Session, after: str) -> tuple[EventView, EventView]:
        at, running = rfc3339(self.context.clock.now()) or "", session.running
        here: dict[str, Any] = {"session_id": session.id, "generation": session.generation, "at": at}
        turn: dict[str, Any] | None = None
        if running:
            text = await self.context.store.reply(running.turn.id)
            turn = {"id": running.turn.id, "message_ids": running.turn.message_ids, "text": text or ""}
        snapshot = {
            "session": msgspec.to_builtins(self.shown(session)),
            "turn": turn,
            "queue": [message.id for message in session.inbox],
        }
        cursor = f"{self.context.store.epoch}:{session.sequence}"
        return (
            EventView(type="gap", cursor="", data={"asked_for": after}, **here),
            EventView(type="snapshot", cursor=cursor, data=snapshot, **here),
        )

    async def follow_message(self, message_id: str) -> AsyncGenerator[EventView | Receipt, None]:
        """See `Service.follow_message`."""
        with self.context.fanout.waiting(message_id) as ended:
            stored = await self.context.store.message(message_id)
            if stored is None and (last := self.context.fanout.farewell(message_id)):
                yield last
                return
            if stored is None:
                raise NotFound("message", message_id)
            message, turn_id = stored.message, ""
            epoch = self.context.store.epoch
            async with aclosing(self.context.fanout.follow(message.session_id, message.sequence - 1)) as entries:
                async for entry in entries:
                    if _takes_up(entry, message_id):
                        turn_id = entry.turn_id or ""
                    about_other = entry.type in _OF_ONE_MESSAGE and entry.message_id != message_id
                    if entry.message_id == message_id or (turn_id and entry.turn_id == turn_id and not about_other):
                        yield event_view(entry, epoch)
                    if entry.type == e.MessageEnded.TYPE and entry.message_id == message_id:
                        break
            yield ended.result() if ended.done() and not ended.cancelled() else await self.receipt(message_id)

    # All sessions

    async def feed(self, *, after: str | None, limit: int) -> Page:
        """See `Service.feed`."""
        told, position = await self._feed_from(after)
        with _positions():
            found = await self.context.store.feed(after=position, limit=limit)
        epoch = self.context.store.epoch
        items = (*told, *[event_view(place.entry, epoch) for place in found])
        end = found[-1].position if found else position
        return Page(items=items, next_cursor=f"{epoch}:{end}")

    async def follow_all(self, *, after: str | None) -> AsyncGenerator[tuple[str, EventView], None]:
        """See `Service.follow_all`."""
        told, position = await self._feed_from(after)
        epoch = self.context.store.epoch
        for view in told:
            yield f"{epoch}:{position}", view
        with _positions():
            async with aclosing(self.context.fanout.follow_all(position)) as places:
                async for place, entry in places:
                    yield f"{epoch}:{place}", event_view(entry, epoch)

    async def _feed_from(self, after: str | None) -> tuple[tuple[EventView, ...], str]:
        if after is None:
            return (), await self.context.store.feed_end()
        epoch, _, position = after.partition(":")
        if not epoch or not position:
            raise InvalidRequest("The cursor must be one that the feed gave, of the form EPOCH:POSITION.")
        if epoch == self.context.store.epoch and await self._is_of_this_feed(position):
            return (), position
        at = rfc3339(self.context.clock.now()) or ""
        here: dict[str, Any] = {"cursor": "", "session_id": "", "generation": 0, "at": at}
        sessions = await self.sessions(limit=200)
        snapshot = {"sessions": msgspec.to_builtins(sessions.items), "more": sessions.next_cursor is not None}
        gap = EventView(type="gap", data={"asked_for": after}, **here)
        told = gap, EventView(type="snapshot", data=snapshot, **here)
        return told, await self.context.store.feed_end()

    async def _is_of_this_feed(self, position: str) -> bool:
        """Whether a position was given by this store, and not by the one that it is a copy of."""
        try:
            with _positions():
                await self.context.store.feed(after=position, limit=1)
        except OtherFeed:
            return False
        return True


def _takes_up(entry: e.Entry, message_id: str) -> bool:
    """Whether a turn takes the message up here: it is begun with it, or steered by it."""
    begun = entry.type == e.TurnStarted.TYPE and message_id in entry.data["message_ids"]
    return begun or (entry.type == e.TurnSteered.TYPE and entry.message_id == message_id)


_OF_ONE_MESSAGE = (e.MessageEnded.TYPE, e.MessageAccepted.TYPE, e.TurnSteered.TYPE, e.TurnSteerRequested.TYPE)


class _positions:  # noqa: N801 - reads as a statement
    """What a store says of a position that it never gave is the client's error."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError) and not isinstance(error, OtherFeed):
            raise InvalidRequest("The cursor must be one that the feed gave.") from error
