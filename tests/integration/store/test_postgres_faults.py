"""A PostgreSQL that fails: typed errors, nothing half done, doubt told as such, and well again by itself."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from threading import Thread

import asyncpg
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import SequenceMoved, SessionQuery, StoreDamaged
from antiphon.store.postgres import PostgresStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.cut_line import CutLine
from antiphon.testing.drafts import Draft
from real_postgres import RealPostgres, until

ALL = SessionQuery()
PATIENCE_S = 20.0


async def opened(url: str, schema: str, **settings: float) -> PostgresStore:
    settings = {"connections": 4, "timeout_s": 10} | settings
    return await PostgresStore.open(url, clock=CountingClock(), schema_name=schema, **settings)  # pyright: ignore[reportArgumentType]


@pytest.fixture
async def store(real_postgres: RealPostgres, schema: str) -> AsyncIterator[PostgresStore]:
    store = await opened(real_postgres.url, schema)
    yield store
    await store.close()


@pytest.fixture
def mortal_postgres() -> Iterator[RealPostgres]:
    """A server that a test may stop."""
    server = RealPostgres()
    server.start(fsync="on")
    yield server
    server.close()


async def again(store: PostgresStore) -> None:
    """Wait until the store answers."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.count()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_server_that_stops_is_told_and_comes_back_with_everything(
    mortal_postgres: RealPostgres, how: signal.Signals
) -> None:
    store = await opened(mortal_postgres.url, "antiphon")
    draft = Draft("ses_1")
    await store.commit(draft.create())
    fence = await store.claim("ses_1", "host")
    await asyncio.to_thread(mortal_postgres.stop, how)
    before = draft.session
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.commit(draft.log())
        draft.session = before
    with pytest.raises(StoreUnavailable):
        await store.load("ses_1")
    with pytest.raises(StoreUnavailable):
        await store.claim("ses_2", "host")
    await asyncio.to_thread(mortal_postgres.start)
    await again(store)
    assert await store.load("ses_1") == before
    await store.commit(draft.log(fence=fence))
    assert await store.claim("ses_2", "host") is not None
    await store.close()


async def test_a_read_on_a_connection_that_died_unnoticed_is_made_on_another(
    real_postgres: RealPostgres, store: PostgresStore
) -> None:
    """As when a frozen host wakes, whose connections others have ended."""
    draft = Draft("ses_1")
    await store.commit(draft.create())
    await asyncio.gather(*[store.load("ses_1") for _ in range(4)])

    async def end_all() -> None:
        admin = await asyncpg.connect(real_postgres.url)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'antiphon%'"
        )
        await admin.close()

    meanwhile = Thread(target=lambda: asyncio.run(end_all()))
    meanwhile.start()
    meanwhile.join(PATIENCE_S)  # nothing else of this thread runs: nobody has seen the connections end

    found = await asyncio.gather(*[store.load("ses_1") for _ in range(4)], store.feed_end())
    assert found[:4] == [draft.session] * 4


async def nothing(_payload: str) -> None:
    """Send nothing."""


async def test_a_commit_whose_answer_was_lost_is_in_doubt_and_there(
    real_postgres: RealPostgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with CutLine("127.0.0.1", real_postgres.port) as line:
        url = real_postgres.url.replace(str(real_postgres.port), str(line.port))
        store, witness = await opened(url, schema, connections=1), await opened(real_postgres.url, schema)
        monkeypatch.setattr(store._outbox, "_send", nothing)  # pyright: ignore[reportPrivateUsage]
        draft = Draft("ses_1")
        await store.commit(draft.create())
        await store.commit(draft.log())  # the statement is prepared now: one message to the server is enough
        line.deaf = True
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.ensure_future(store.commit(draft.accept("msg_1", idempotency_key="i")))
            await seen(witness, "msg_1")
            line.cut()
            with pytest.raises(StoreUnavailable) as raised:
                await committing
        assert raised.value.ids["in_doubt"] is True
        line.deaf = False
        await again(store)
        assert await store.load("ses_1") == draft.session
        assert await store.keyed("ses_1", "i") is not None
        await store.close()
        await witness.close()


async def seen(store: PostgresStore, message_id: str) -> None:
    await until(lambda: store.message(message_id))


async def test_a_server_that_falls_silent_is_told_in_time(real_postgres: RealPostgres, schema: str) -> None:
    async with CutLine("127.0.0.1", real_postgres.port) as line:
        url = real_postgres.url.replace(str(real_postgres.port), str(line.port))
        store = await opened(url, schema, timeout_s=0.5)
        draft = Draft("ses_1")
        await store.commit(draft.create())
        line.deaf = True
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(StoreUnavailable) as raised:
                await store.commit(draft.log())
            assert raised.value.ids["in_doubt"] is True
            with pytest.raises(StoreUnavailable):
                await store.load("ses_1")
        line.deaf = False
        await again(store)
        await store.close()


async def test_connections_that_run_out_are_told(real_postgres: RealPostgres, schema: str) -> None:
    store = await opened(real_postgres.url, schema, connections=2, timeout_s=0.5)
    draft = Draft("ses_1")
    await store.commit(draft.create())
    other = await asyncpg.connect(real_postgres.url, server_settings={"search_path": schema})
    holding = other.transaction()
    await holding.start()
    await other.execute("LOCK TABLE sessions")
    calls = [store.load("ses_1") for _ in range(6)]
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    assert any("No connection" in str(outcome) for outcome in outcomes)
    await holding.rollback()
    await other.close()
    await again(store)
    assert await store.load("ses_1") == draft.session
    await store.close()


async def test_a_standby_is_told_as_read_only(real_postgres: RealPostgres, schema: str) -> None:
    store = await opened(real_postgres.url, schema)
    admin = await asyncpg.connect(real_postgres.url)
    try:
        await admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await admin.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(PATIENCE_S):
            await shown(admin, "on")
        with pytest.raises(StoreUnavailable, match="read-only") as raised:
            await store.commit(Draft("ses_1").create())
        assert "in_doubt" not in raised.value.ids
        assert await store.load("ses_1") is None
    finally:
        await admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await admin.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(PATIENCE_S):
            await shown(admin, "off")
        await admin.close()
    async with asyncio.timeout(PATIENCE_S):
        await write_once_allowed(store)
    assert await store.count() == 1
    await store.close()


async def shown(admin: asyncpg.Connection, setting: str) -> None:
    await until(
        lambda: admin.fetchval("SELECT true WHERE current_setting('default_transaction_read_only') = $1", setting)
    )


async def write_once_allowed(store: PostgresStore) -> None:
    while True:
        try:
            return await store.commit(Draft("ses_1").create())
        except StoreUnavailable:
            await asyncio.sleep(0.01)


async def test_a_cancelled_claim_leaves_no_lock_behind(real_postgres: RealPostgres, schema: str) -> None:
    one, two = await opened(real_postgres.url, schema), await opened(real_postgres.url, schema)
    assert await one.claim("ses_0", "one") is not None
    for steps in range(1, 12):
        claiming = asyncio.ensure_future(one.claim("ses_1", "one"))
        for _ in range(steps):
            await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming], timeout=PATIENCE_S)
        if not claiming.cancelled() and (fence := claiming.result()) is not None:
            await one.release("ses_1", fence)
        async with asyncio.timeout(PATIENCE_S):
            fence = await until(lambda: two.claim("ses_1", "two"))
        await two.release("ses_1", fence)
    await one.close()
    await two.close()


