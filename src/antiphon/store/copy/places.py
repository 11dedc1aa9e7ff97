"""The two ends of a copy, as far as their engines differ."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol

from antiphon.store.address import is_postgres

Row = Sequence[Any]
NUMBERED = {
    "sessions": "number",
    "feed": "position",
    "webhooks": "number",
    "deliveries": "number",
    "schedules": "number",
}
"""Each table that numbers its rows, and the column that holds the number."""


class CannotCopy(Exception):
    """The copy can't be made; nothing was changed. The text says why and what to do."""


class FeedKey(NamedTuple):
    """By what an engine's feed is ordered.

    Attributes:
        order: The columns of the feed's row `f`.
        told: The same as they are selected.
        after: A condition for what comes after a key, with `$1` and on for its parts.
    """

    order: str
    told: tuple[str, ...]
    after: str


class Place(Protocol):
    """A store that nobody else has open, at one of the two ends of a copy.

    Statements are as `antiphon.store.sql.statements` has them. Errors are those of the port `Store`.

    Attributes:
        feed: The order of its feed.
        holds_nul: Whether its texts may have NUL characters.
        meta: What it says of itself, as of its opening.
    """

    @property
    def feed(self) -> FeedKey: ...

    @property
    def holds_nul(self) -> bool: ...

    @property
    def meta(self) -> dict[str, str]: ...

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        """All rows of a statement; from one state of the store, for as long as `looking` is entered."""
        ...

    def stream(self, sql: str, *args: Any) -> AsyncGenerator[Row]:
        """The rows of a statement, without holding all of them; within `looking`."""
        ...

    def looking(self) -> AbstractAsyncContextManager[None]:
        """Within it everything is read from one state of the store."""
        ...

    def writing(self) -> AbstractAsyncContextManager[None]:
        """Within it everything is written together, durably, or not at all."""
        ...

    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows; within `writing`."""
        ...

    async def given(self) -> dict[str, int]:
        """The last numbers that were given: `fences`, and of each table in `NUMBERED`."""
        ...

    async def give_after(self, numbers: dict[str, int]) -> None:
        """Give only numbers after these from now on; within `writing`."""
        ...


@asynccontextmanager
async def opened(address: str, *, is_source: bool) -> AsyncGenerator[Place]:
    """A store, for this copy alone.

    Args:
        address: A data directory, or a `postgresql://` address.
        is_source: Whether a store must be there; else one is made where there is none.

    Raises:
        StoreUnavailable: A host, or another copy, has it open; or it can't be opened.
        StoreDamaged: What is there is no store that this antiphon can read.
        CannotCopy: There is no store, or no driver for it.
    """
    if is_postgres(address):
        try:
            from antiphon.store.copy import postgres_place  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise CannotCopy("PostgreSQL needs: pip install 'antiphon[postgres]'") from error
        async with postgres_place.opened(address, is_source=is_source) as place:
            yield place
    elif "://" in address:
        raise CannotCopy("A store is named by its data directory, or by a postgresql:// address.")
    else:
        from antiphon.store.copy import sqlite_place  # noqa: PLC0415  # so that neither engine is loaded in vain

        async with sqlite_place.opened(address, is_source=is_source) as place:
            yield place
