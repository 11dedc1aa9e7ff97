"""What can happen to a store in PostgreSQL, from within the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.store.postgres import PostgresStore

PATIENCE_S = 20.0


@asynccontextmanager
async def cut_off(store: PostgresStore) -> AsyncIterator[None]:
    """The store's standing connection is lost, and can't come back before the end of the block."""
    standing = store._standing  # pyright: ignore[reportPrivateUsage]
    connect, back = standing._connect, asyncio.Event()  # pyright: ignore[reportPrivateUsage]

    async def later() -> object:
        await back.wait()
        return await connect()

    standing._connect = later  # pyright: ignore[reportPrivateUsage]
    standing._drop()  # pyright: ignore[reportPrivateUsage]
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    finally:
        back.set()
        standing._connect = connect  # pyright: ignore[reportPrivateUsage]
