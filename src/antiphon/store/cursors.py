"""Cursors of lists: opaque to whoever holds them, checked when they come back."""

import base64
import binascii
from typing import Any

import msgspec

Activity = tuple[int, str]
"""What sessions are listed by: `active_at`, then id."""


def cursor(kind: str, *place: int | str) -> str:
    """A cursor of the list `kind` that stands at a place."""
    return base64.urlsafe_b64encode(msgspec.json.encode((kind, *place))).rstrip(b"=").decode()


def place(kind: str, text: str, *types: type) -> tuple[Any, ...]:
    """Where a cursor of the list `kind` stands.

    Raises:
        ValueError: It is not a cursor of this list.
    """
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        own, *values = msgspec.json.decode(raw, type=list[Any])
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise ValueError(f"not a cursor of {kind}") from error
    if own != kind or [type(value) for value in values] != list(types):
        raise ValueError(f"not a cursor of {kind}")
    return tuple(values)


class Walk(msgspec.Struct, frozen=True):
    """A walk through the sessions, newest activity first, that leaves out none which moves meanwhile.

    It goes down from the first page's newest session (`top`). Activity only moves a session up, so one that moved
    before it was met is above `top` when the walk has reached the bottom: from there it goes up again, once, until a
    page shows that nothing is left above. Sessions move ahead of a walk upwards and can't slip past it. (Where the
    clock went back meanwhile, a session may be met out of order.)

    Attributes:
        down: Whether it is on its first way.
        at: The last session it has met; None before the first.
        top: The newest session of the first page.
    """

    down: bool = True
    at: Activity | None = None
    top: Activity | None = None

    @classmethod
    def parse(cls, text: str | None) -> "Walk":
        """The walk that a cursor goes on with.

        Raises:
            ValueError: It is not a cursor of sessions.
        """
        if text is None:
            return cls()
        down, at, id, top_at, top_id = place("sessions", text, int, int, str, int, str)
        return cls(bool(down), (at, id), (top_at, top_id))

    def is_ahead(self, activity: Activity) -> bool:
        """Whether this walk still comes to a session there."""
        return self.at is None or (activity < self.at if self.down else activity > self.at)

    def next_cursor(self, page: list[Activity], *, more: bool, newer: bool) -> str | None:
        """Where the walk goes on.

        Args:
            page: What this page met, in the order of the walk.
            more: Whether there is more in this direction.
            newer: Whether there is anything above `top`; asked only of a later page of the way down.
        """
        top = self.top or (page[0] if page else None)
        if top is None:
            return None
        if more:
            return cursor("sessions", int(self.down), *page[-1], *top)
        if self.down and newer:
            return cursor("sessions", 0, *top, *top)
        return None
