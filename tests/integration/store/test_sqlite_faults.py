"""A disk that fails while the SQLite store runs: typed errors, nothing half done, and well again by itself."""

# small files, and nothing else runs meanwhile

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import SequenceMoved, SessionQuery, StoreDamaged
from antiphon.store.sqlite import SqliteStore, database
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft
from antiphon.testing.processes import eventually
from antiphon.testing.store_faults import FaultyDisk

ALL = SessionQuery()
DISK_FAULTS = [
    (apsw.FullError, ("xWrite",)),
    (apsw.IOError, ("xWrite",)),
    (apsw.IOError, ("xSync",)),
    (apsw.IOError, ("xWrite", "xSync")),
    (apsw.ReadOnlyError, ("xWrite",)),
    (apsw.NoMemError, ("xWrite",)),
]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
async def store(data_dir: Path, disk: FaultyDisk) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=disk.name, timeout_s=10)
    yield store
    await store.close()
    disk.close()


@pytest.mark.parametrize(("error", "operations"), DISK_FAULTS)
async def test_a_fault_refuses_commits_whole_and_ends_with_its_cause(
    store: SqliteStore, disk: FaultyDisk, error: type[apsw.Error], operations: tuple[str, ...]
) -> None:
    drafts = [Draft(f"ses_{number}", key=f"k{number}") for number in range(5)]
    for draft in drafts:
        await store.commit(draft.create())
    before = [draft.session for draft in drafts]
    with disk.failing(error, *operations):
        commits = [draft.accept(f"msg_{draft.session.id}", idempotency_key="i") for draft in drafts]
        outcomes = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
        assert [await store.load(session.id) for session in before] == before, "reads go on beside it"
    assert [await store.load(session.id) for session in before] == before
    assert list(await store.messages([f"msg_{session.id}" for session in before])) == []
    for commit in commits:
        await store.commit(commit)
    assert [await store.load(draft.session.id) for draft in drafts] == [draft.session for draft in drafts]
    assert await store.keyed("ses_0", "i") is not None


async def test_a_full_disk_is_told_as_such_and_not_in_doubt(store: SqliteStore, disk: FaultyDisk) -> None:
    with disk.failing(apsw.FullError, "xWrite"), pytest.raises(StoreUnavailable, match="disk is full") as raised:
        await store.commit(Draft("ses_1").create())
    assert raised.value.retry_after_s == 5
    assert "in_doubt" not in raised.value.ids


async def test_a_sync_that_fails_once_leaves_no_doubt(
    store: SqliteStore, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = []

    def meet(operation: str) -> None:
        if operation == "xSync" and not syncs:
            syncs.append(operation)
            raise apsw.IOError("injected")

    monkeypatch.setattr(disk, "meet", meet)
    with pytest.raises(StoreUnavailable) as raised:
        await store.commit(Draft("ses_1").create())
    assert "in_doubt" not in raised.value.ids
    assert await store.load("ses_1") is None


async def test_a_commit_that_could_not_be_synced_and_not_be_taken_back_is_in_doubt(
    store: SqliteStore, disk: FaultyDisk
) -> None:
    with disk.failing(apsw.IOError, "xSync"), pytest.raises(StoreUnavailable) as raised:
        await store.commit(Draft("ses_1").create())
    assert raised.value.ids["in_doubt"] is True


async def test_a_refused_commit_is_gone_also_after_a_crash(data_dir: Path, disk: FaultyDisk) -> None:
    """What a failed sync left in the log must not come back when the log is read anew."""
    store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=disk.name)
    await store.commit(Draft("ses_1").create())
    assert await store.count() == 1, "a reader is connected: the log stays when the writer gives its connection up"
    syncs: list[str] = []
    meet = disk.meet

    def fail_once(operation: str) -> None:
        if operation == "xSync" and not syncs:
            syncs.append(operation)
            raise apsw.IOError("injected")
        meet(operation)

    disk.meet = fail_once
    with pytest.raises(StoreUnavailable):
        await store.commit(Draft("ses_2").create())
    crashed = data_dir.parent / "crashed"
    crashed.mkdir()
    for file in data_dir.iterdir():
        (crashed / file.name).write_bytes(file.read_bytes())
    (crashed / "antiphon.db-shm").unlink()
    await store.close()
    disk.close()
    store = await SqliteStore.open(crashed, clock=CountingClock())
    assert await store.load("ses_1") is not None
    assert await store.load("ses_2") is None
    await store.close()


