"""What a store says of itself in its table `meta`: the names of journal and feed, and whether it is whole yet."""

from collections.abc import Mapping
from typing import Self

import msgspec

from antiphon.ports.store import OtherFeed, StoreDamaged

UNFINISHED = "copy"
"""The name under which a copy that is being made keeps how far it is; gone once the copy is whole."""
COPIED = "copied"
"""The name under which a finished copy keeps what it is a copy of."""
FEED = "feed"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which journal a store holds.

    Attributes:
        epoch: The journal's name; a copy of a store has that of the original.
        feed: Tells the feed's positions from those of the store that this one is a copy of; empty for an original.
    """

    epoch: str
    feed: str = ""

    @classmethod
    def read(cls, meta: Mapping[str, str], place: str) -> Self:
        """The identity of a whole store.

        Args:
            meta: The table's rows.
            place: How the store is called in errors.

        Raises:
            StoreDamaged: It is a copy that is not finished.
        """
        if UNFINISHED in meta:
            raise StoreDamaged(
                f"{place} is a copy that is not finished. Go on with `antiphon store copy`, from the same store,"
                " or take it away and choose another."
            )
        return cls(epoch=meta["epoch"], feed=meta.get(FEED, ""))

    def told(self, position: str) -> str:
        """A position of the engine as clients are told it."""
        return f"{self.feed}-{position}" if self.feed else position

    def own(self, told: str) -> str:
        """The engine's position in what a client was told.

        Raises:
            OtherFeed: It is of the store that this one is a copy of, or of another copy.
        """
        feed, dash, position = told.rpartition("-")
        if feed != self.feed or bool(dash) != bool(self.feed):
            raise OtherFeed("a position of the feed of another store")
        return position
