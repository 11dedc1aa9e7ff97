"""Several hosts on one PostgreSQL when something breaks: who is given up, who is not, and who notices (P1, P13)."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import asyncpg
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.peers import GRACE_S, LEASE_S, SETTLING_S, Bulletin
from antiphon.ports.store import Fenced
from antiphon.store.postgres import PostgresStore
from antiphon.store.postgres.claims import Asked, Claims
from antiphon.system import SystemClock
from antiphon.testing.cut_line import CutLine
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.sharing import unsettled
from postgres_faults import cut_off
from real_postgres import RealPostgres, until

PATIENCE_S = 30.0

HOST = """
import asyncio, sys
from antiphon.core.errors import StoreUnavailable
from antiphon.ports.peers import Bulletin
from antiphon.ports.store import Fenced, SequenceMoved
from antiphon.store.postgres import PostgresStore
from antiphon.store.postgres.claims import Asked, Claims
from antiphon.system import SystemClock
from antiphon.testing.drafts import Draft

async def main():
    store = await PostgresStore.open(sys.argv[1], clock=SystemClock(), schema_name=sys.argv[2])
    fence = await store.claim("ses_1", "host_1")
    while True:
        draft = Draft("ses_1")
        try:
            await store.peers.announce("host_1", Bulletin(name="a", url="", version="1"))
            draft.session = await store.load("ses_1")
            await store.commit(draft.log(fence=fence))
        except Fenced:
            print("fenced", flush=True)
            break
        except (StoreUnavailable, SequenceMoved) as error:
            print(type(error).__name__, flush=True)
        else:
            print(fence, flush=True)
        await asyncio.sleep(0.2)
    await store.close()

asyncio.run(main())
"""


async def opened(url: str, schema: str, **settings: float) -> PostgresStore:
    settings = {"connections": 4} | settings
    return await PostgresStore.open(url, clock=SystemClock(), schema_name=schema, **settings)  # pyright: ignore[reportArgumentType]


@pytest.fixture
async def hosts(real_postgres: RealPostgres, schema: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    async with AsyncExitStack() as stack:
        one, two = [await opened(real_postgres.url, schema) for _ in range(2)]
        stack.push_async_callback(one.close)
        stack.push_async_callback(two.close)
        yield one, two


@pytest.fixture
def mortal_postgres() -> Iterator[RealPostgres]:
    """A server that a test may stop."""
    server = RealPostgres()
    yield server
    server.close()


@asynccontextmanager
async def tool(postgres: RealPostgres, schema: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of somebody else."""
    connection = await asyncpg.connect(postgres.url, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


def bulletin(name: str) -> Bulletin:
    return Bulletin(name=name, url="", version="1")


async def announce(store: PostgresStore, host: str, name: str) -> bool | None:
    """Announce a host; whether it worked."""
    try:
        await store.peers.announce(host, bulletin(name))
    except StoreUnavailable:
        return None
    return True


async def backend(store: PostgresStore) -> int:
    """The server's end of the connection on which the claims are, as soon as there is one."""

    async def there() -> int | None:
        connection = store._standing._connection  # pyright: ignore[reportPrivateUsage]
        return connection.get_server_pid() if connection is not None and not connection.is_closed() else None

    async with asyncio.timeout(PATIENCE_S):
        return await until(there)


# Callers who go away


async def test_a_claim_that_nobody_waits_for_any_more_is_undone_and_disturbs_no_other(
    hosts: tuple[PostgresStore, PostgresStore],
) -> None:
    one, two = hosts
    await one.commit(Draft("ses_0").create())
    fence = await one.claim("ses_0", "one")
    before = await backend(one)
    for steps in range(12):
        claiming = asyncio.ensure_future(one.claim("ses_1", "one"))
        for _ in range(steps):
            await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming], timeout=PATIENCE_S)
        if not claiming.cancelled() and (won := claiming.result()) is not None:
            await one.release("ses_1", won)
        async with asyncio.timeout(PATIENCE_S):
            won = await until(lambda: two.claim("ses_1", "two"))
        await two.release("ses_1", won)
    assert await backend(one) == before, "the connection was kept"
    assert await two.claim("ses_0", "two") is None
    assert fence is not None
    await one.release("ses_0", fence)
    assert await two.claim("ses_0", "two") is not None