async def test_a_row_that_can_not_be_read_is_trouble_of_its_session_only(
    store: PostgresStore, real_postgres: RealPostgres, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Draft("ses_1"), Draft("ses_2")
    for draft in (bad, good):
        await store.commit(draft.create())
        await store.commit(draft.accept(f"msg_{draft.session.id}", "secret words"))
    tool = await asyncpg.connect(real_postgres.url, server_settings={"search_path": schema})
    await tool.execute("UPDATE sessions SET state = '\\xff' WHERE id = 'ses_1'")
    await tool.execute("UPDATE messages SET record = '{}' WHERE id = 'msg_ses_1'")
    await tool.close()
    for read in (store.load("ses_1"), store.message("msg_ses_1")):
        with pytest.raises(StoreDamaged) as raised:
            await read
        assert raised.value.ids["session_id"] == "ses_1"
    with caplog.at_level(logging.ERROR, "antiphon.store"):
        assert [one.id for one in (await store.sessions(ALL, cursor=None, limit=9)).items] == ["ses_2"]
    assert store.damaged_rows == 1
    assert "secret" not in caplog.text
    assert await store.load("ses_2") == good.session
    with pytest.raises(SequenceMoved):
        await store.commit(Draft("ses_1", sequence=7).log())


async def test_a_later_schema_is_refused_and_kept(real_postgres: RealPostgres, schema: str) -> None:
    store = await opened(real_postgres.url, schema)
    await store.close()
    tool = await asyncpg.connect(real_postgres.url, server_settings={"search_path": schema})
    await tool.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    with pytest.raises(StoreDamaged, match="has schema 99; this antiphon knows schemas up to"):
        await opened(real_postgres.url, schema)
    assert await tool.fetchval("SELECT value FROM meta WHERE name = 'version'") == "99"
    await tool.close()


async def test_hosts_that_start_together_make_one_schema(real_postgres: RealPostgres, schema: str) -> None:
    stores = await asyncio.gather(*[opened(real_postgres.url, schema) for _ in range(5)])
    assert len({store.epoch for store in stores}) == 1
    await stores[0].commit(Draft("ses_1").create())
    assert [await store.count() for store in stores] == [1] * 5
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://who:geheim@127.0.0.1:1/x", "can't be reached"),
        ("postgresql://who:geheim@127.0.0.1:PORT/x", "refuses the login|no such|database failed"),
        ("nonsense://who:geheim@127.0.0.1/x", "URL can't be read"),
        ("postgresql://who:geheim@127.0.0.1:what/x", "URL can't be read"),
    ],
)
async def test_a_server_that_is_not_there_is_told_without_its_password(
    real_postgres: RealPostgres, url: str, said: str
) -> None:
    with pytest.raises(StoreUnavailable, match=said) as raised:
        await opened(url.replace("PORT", str(real_postgres.port)), "antiphon")
    assert "geheim" not in raised.value.detail


@pytest.mark.parametrize("name", ["", "Big", "a b", 'x"; DROP', "x" * 60])
async def test_a_schema_has_a_plain_name(real_postgres: RealPostgres, name: str) -> None:
    with pytest.raises(ValueError, match="a schema's name"):
        await opened(real_postgres.url, name)


async def test_a_closed_store_says_so(store: PostgresStore) -> None:
    await store.close()
    for call in (store.load("ses_1"), store.commit(Draft("ses_1").create()), store.claim("ses_1", "h"), store.purge(1)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