async def test_reads_that_fail_recover_by_themselves(store: SqliteStore, disk: FaultyDisk) -> None:
    draft = Draft("ses_1")
    await store.commit(draft.create())
    for number in range(100):
        await store.commit(draft.log("x" * 9000 + str(number)))
    with disk.failing(apsw.IOError, "xRead"), pytest.raises(StoreUnavailable):
        await store.entries("ses_1", after=0, limit=999)
    assert len(await store.entries("ses_1", after=0, limit=999)) == 101


async def test_a_store_that_can_not_be_opened_anew_says_so_until_it_can(store: SqliteStore, disk: FaultyDisk) -> None:
    await store.commit(Draft("ses_1").create())
    with disk.failing(apsw.FullError, "xWrite"), disk.failing(apsw.CantOpenError, "xOpen"):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.commit(Draft("ses_2").create())
    await store.commit(Draft("ses_2").create())
    assert await store.count() == 2


async def test_a_disk_that_hangs_is_told_in_time_and_its_commits_are_in_doubt(data_dir: Path, disk: FaultyDisk) -> None:
    store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=disk.name, timeout_s=0.2)
    draft = Draft("ses_1")
    await store.commit(draft.create())
    with disk.hanging():
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnavailable) as raised:
                await store.commit(draft.log())
        assert raised.value.ids["in_doubt"] is True
        assert await store.load("ses_1") is not None, "reads go on beside it"
    with pytest.raises(SequenceMoved):
        await store.commit(Draft("ses_1").create())
    await store.close()
    disk.close()