async def test_a_claim_whose_caller_goes_away_as_it_succeeds_is_undone(
    hosts: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    tell = Claims._tell  # pyright: ignore[reportPrivateUsage]

    def told_and_cancelled(asked: Asked, fence: int | None) -> bool:
        told = tell(asked, fence)
        claiming.cancel()  # it has been woken, and has not run yet
        return told

    with monkeypatch.context() as patch:
        patch.setattr(Claims, "_tell", staticmethod(told_and_cancelled))
        claiming = asyncio.ensure_future(one.claim("ses_1", "one"))
        await asyncio.wait([claiming], timeout=PATIENCE_S)
    assert claiming.cancelled()
    async with asyncio.timeout(PATIENCE_S):
        assert await until(lambda: two.claim("ses_1", "two"))


async def test_a_release_goes_on_when_its_caller_goes_away(hosts: tuple[PostgresStore, PostgresStore]) -> None:
    one, two = hosts
    fence = await one.claim("ses_1", "one")
    assert fence is not None
    releasing = asyncio.ensure_future(one.release("ses_1", fence))
    await asyncio.sleep(0)
    releasing.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: two.claim("ses_1", "two"))


async def test_claims_that_are_asked_for_together_are_made_together(
    hosts: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = hosts
    await one.claim("ses_0", "one")
    claims = one._standing._claims  # pyright: ignore[reportPrivateUsage]
    claim, sizes = claims._claim, list[int]()  # pyright: ignore[reportPrivateUsage]

    async def counted(connection: object, batch: list[object]) -> None:
        sizes.append(len(batch))
        await claim(connection, batch)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(claims, "_claim", counted)
    fences = await asyncio.gather(*[one.claim(f"ses_{number}", "one") for number in range(300)])
    assert len({*fences, None}) == 301
    assert sum(sizes) == 300
    assert len(sizes) <= 5


# Trouble that stays where it is


async def test_a_row_that_somebody_keeps_locked_holds_up_nobody_else(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    for number in (1, 2, 3):
        await one.commit(Draft(f"ses_{number}").create())
    held = await one.claim("ses_3", "one")
    assert held is not None
    before = await backend(one)
    async with tool(real_postgres, schema) as other, asyncio.timeout(PATIENCE_S):
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT 1 FROM sessions WHERE id IN ('ses_1', 'ses_3') FOR UPDATE")
        waiting = asyncio.ensure_future(one.claim("ses_1", "one"))
        releasing = asyncio.ensure_future(one.release("ses_3", held))
        unwanted = asyncio.ensure_future(two.claim("ses_1", "two"))
        assert await one.claim("ses_2", "one") is not None
        await one.peers.announce("host_1", bulletin("a"))
        assert not waiting.done()
        assert not releasing.done()
        await transaction.rollback()
        fences = [await waiting, await unwanted]
        await releasing
    assert fences.count(None) == 1
    assert await two.claim("ses_3", "two") is not None
    assert await backend(one) == before


async def test_more_claims_than_the_server_has_places_for_are_refused_one_by_one(
    mortal_postgres: RealPostgres,
) -> None:
    mortal_postgres.start(max_connections="12", max_locks_per_transaction="10")
    store = await opened(mortal_postgres.url, "antiphon", connections=2)
    await store.commit(Draft("ses_0").create())
    first = await store.claim("ses_0", "one")
    before = await backend(store)
    many = [f"ses_{number}" for number in range(1, 1800)]
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*[store.claim(id, "one") for id in many], return_exceptions=True)
        refused = [id for id, outcome in zip(many, outcomes, strict=True) if isinstance(outcome, StoreUnavailable)]
        won = {id: outcome for id, outcome in zip(many, outcomes, strict=True) if isinstance(outcome, int)}
        assert len(refused) + len(won) == len(many)
        assert refused
        assert won
        await asyncio.gather(*[store.release(id, fence) for id, fence in won.items()])
        assert await store.claim(refused[-1], "one") is not None, "there is room again"
    assert await backend(store) == before
    assert first is not None
    await store.commit(Draft("ses_0", sequence=1).log(fence=first))
    await store.close()


# The server comes and goes


async def test_after_a_restart_of_the_server_everybody_has_what_was_theirs(mortal_postgres: RealPostgres) -> None:
    mortal_postgres.start(fsync="on")
    stores = [await opened(mortal_postgres.url, "antiphon") for _ in range(3)]
    drafts = [unsettled(f"ses_{number}") for number in range(3)]
    fences: list[int | None] = []
    for number, (store, draft) in enumerate(zip(stores, drafts, strict=True)):
        await store.peers.announce(f"host_{number}", bulletin(f"h{number}"))
        await store.commit(draft.create())
        fences.append(await store.claim(draft.session.id, f"host_{number}"))
    await asyncio.to_thread(mortal_postgres.stop, signal.SIGQUIT)
    await asyncio.to_thread(mortal_postgres.start)
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLING_S + 3 * GRACE_S
    looks = 0
    async with asyncio.timeout(PATIENCE_S):
        while loop.time() < end:
            for number, store in enumerate(stores):
                if await announce(store, f"host_{number}", f"h{number}"):
                    assert list(await store.peers.abandoned(f"h{number}", 9)) == []
                    looks += 1
            await asyncio.sleep(0.05)
        assert looks
        for number, (store, draft, fence) in enumerate(zip(stores, drafts, fences, strict=True)):
            await store.commit(draft.log(fence=fence))
            assert await stores[number - 1].claim(draft.session.id, "thief") is None
            owner = await store.peers.owner(draft.session.id)
            assert owner is not None
            assert owner.id == f"host_{number}"
    for store in stores:
        await store.close()


async def test_a_host_that_the_network_hangs_knows_before_the_others_take_its_claims(
    real_postgres: RealPostgres, schema: str
) -> None:
    async with CutLine("127.0.0.1", real_postgres.port) as line:
        url = real_postgres.url.replace(str(real_postgres.port), str(line.port))
        store, witness = await opened(url, schema), await opened(real_postgres.url, schema)
        await store.peers.announce("host_1", bulletin("a"))
        assert await store.claim("ses_1", "host_1") is not None
        line.deaf = True
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(StoreUnavailable):
                await store.peers.announce("host_1", bulletin("a"))
            assert asyncio.get_running_loop().time() - begun < LEASE_S
            line.deaf = False
            await until(lambda: announce(store, "host_1", "a"))
        assert await witness.claim("ses_1", "host_2") is None, "it has what it had, on a new connection"
        await store.close()
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: witness.claim("ses_1", "host_2"))
        await witness.close()


