"""Several hosts on one PostgreSQL: one owner a session, nothing skipped, everything told (P1)."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import asyncpg
import pytest

from antiphon.core import events as e
from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import Fenced, KeyTaken, Notice, SequenceMoved
from antiphon.store.postgres import PostgresStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft
from postgres_faults import cut_off
from real_postgres import RealPostgres, until

PATIENCE_S = 10.0

OWNER = """
import asyncio, sys
from antiphon.store.postgres import PostgresStore
from antiphon.testing.clocks import CountingClock

async def main():
    store = await PostgresStore.open(sys.argv[1], clock=CountingClock(), schema_name=sys.argv[2])
    print(await store.claim("ses_1", "doomed"), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
async def hosts(real_postgres: RealPostgres, schema: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            store = await PostgresStore.open(
                real_postgres.url, clock=CountingClock(), schema_name=schema, connections=4, timeout_s=10
            )
            stack.push_async_callback(store.close)
            opened.append(store)
        yield opened[0], opened[1]


async def terminate(real_postgres: RealPostgres, of: str) -> None:
    """End the server's side of all connections whose last statement has this in it."""
    connection = await asyncpg.connect(real_postgres.url)
    ended = await connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE $1 AND pid <> pg_backend_pid()",
        f"%{of}%",
    )
    assert ended
    await connection.close()


async def test_a_session_has_one_owner_and_the_next_one_fences_the_last(
    hosts: tuple[PostgresStore, PostgresStore],
) -> None:
    one, two = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    first = await one.claim("ses_1", "one")
    assert first is not None
    assert await two.claim("ses_1", "two") is None
    assert await two.claim("ses_2", "two") is not None, "another session is free"
    again = await one.claim("ses_1", "one")
    assert again is not None
    assert again > first
    await one.release("ses_1", first)
    assert await two.claim("ses_1", "two") is None, "an old fence frees nothing"
    await one.release("ses_1", again)
    second = await two.claim("ses_1", "two")
    assert second is not None
    assert second > again
    before = draft.session
    with pytest.raises(Fenced):
        await one.commit(draft.log(fence=again))
    draft.session = before
    await two.commit(draft.log(fence=second))
    await one.commit(draft.log(fence=None))


async def test_the_session_of_a_killed_host_is_taken_over_at_once(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    one, _ = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    command = (sys.executable, "-c", OWNER, real_postgres.url, schema)
    doomed = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert doomed.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        old = int(await doomed.stdout.readline())
        assert await one.claim("ses_1", "one") is None
        doomed.send_signal(signal.SIGKILL)
        await doomed.wait()
        fence = await claimed(one, "ses_1")
    assert fence > old
    with pytest.raises(Fenced):
        await one.commit(draft.log(fence=old))


async def claimed(store: PostgresStore, session_id: str) -> int:
    """A claim, once the server has seen the last owner's end."""
    return await until(lambda: store.claim(session_id, "next"))


async def test_closing_frees_every_claim(hosts: tuple[PostgresStore, PostgresStore]) -> None:
    one, two = hosts
    assert await one.claim("ses_1", "one") is not None
    await one.close()
    async with asyncio.timeout(PATIENCE_S):
        await claimed(two, "ses_1")


async def test_a_claim_outlives_a_lost_connection_when_nobody_took_it(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres
) -> None:
    one, two = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    fence = await one.claim("ses_1", "one")
    await terminate(real_postgres, "nextval('fences')")

    async def other() -> int | None:
        with suppress(StoreUnavailable):  # told to the one who meets the lost connection
            return await one.claim("ses_2", "one")
        return None

    async with asyncio.timeout(PATIENCE_S):
        assert await until(other) > 0
    assert await two.claim("ses_1", "two") is None, "the claim was taken up again"
    await one.commit(draft.log(fence=fence))
    assert fence is not None
    await one.release("ses_1", fence)
    assert await two.claim("ses_1", "two") is not None


async def test_a_claim_that_was_taken_meanwhile_is_not_taken_up_again(
    hosts: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    draft = Draft("ses_1")
    await one.commit(draft.create())
    old = await one.claim("ses_1", "one")
    async with cut_off(one):
        fence = await claimed(two, "ses_1")
    with pytest.raises(Fenced):
        await one.commit(draft.log(fence=old))
    assert await one.claim("ses_1", "one") is None
    assert old is not None
    await one.release("ses_1", old)
    assert await one.claim("ses_1", "one") is None
    await two.release("ses_1", fence)
    assert await one.claim("ses_1", "one") is not None


async def test_writers_on_two_hosts_race_for_one_sequence_and_one_key(
    hosts: tuple[PostgresStore, PostgresStore],
) -> None:
    rivals = [Draft(f"ses_{number}", key="k") for number in range(12)]
    calls = [hosts[number % 2].commit(rival.create()) for number, rival in enumerate(rivals)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["KeyTaken"] * 11 + ["NoneType"]
    winner = rivals[[outcome is None for outcome in outcomes].index(True)]
    assert {outcome.session_id for outcome in outcomes if isinstance(outcome, KeyTaken)} == {winner.session.id}

    async def write(store: PostgresStore, name: str) -> int:
        moved = 0
        for number in range(20):
            while True:
                draft = Draft(winner.session.id)
                loaded = await store.load(winner.session.id)
                assert loaded is not None
                draft.session = loaded
                try:
                    await store.commit(draft.step(e.AgentLog(text=f"{name} {number}"), e.AgentLog(text=".")))
                except SequenceMoved:
                    moved += 1
                else:
                    break
        return moved

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(write(hosts[0], "one"), write(hosts[1], "two"))
    entries = await hosts[0].entries(winner.session.id, after=1, limit=999)
    assert [entry.sequence for entry in entries] == list(range(2, 82))
    for name in ("one", "two"):
        own = [entry.data["text"] for entry in entries if str(entry.data["text"]).startswith(name)]
        assert own == [f"{name} {number}" for number in range(20)]


async def test_the_feed_does_not_pass_a_transaction_that_still_runs(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres, schema: str
) -> None:
    """Positions are given before commits: one that commits late must not appear behind a reader."""
    one, _ = hosts
    start = await one.feed_end()
    slow, quick = Draft("ses_1"), Draft("ses_2")
    await one.commit(slow.create())
    await one.commit(quick.create())
    assert len(await one.feed(after=start, limit=9)) == 2
    connection = await asyncpg.connect(real_postgres.url, server_settings={"search_path": schema})
    late = connection.transaction()
    await late.start()
    await connection.execute("INSERT INTO feed (session, first, last) VALUES (1, 2, 2)")
    await connection.execute(
        "INSERT INTO entries SELECT 1, 2, max(position), 1, 'agent.log', 1, NULL, NULL, $1 FROM feed",
        b'{"text":"late"}',
    )
    await one.commit(quick.log("early"))
    seen = list(await one.feed(after=start, limit=9))
    assert len(seen) == 2, "the early one waits for the late one"
    await late.commit()
    await connection.close()
    rest = await one.feed(after=seen[-1].position, limit=9)
    assert [one.entry.data for one in rest] == [{"text": "late"}, {"text": "early"}]


async def gathered(notices: AsyncIterator[Notice], wanted: dict[str, int]) -> dict[str, int]:
    """Notices until every session has reached the sequence that is wanted; what was told of each."""
    told: dict[str, int] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for notice in notices:
            told[notice.session_id] = max(notice.sequence, told.get(notice.session_id, 0))
            if all(told.get(id, 0) >= sequence for id, sequence in wanted.items()):
                return told
    raise AssertionError(f"the notices ended with {told}")


async def listening(store: PostgresStore) -> tuple[AsyncIterator[Notice], "asyncio.Future[Notice]"]:
    """The notices of a store, once it hears them: another store must commit to be heard."""
    notices = store.notices()
    return notices, asyncio.ensure_future(anext(notices))


async def test_commits_of_others_are_told_and_own_ones_are_not(hosts: tuple[PostgresStore, PostgresStore]) -> None:
    one, two = hosts
    notices, first = await listening(two)
    theirs, mine = Draft("ses_1"), Draft("ses_2")
    await one.commit(theirs.create())
    async with asyncio.timeout(PATIENCE_S):
        assert await first == Notice(session_id="ses_1", sequence=1, ended={})
    await two.commit(mine.create())
    for _ in range(200):
        await one.commit(theirs.log())
    told = await gathered(notices, {"ses_1": 201})
    assert told == {"ses_1": 201}
    await one.commit(theirs.delete())
    assert await gathered(notices, {"ses_1": 202}) == {"ses_1": 202}


async def test_many_sessions_fit_into_notifications(hosts: tuple[PostgresStore, PostgresStore]) -> None:
    one, two = hosts
    notices, first = await listening(two)
    names = [f"ses_{number:040d}" for number in range(300)]
    for start in range(0, 300, 50):
        await asyncio.gather(*[one.commit(Draft(name).create()) for name in names[start : start + 50]])
    async with asyncio.timeout(PATIENCE_S):
        head = await first
    told = await gathered(notices, dict.fromkeys([name for name in names if name != head.session_id], 1))
    assert {*told, head.session_id} == set(names)


async def test_what_a_dead_listener_missed_is_read_from_the_feed(
    hosts: tuple[PostgresStore, PostgresStore], real_postgres: RealPostgres
) -> None:
    one, two = hosts
    notices, first = await listening(two)
    draft = Draft("ses_1")
    await one.commit(draft.create())
    async with asyncio.timeout(PATIENCE_S):
        await first
    async with cut_off(two):
        await one.commit(draft.log())
        missed = Draft("ses_2")
        await one.commit(missed.create())
    assert await gathered(notices, {"ses_1": 2, "ses_2": 1}) == {"ses_1": 2, "ses_2": 1}


async def test_a_notification_that_was_never_sent_is_made_good_by_looking(
    hosts: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.postgres.store.POLL_S", 0.05)
    one, two = hosts

    async def send_nothing(payload: str) -> None:
        return

    monkeypatch.setattr(one._outbox, "_send", send_nothing)  # pyright: ignore[reportPrivateUsage]
    notices, first = await listening(two)
    draft = Draft("ses_1")
    await one.commit(draft.create())
    async with asyncio.timeout(PATIENCE_S):
        assert await first == Notice(session_id="ses_1", sequence=1, ended=None)
    await one.commit(draft.log())
    assert await gathered(notices, {"ses_1": 2}) == {"ses_1": 2}


async def test_two_hosts_purge_at_once(hosts: tuple[PostgresStore, PostgresStore]) -> None:
    one, two = hosts
    for number in range(5):
        draft = Draft(f"ses_{number}")
        for commit in (draft.create(), *[draft.log() for _ in range(20)], draft.delete()):
            await one.commit(commit)

    async def purge(store: PostgresStore) -> int:
        total = 0
        while taken := await store.purge(7):
            total += taken
        return total

    async with asyncio.timeout(PATIENCE_S):
        assert sum(await asyncio.gather(purge(one), purge(two))) == 5 * 23
