"""A database that fails over: addresses that are dead, or of a standby, and a standby that becomes the primary."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.peers import Bulletin
from antiphon.store.postgres import PostgresStore
from antiphon.store.postgres.driver import addresses
from antiphon.system import SystemClock
from antiphon.testing.drafts import Draft
from antiphon.testing.postgres_server import PostgresServer, Programs, free_port
from real_postgres import RealPostgres, until

PATIENCE_S = 30.0


def url_of(*ports: int, more: str = "") -> str:
    places = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://postgres@{places}/postgres?sslmode=disable{more}"


async def opened(url: str, schema: str = "antiphon") -> PostgresStore:
    return await PostgresStore.open(url, clock=SystemClock(), schema_name=schema, connections=4)


@contextmanager
def silent_port() -> Iterator[int]:
    """A port of a machine that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield server.getsockname()[1]


async def test_an_address_where_nothing_listens_is_passed_over(real_postgres: RealPostgres, schema: str) -> None:
    url = url_of(free_port(), real_postgres.port, more="&target_session_attrs=read-write")
    store = await opened(url, schema)
    await store.commit(Draft("ses_1").create())
    assert await store.claim("ses_1", "host_1") is not None
    await store.close()


async def test_an_address_that_does_not_answer_uses_up_its_own_time_only_and_only_once(
    real_postgres: RealPostgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.postgres.driver.ADDRESS_S", 0.5)
    with silent_port() as silent:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        store = await opened(url_of(silent, real_postgres.port), schema)
        assert loop.time() - begun >= 0.5
        begun = loop.time()
        counts = await asyncio.gather(*[store.count() for _ in range(4)])
        assert await store.claim("ses_1", "host_1") is not None
        assert loop.time() - begun < 0.5, "the one that answered is asked first"
        assert counts == [0] * 4
        await store.close()


async def test_when_no_address_serves_that_is_told(schema: str) -> None:
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        await opened(url_of(free_port(), free_port()), schema)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql://u:p@a,b:5433/db", [("a", None), ("b", 5433)]),
        ("postgresql://u:p%40,x@db.example:5432/db?x=1,2", [("db.example", 5432)]),
        ("postgresql:///db?host=/run/postgresql", []),
        ("postgresql://[::1]:7/db", [("::1", 7)]),
        ("postgresql://a:what/db", []),
    ],
)
def test_the_addresses_of_a_url(url: str, found: list[tuple[str, int | None]]) -> None:
    assert addresses(url) == found


@pytest.fixture
async def pair() -> AsyncIterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and its standby."""
    programs = await asyncio.to_thread(Programs)
    primary, standby = PostgresServer(programs, "primary"), PostgresServer(programs, "standby")
    try:
        await asyncio.to_thread(primary.create)
        await asyncio.to_thread(primary.start)
        await asyncio.to_thread(standby.copy, primary)
        await asyncio.to_thread(standby.start)
        yield primary, standby
    finally:
        for server in (primary, standby):
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
        programs.close()


@asynccontextmanager
async def admin(server: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.url)
    try:
        yield connection
    finally:
        await connection.close()


async def caught_up(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has all that the primary wrote."""
    async with admin(primary) as first, admin(standby) as second, asyncio.timeout(PATIENCE_S):
        end = await first.fetchval("SELECT pg_current_wal_flush_lsn()::text")
        await until(lambda: second.fetchval("SELECT true WHERE pg_last_wal_replay_lsn() >= $1::text::pg_lsn", end))


async def written(store: PostgresStore, draft: Draft, fence: int | None) -> bool | None:
    """Commit as the owner; whether it worked."""
    before = draft.session
    try:
        await store.commit(draft.log(fence=fence))
    except StoreUnavailable:
        draft.session = before
        return None
    return True


async def test_hosts_follow_the_database_to_the_standby_that_takes_over(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    primary, standby = pair
    one, two = [await opened(url_of(standby.port, primary.port)) for _ in range(2)]
    draft = Draft("ses_1")
    await one.commit(draft.create())
    await one.peers.announce("host_1", Bulletin(name="a", url="", version="1"))
    fence = await one.claim("ses_1", "host_1")
    await caught_up(primary, standby)
    await asyncio.to_thread(primary.stop, signal.SIGQUIT)
    with pytest.raises(StoreUnavailable):
        await two.commit(Draft("ses_2").create())
    await asyncio.to_thread(standby.promote)
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: written(one, draft, fence))
        await until(lambda: claims(two, "ses_2"))
    assert await two.load("ses_1") == draft.session
    assert await two.claim("ses_1", "host_2") is None, "it has its owner there, too"
    await one.close()
    await two.close()


async def claims(store: PostgresStore, session_id: str) -> int | None:
    try:
        return await store.claim(session_id, "host_2")
    except StoreUnavailable:
        return None


async def test_connections_to_a_server_that_has_become_a_standby_are_given_up(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    """The old primary goes on to answer, and refuses to write: as after a switch-over."""
    primary, standby = pair
    store = await opened(url_of(primary.port, standby.port))
    draft = Draft("ses_1")
    await store.commit(draft.create())
    fence = await store.claim("ses_1", "host_1")
    await caught_up(primary, standby)
    await asyncio.to_thread(primary.configure, default_transaction_read_only="on")
    await asyncio.to_thread(primary.reload)
    await asyncio.to_thread(standby.promote)
    async with asyncio.timeout(PATIENCE_S), admin(standby) as there:
        await until(lambda: written(store, draft, fence))
        assert await until(lambda: held(there)) == 1, "the claim moved, too"
    assert await store.load("ses_1") == draft.session
    await store.close()


async def held(connection: asyncpg.Connection) -> int | None:
    found = await connection.fetchval(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND application_name LIKE 'antiphon claims %'"
    )
    return found or None
