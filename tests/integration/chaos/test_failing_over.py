"""The database that chaos fails over: what was acknowledged is there, whatever becomes of the servers."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from antiphon.testing.chaos.database import Database


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = Database()
    try:
        await database.start()
        yield database
    finally:
        await asyncio.to_thread(database.close)


async def kept(database: Database) -> list[int]:
    connection = await database.connect()
    try:
        return [row["number"] for row in await connection.fetch("SELECT number FROM public.kept ORDER BY number")]
    finally:
        await connection.close()


async def write(database: Database, number: int) -> None:
    connection = await database.connect()
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS public.kept (number int)")
        await connection.execute("INSERT INTO public.kept VALUES ($1)", number)
    finally:
        await connection.close()


async def test_what_was_acknowledged_survives_restarts_crashes_and_failovers(database: Database) -> None:
    first = database.url
    await write(database, 1)
    await database.restart(signal.SIGINT, 0)
    await write(database, 2)
    await database.restart(signal.SIGQUIT, 0)
    await write(database, 3)
    await database.fail_over(0, silently=False)
    assert database.url != first
    await write(database, 4)
    await database.fail_over(0, silently=True)
    assert database.url == first
    assert await kept(database) == [1, 2, 3, 4]