async def test_another_programs_lock_is_waited_for_and_then_told(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 100)
    await store.commit(Draft("ses_1").create())
    other = apsw.Connection(str(store.path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="Another program"):
        await store.commit(Draft("ses_2").create())
    assert await store.count() == 1
    other.execute("ROLLBACK")
    other.close()
    await store.commit(Draft("ses_2").create())
    assert await store.count() == 2


async def test_a_checkpoint_that_fails_loses_nothing(
    store: SqliteStore, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("antiphon.store.sqlite.writer.CHECKPOINT_PAGES", 1)
    draft = Draft("ses_1")
    await store.commit(draft.create())
    with caplog.at_level(logging.WARNING, "antiphon.store"), disk.failing(apsw.IOError, "xTruncate", "xRead"):
        for _ in range(20):
            await store.commit(draft.log())
    assert "could not be copied" in caplog.text
    assert await store.load("ses_1") == draft.session


async def test_the_log_is_copied_when_nothing_comes_for_a_moment(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.sqlite.writer.CALM_PAGES", 1)
    before = store.path.stat().st_mtime_ns
    draft = Draft("ses_1")
    await store.commit(draft.create())
    await eventually(lambda: store.path.stat().st_mtime_ns != before, 30)
    await store.commit(draft.log())  # the writer is awake again
    assert await store.load("ses_1") == draft.session


async def test_a_bug_in_a_command_reaches_its_caller_and_nobody_else(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, bystander = Draft("ses_1"), Draft("ses_2")
    await store.commit(draft.create())
    commit = draft.accept("msg_1")
    broken = draft.turn("turn_1", first_sequence=2**70)
    commit = type(commit)(session=commit.session, expected=1, entries=commit.entries, turns=(broken,))
    outcomes = await asyncio.gather(store.commit(commit), store.commit(bystander.create()), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OverflowError, type(None)]
    session = await store.load("ses_1")
    assert session is not None
    assert session.sequence == 1


async def test_a_row_that_can_not_be_read_is_trouble_of_its_session_only(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Draft("ses_1", key="bad"), Draft("ses_2", key="good")
    for draft in (bad, good):
        await store.commit(draft.create())
        turn = draft.turn(f"turn_{draft.session.key}")
        await store.commit(draft.start(turn))
        await store.commit(draft.say(turn, "secret words"))
        await store.commit(draft.accept(f"msg_{draft.session.key}", "secret words"))
        await store.commit(draft.ask(f"perm_{draft.session.key}", at=1))
    with apsw.Connection(str(store.path)) as tool:
        tool.execute("UPDATE sessions SET state = x'ff00' WHERE key = 'bad'")
        tool.execute(
            "UPDATE entries SET data = CAST('{\"text\": 1}x' AS BLOB) WHERE session = 1 AND type = 'turn.text'"
        )
        for table, id in (("messages", "msg_bad"), ("turns", "turn_bad"), ("permissions", "perm_bad")):
            tool.execute(f"UPDATE {table} SET record = CAST('{{}}' AS BLOB) WHERE id = ?", (id,))
    tool.close()
    for read in (
        store.load("ses_1"),
        store.entries("ses_1", after=0, limit=9),
        store.tail("ses_1", before=None, limit=9),
        store.message("msg_bad"),
        store.turn("turn_bad"),
        store.permission("perm_bad"),
        store.reply(turn_of(bad).id),
    ):
        with pytest.raises(StoreDamaged) as raised:
            await read
        assert raised.value.ids["session_id"] == "ses_1"
        assert "secret" not in raised.value.detail
    assert store.damaged_rows == 0
    with caplog.at_level(logging.ERROR, "antiphon.store"):
        assert [one.id for one in (await store.sessions(ALL, cursor=None, limit=9)).items] == ["ses_2"]
        assert [one.message.id for one in await store.messages(["msg_bad", "msg_good"])] == ["msg_good"]
        assert (await store.turns("ses_1", generation=None, cursor=None, limit=9)).items == ()
        assert (await store.transcript("ses_1", generation=1, cursor=None, limit=9)).items == ()
        listed = await store.permissions(state=None, session_id=None, cursor=None, limit=9)
        assert [one.id for one in listed.items] == ["perm_good"]
        feed = await store.feed(after="0.0", limit=99)
    assert [one.entry.session_id for one in feed].count("ses_2") == 5
    assert store.damaged_rows == len(caplog.records) == 6
    assert {record.session_id for record in caplog.records} == {"ses_1"}  # pyright: ignore[reportAttributeAccessIssue]
    assert "secret" not in caplog.text
    assert await store.load("ses_2") == good.session
    await store.commit(good.log())
    assert await store.find("bad") == "ses_1"
    await store.commit(bad.delete())
    while await store.purge(50):
        pass
    assert await store.count() == 1


def turn_of(draft: Draft):
    return draft.turn("turn_bad", first_sequence=2, last_sequence=9)


async def test_a_page_of_the_feed_that_can_not_be_read_is_passed_over(store: SqliteStore) -> None:
    bad, good = Draft("ses_1"), Draft("ses_2")
    for draft in (bad, good):
        await store.commit(draft.create())
        for _ in range(5):
            await store.commit(draft.log())
    with apsw.Connection(str(store.path)) as tool:
        tool.execute("UPDATE entries SET data = x'00' WHERE session = 1")
    tool.close()
    page = await store.feed(after="0.0", limit=2)
    assert [(one.entry.session_id, one.entry.sequence) for one in page] == [("ses_2", 1), ("ses_2", 2)]


async def test_closing_leaves_no_thread_no_log_and_no_lock(data_dir: Path) -> None:
    before = threading.enumerate()
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    draft = Draft("ses_1")
    await store.commit(draft.create())
    waiting = [asyncio.ensure_future(store.commit(draft.log())) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*waiting)
    assert [thread for thread in threading.enumerate() if thread not in before] == []
    assert sorted(file.name for file in data_dir.iterdir()) == ["antiphon.db", "antiphon.lock"]
    for call in (store.load("ses_1"), store.commit(draft.log()), store.purge(1)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    again = await SqliteStore.open(data_dir, clock=CountingClock())
    assert await again.load("ses_1") is not None
    await again.close()


async def test_what_is_given_up_does_not_gather_before_a_disk_that_hangs(
    data_dir: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.sqlite.store.WAITING", 3)
    store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=disk.name, timeout_s=0.2)
    await store.commit(Draft("ses_0").create())
    with disk.hanging():
        commits = [Draft(f"ses_{number}").create() for number in range(1, 10)]
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
    doubts = [outcome.ids.get("in_doubt") for outcome in outcomes if isinstance(outcome, StoreUnavailable)]
    assert sorted(doubts, key=str) == [None] * 6 + [True] * 3, "six never came to the thread"
    async with asyncio.timeout(5):
        for number in range(10, 20):
            await store.commit(Draft(f"ses_{number}").create())
    assert await store.count() <= 1 + 3 + 10
    await store.close()
    disk.close()


async def test_commits_that_wait_together_share_a_sync(store: SqliteStore, disk: FaultyDisk) -> None:
    drafts = [Draft(f"ses_{number}") for number in range(100)]
    await asyncio.gather(*[store.commit(draft.create()) for draft in drafts])
    before = disk.operations["xSync"]
    await asyncio.gather(*[store.commit(draft.log()) for draft in drafts])
    assert disk.operations["xSync"] - before < 20
    await store.commit(drafts[0].log())
    assert disk.operations["xSync"] > before, "and none is told before one"
