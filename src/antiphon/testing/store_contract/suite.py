"""What the parts of the store contract share."""

from collections.abc import Callable, Coroutine
from typing import Any

from antiphon.ports.store import Commit, Listed, SessionQuery, Store

PATIENCE_S = 5.0
ALL = SessionQuery()


async def pages(read: Callable[[str | None], Coroutine[Any, Any, Listed]], *, most: int = 50) -> list[Any]:
    """All items of a list, page by page."""
    items: list[Any] = []
    cursor: str | None = None
    for _ in range(most):
        page = await read(cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items
    raise AssertionError("the pages never end")


class Suite:
    """Tests of a store. `store` is a fixture: an empty one, closed afterwards."""

    async def reopen(self, store: Store) -> Store:
        """Close the store and open its data anew. A store without durability gives itself."""
        return store

    async def wrote(self, store: Store, *commits: Commit) -> None:
        """Commit one after another."""
        for commit in commits:
            await store.commit(commit)