async def test_a_host_that_was_cut_off_for_long_lives_as_soon_as_it_is_back_and_is_not_ended_again(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    await one.peers.announce("host_1", bulletin("a"))
    first = await backend(one)
    async with tool(real_postgres, schema) as admin:
        await admin.execute("UPDATE hosts SET seen_at = clock_timestamp() - interval '1 minute'")
        await admin.execute("SELECT pg_terminate_backend($1)", first)

    async def lives() -> bool | None:
        return any(peer.living for peer in await two.peers.hosts()) or None

    async with asyncio.timeout(PATIENCE_S):
        await until(lives)
    second = await backend(one)
    assert second != first
    await two.peers.abandoned("b", 10)
    assert await backend(one) == second


async def test_an_older_connection_that_the_server_still_has_is_ended_by_the_next_one(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    """As after a cut that only the client has noticed."""
    one, two = hosts
    assert await one.claim("ses_1", "host_1") is not None
    name = one._standing._name  # pyright: ignore[reportPrivateUsage]
    old = await asyncpg.connect(real_postgres.url, server_settings={"application_name": name})
    async with cut_off(one):
        await until(lambda: locked(old, f"antiphon {schema} ses_1"))
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: announce(one, "host_1", "a"))
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await old.fetchval("SELECT 1")
    assert await two.claim("ses_1", "host_2") is None
    old.terminate()


async def test_a_claim_that_another_host_got_is_fenced_even_if_a_failover_forgot_the_newer_fence(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    old = await one.claim("ses_1", "host_1")
    async with cut_off(one):
        fence = await until(lambda: two.claim("ses_1", "host_2"))
        async with tool(real_postgres, schema) as other:
            await other.execute("UPDATE sessions SET fence = $1", old)
    assert await one.claim("ses_1", "host_1") is None
    before = draft.session
    with pytest.raises(Fenced):
        await one.commit(draft.log(fence=old))
    await two.release("ses_1", fence)
    again = await one.claim("ses_1", "host_1")
    draft.session = before
    await one.commit(draft.log(fence=again))


async def test_a_claim_of_which_nobody_knows_whether_it_came_about_leaves_no_owner(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    kept, doubtful = unsettled("ses_1"), unsettled("ses_2")
    for draft in (kept, doubtful):
        await one.commit(draft.create())
    await one.peers.announce("host_1", bulletin("a"))
    await two.peers.announce("host_2", bulletin("b"))
    assert await one.claim("ses_1", "host_1") is not None
    async with cut_off(one), tool(real_postgres, schema) as other:  # its statement was carried out, and then it was cut
        await other.execute("UPDATE sessions SET owner = 'host_1', fence = fence + 1 WHERE id = 'ses_2'")

    async def left_behind() -> list[str] | None:
        return list(await two.peers.abandoned("b", 9)) or None

    async with asyncio.timeout(PATIENCE_S):
        assert await until(left_behind) == ["ses_2"]
    assert await two.claim("ses_1", "host_2") is None


async def locked(connection: asyncpg.Connection, name: str) -> bool | None:
    return await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name) or None


# A host that is frozen


async def test_a_frozen_host_loses_its_claims_and_learns_of_it_when_it_wakes(
    real_postgres: RealPostgres, schema: str
) -> None:
    store = await opened(real_postgres.url, schema)
    draft = unsettled("ses_1")
    await store.commit(draft.create())
    command = (sys.executable, "-c", HOST, real_postgres.url, schema)
    frozen = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert frozen.stdout is not None

    async def left_behind() -> list[str] | None:
        await store.peers.announce("host_2", bulletin("b"))
        return list(await store.peers.abandoned("b", 9)) or None

    async with asyncio.timeout(PATIENCE_S + LEASE_S):
        old = int(await frozen.stdout.readline())
        frozen.send_signal(signal.SIGSTOP)
        begun = asyncio.get_running_loop().time()
        assert await store.claim("ses_1", "host_2") is None
        assert asyncio.get_running_loop().time() - begun < LEASE_S / 2, "nobody waits for a frozen host"
        assert await until(left_behind) == ["ses_1"]
        async with tool(real_postgres, schema) as other:
            await until(partial(only_of, other, store))
        fence = await store.claim("ses_1", "host_2")
        assert fence is not None
        assert fence > old
        frozen.send_signal(signal.SIGCONT)
        said = (await frozen.stdout.read()).decode().split()
        assert await frozen.wait() == 0
    assert said[-1] == "fenced"
    await store.close()


async def only_of(connection: asyncpg.Connection, store: PostgresStore) -> bool | None:
    """Whether none but this store has connections: the frozen host's pool may be amid a transaction."""
    found = await connection.fetch(
        "SELECT DISTINCT application_name AS name FROM pg_stat_activity WHERE application_name LIKE 'antiphon %'"
    )
    return all(row["name"].endswith(store._origin) for row in found) or None  # pyright: ignore[reportPrivateUsage]


# Late commits


async def test_a_commit_that_an_older_transaction_held_back_is_told_when_the_feed_has_it(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, _ = hosts
    start = await one.feed_end()
    notices, draft = one.notices(), Draft("ses_1")
    async with tool(real_postgres, schema) as other, asyncio.timeout(PATIENCE_S):
        transaction = other.transaction()
        await transaction.start()
        await other.fetchval("SELECT pg_current_xact_id()::text")
        heard = asyncio.ensure_future(anext(notices))
        await one.commit(draft.create())
        assert list(await one.feed(after=start, limit=9)) == []
        assert list(await one.feed(after=start, limit=9)) == []
        assert not heard.done()
        await transaction.rollback()
        assert (await heard).session_id == "ses_1"
        assert len(await one.feed(after=start, limit=9)) == 1
        last = Draft("ses_2")
        await hosts[1].commit(last.create())
        assert (await anext(notices)).session_id == "ses_2", "each is told once"


# Old hosts


async def test_hosts_of_yesterday_are_forgotten_and_own_nothing(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    await one.commit(Draft("ses_1").create())
    await one.peers.announce("host_1", bulletin("a"))
    await one.claim("ses_1", "host_1")
    async with tool(real_postgres, schema) as other:
        await other.execute("UPDATE hosts SET seen_at = seen_at - interval '2 days'")
        assert [peer.id for peer in await two.peers.hosts()] == ["host_1"], "its lock is held"
        await one.close()
        assert list(await two.peers.hosts()) == []
        await two.peers.announce("host_2", bulletin("b"))
        assert await other.fetchval("SELECT count(*) FROM hosts") == 1
        assert await other.fetchval("SELECT count(*) FROM sessions WHERE owner IS NOT NULL") == 0


async def test_looking_for_abandoned_sessions_does_not_read_those_of_the_living(
    real_postgres: RealPostgres, schema: str
) -> None:
    one, two = [await opened(real_postgres.url, schema) for _ in range(2)]
    await one.peers.announce("host_1", bulletin("a"))
    await two.peers.announce("host_2", bulletin("b"))
    await one.commit(unsettled("ses_0").create())
    async with tool(real_postgres, schema) as other:
        await other.execute(MANY)
        await other.execute("VACUUM ANALYZE sessions")
        begun = await rows_read(other)
        for _ in range(10):
            assert list(await two.peers.abandoned("b", 9)) == ["ses_0"]
        await two.close()  # its backends tell what they read when they end
        assert 0 < await until(partial(more_than, other, begun)) < 1000
    await one.close()


async def more_than(connection: asyncpg.Connection, begun: int) -> int | None:
    return (await rows_read(connection) - begun) or None


MANY = """
INSERT INTO sessions (id, fence, owner, sequence, agent, status, labels, search, active_at, unsettled, state)
SELECT 'ses_many_' || n, 0, 'host_1', 1, 'echo', 'running', '', '', n, 1, '' FROM generate_series(1, 5000) n"""


async def rows_read(connection: asyncpg.Connection) -> int:
    """How many rows of sessions, and entries of its indexes, have been read, as far as backends have told."""
    read = await connection.fetchval(
        "SELECT (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'sessions'::regclass)"
        " + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relid = 'sessions'::regclass)"
    )
    assert read is not None
    return int(read)


# Fences


async def test_what_a_host_writes_after_its_claim_was_taken_is_fenced_on_every_connection(
    hosts: tuple[PostgresStore, PostgresStore],
) -> None:
    one, two = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    old = await one.claim("ses_1", "host_1")
    assert old is not None
    await one.release("ses_1", old)
    assert await two.claim("ses_1", "host_2") is not None
    before = draft.session
    calls = [one.commit(draft.log(fence=old)) for _ in range(8)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Fenced}
    assert await two.load("ses_1") == before


class SlowClock(SystemClock):
    """A clock that runs behind the server's."""

    def monotonic(self) -> float:
        return super().monotonic() * 0.9


async def test_whether_a_host_was_silent_is_judged_by_the_servers_clock_alone(
    real_postgres: RealPostgres, schema: str
) -> None:
    async with AsyncExitStack() as stack:
        clocks = SystemClock(), SlowClock()
        one, two = [await PostgresStore.open(real_postgres.url, clock=clock, schema_name=schema) for clock in clocks]
        stack.push_async_callback(one.close)
        stack.push_async_callback(two.close)
        await one.peers.announce("host_1", Bulletin(name="a", url="", version="1"))
        await two.peers.announce("host_2", Bulletin(name="b", url="", version="1"))
        pids = await _standing(real_postgres.url, one, two)

        async def nobody_lives() -> bool | None:
            return not any(peer.living for peer in await two.peers.hosts())

        async with asyncio.timeout(PATIENCE_S):
            await until(nobody_lives)
        assert list(await two.peers.abandoned("b", 9)) == []
        assert await _standing(real_postgres.url, one, two) == pids


async def test_a_leap_of_the_servers_clock_makes_nobody_silent(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, two = hosts
    await one.peers.announce("host_1", Bulletin(name="a", url="", version="1"))
    await two.peers.announce("host_2", Bulletin(name="b", url="", version="1"))
    pids = await _standing(real_postgres.url, one, two)
    connection = await asyncpg.connect(real_postgres.url)
    await connection.execute(f"UPDATE {schema}.hosts SET seen_at = seen_at - interval '1 minute'")
    await connection.close()
    assert list(await two.peers.abandoned("b", 9)) == []
    await two.peers.announce("host_2", Bulletin(name="b", url="", version="1"))
    assert list(await two.peers.abandoned("b", 9)) == []
    assert await _standing(real_postgres.url, one, two) == pids


async def _standing(url: str, *stores: PostgresStore) -> list[int]:
    """The server's processes on the other end of the standing connections, of those that it still has."""
    connection = await asyncpg.connect(url)
    there = {pid for (pid,) in await connection.fetch("SELECT pid FROM pg_stat_activity")}
    await connection.close()
    pids = [store._standing._connection.get_server_pid() for store in stores]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
    return [pid for pid in pids if pid in there]
