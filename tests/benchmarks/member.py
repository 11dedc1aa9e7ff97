"""`python -m benchmarks.member KIND URL NAME TURNS`: one of several processes that write to one PostgreSQL.

KIND is `host` for a host in process, `silent` for one that notifies nobody, and `bare` for a loop that only executes
the statements of the same rows, on as many connections. Prints `ready`; told `go`, it prints a JSON object at its end.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from antiphon.host.host import Host
from antiphon.host.settings import HostSettings
from antiphon.store.postgres import PostgresStore, own
from antiphon.store.sql.writes import prepare
from antiphon.system import SystemClock, SystemIds
from benchmarks.turns import SESSIONS, Life, busy, scripted

Run = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def host(url: str, name: str) -> AsyncGenerator[Run]:
    """A host with 32 sessions; called, each of them has so many turns."""
    store = await PostgresStore.open(url, clock=SystemClock())
    with tempfile.TemporaryDirectory() as workspace:
        host = Host(
            store=store,
            agents={"scripted": scripted()},
            clock=SystemClock(),
            ids=SystemIds(),
            settings=HostSettings(max_agents=SESSIONS),
            workspace=lambda _id: workspace,
            peers=store.peers,
            name=name,
        )
        await host.start()
        keys = [f"{name}:{number}" for number in range(SESSIONS)]
        yield lambda turns: busy(host, keys, turns=turns)
        await host.stop()
    await store.close()


@asynccontextmanager
async def bare(url: str, name: str, turns: int) -> AsyncGenerator[Run]:
    """The statements of 32 sessions' turns, made beforehand; called, they are executed."""
    store = await PostgresStore.open(url, clock=SystemClock())
    lives = [Life(number, name) for number in range(SESSIONS)]
    born = [_statement(life.born()) for life in lives]
    rest = [[_statement(commit) for _ in range(turns) for commit in life.turn()] for life in lives]
    pool: Any = store._pool

    async def execute(statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        for sql, args in statements:
            async with pool.acquire() as connection:
                assert await connection.fetch(sql, *args), "a statement was refused"

    await execute(born)

    async def run(_turns: int) -> None:
        await asyncio.gather(*[execute(statements) for statements in rest])

    yield run
    await store.close()


def _statement(commit: Any) -> tuple[str, tuple[Any, ...]]:
    return own.statement(prepare(commit, now=0), None)


async def nothing(self: PostgresStore, payload: str) -> None:
    """Notify nobody."""


async def main(kind: str, url: str, name: str, turns: int) -> None:
    """Be one of them."""
    if kind == "silent":
        PostgresStore._notify = nothing
    loop = asyncio.get_running_loop()
    async with bare(url, name, turns) if kind == "bare" else host(url, name) as run:
        if kind != "bare":
            await run(1)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        began = time.perf_counter()
        await run(turns)
        took = time.perf_counter() - began
        print(json.dumps({"turns": SESSIONS * turns, "seconds": took}), flush=True)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
