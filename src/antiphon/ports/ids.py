"""Names for new things."""

from typing import Protocol


class Ids(Protocol):
    """Where ids come from: UUIDv7 (RFC 9562 section 5.7) behind a prefix, ascending within a process."""

    def new(self, prefix: str) -> str:
        """A new id such as `msg_0198…`; later ones compare greater, also inside one millisecond."""
        ...
