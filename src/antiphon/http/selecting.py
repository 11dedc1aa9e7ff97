"""What a viewer wants of the events: certain types, and large ones by reference."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from antiphon.host.views import EventView, Page, Receipt
from antiphon.http.answers import encode

ALWAYS = frozenset({"gap", "snapshot", "session.deleted"})
"""Told whatever was asked for: without them a viewer would go on with what is no longer so."""
SHORT = 256
"""Up to so many bytes a member of a large event's data is told in place."""
SCANNED_MAX = 20
"""How many pages of events are looked through for one page of those that were asked for."""

Told = EventView | Receipt | tuple[str, EventView]


class Selection(NamedTuple):
    """Which events are told, and how.

    Attributes:
        types: Names of types, or families of them such as `turn.*`; all when empty.
        inline_max: The most bytes of `data` that are told in place; None for any number.
    """

    types: tuple[str, ...] = ()
    inline_max: int | None = None

    @property
    def whole(self) -> bool:
        """Whether every event is told as it is."""
        return not self.types and self.inline_max is None

    def keeps(self, event: EventView) -> bool:
        """Whether an event is told."""
        return not self.types or event.type in ALWAYS or any(_matches(event.type, wanted) for wanted in self.types)

    def shown(self, event: EventView) -> EventView:
        """An event as it is told: a large one keeps what is short of its data, and has a reference to the whole."""
        if self.inline_max is None or not event.cursor or event.type in ALWAYS:
            return event
        size = len(encode(event.data))
        if size <= self.inline_max:
            return event
        place = f"/v1/sessions/{event.session_id}/events/{event.cursor.rpartition(':')[2]}"
        short = {name: value for name, value in event.data.items() if len(encode(value)) <= SHORT}
        return msgspec.structs.replace(event, data={**short, "ref": place, "bytes": size})

    async def stream(self, told: AsyncIterator[Told]) -> AsyncIterator[Told]:
        """What is told of a stream."""
        try:
            async for each in told:
                match each:
                    case EventView():
                        if self.keeps(each):
                            yield self.shown(each)
                    case (cursor, event):
                        if self.keeps(event):
                            yield cursor, self.shown(event)
                    case _:
                        yield each
        finally:
            if close := getattr(told, "aclose", None):
                await close()

    async def page(self, read: Callable[[str | None], Awaitable[Page]], after: str | None, limit: int) -> Page:
        """One page of what is told.

        It may have fewer items than asked for, none even, with more to come: so that no page costs more than looking
        through a bounded part of the journal.

        Args:
            read: Reads the page after a cursor.
            after: The cursor after which to begin.
            limit: How many items it may have.
        """
        kept: list[EventView] = []
        page = Page(items=(), next_cursor=after)
        for _ in range(SCANNED_MAX):
            page = await read(after)
            for event in page.items:
                if self.keeps(event):
                    kept.append(self.shown(event))
                    if len(kept) == limit and event is not page.items[-1]:
                        return Page(items=tuple(kept), next_cursor=event.cursor)
            after = page.next_cursor
            if after is None or len(kept) == limit:
                break
        return Page(items=tuple(kept), next_cursor=page.next_cursor)


def _matches(kind: str, wanted: str) -> bool:
    return kind == wanted or (wanted.endswith(".*") and kind.startswith(wanted[:-1]))
