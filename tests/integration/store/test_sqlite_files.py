"""The SQLite store's files: whose they are, and what is not taken for a store."""

# small files, and nothing else runs meanwhile

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import apsw
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import StoreDamaged
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft

HOLDER = """
import asyncio, pathlib, sys
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft

async def main():
    store = await SqliteStore.open(pathlib.Path(sys.argv[1]), clock=CountingClock())
    await store.commit(Draft("ses_1").create())
    print("holds", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def opened(data_dir: Path) -> SqliteStore:
    return await SqliteStore.open(data_dir, clock=CountingClock())


async def written(data_dir: Path, *, sessions: int = 1) -> Path:
    """A store with some sessions, closed; its file."""
    store = await opened(data_dir)
    for number in range(sessions):
        await store.commit(Draft(f"ses_{number}").create())
    await store.close()
    return store.path


def snapshot(data_dir: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in data_dir.iterdir() if file.name != "antiphon.lock"}


async def test_a_second_host_is_told_who_holds_the_directory(data_dir: Path) -> None:
    store = await opened(data_dir)
    with pytest.raises(StoreUnavailable, match=f"in use by another host .*{os.getpid()}") as raised:
        await opened(data_dir)
    assert raised.value.ids["pid"] == os.getpid()
    await store.commit(Draft("ses_1").create())
    await store.close()
    again = await opened(data_dir)
    assert await again.count() == 1
    await again.close()


async def test_the_lock_of_a_killed_holder_is_free_at_once_and_its_commits_are_there(data_dir: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, data_dir, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    async with asyncio.timeout(15):
        assert await holder.stdout.readline() == b"holds\n"
        with pytest.raises(StoreUnavailable) as raised:
            await opened(data_dir)
        assert raised.value.ids["pid"] == holder.pid
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
    store = await opened(data_dir)
    assert await store.load("ses_1") is not None
    await store.close()


async def test_an_open_that_is_given_up_lets_go_of_the_directory(data_dir: Path) -> None:
    opening = asyncio.ensure_future(opened(data_dir))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening], timeout=5)
    assert opening.cancelled()
    async with asyncio.timeout(5):
        store = await opened_once_free(data_dir)
    await store.close()


async def opened_once_free(data_dir: Path) -> SqliteStore:
    while True:
        try:
            return await opened(data_dir)
        except StoreUnavailable:
            await asyncio.sleep(0)


async def test_only_the_owner_can_read_the_store(data_dir: Path) -> None:
    path = await written(data_dir)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_empty_file_is_damage_and_not_a_new_store(data_dir: Path) -> None:
    path = await written(data_dir)
    path.write_bytes(b"")
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match=r"antiphon\.db is damaged: it is empty"):
        await opened(data_dir)
    assert snapshot(data_dir) == before


async def test_an_empty_file_keeps_the_log_that_may_hold_everything(data_dir: Path) -> None:
    path = await crashed(data_dir)
    path.write_bytes(b"")
    before = snapshot(data_dir)
    assert len(before["antiphon.db-wal"]) > 4096
    with pytest.raises(StoreDamaged):
        await opened(data_dir)
    assert snapshot(data_dir) == before


async def test_a_log_without_its_store_is_damage_and_not_a_new_store(data_dir: Path) -> None:
    path = await crashed(data_dir)
    path.unlink()
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match="missing"):
        await opened(data_dir)
    assert snapshot(data_dir) == before


async def crashed(data_dir: Path) -> Path:
    """A store whose host was killed: its last commits are only in the log."""
    other = data_dir.with_name("running")
    store = await opened(other)
    draft = Draft("ses_0")
    for commit in (draft.create(), *[draft.log("x" * 3000) for _ in range(9)]):
        await store.commit(commit)
    data_dir.mkdir()
    for name in ("antiphon.db", "antiphon.db-wal"):
        (data_dir / name).write_bytes((other / name).read_bytes())
    await store.close()
    return data_dir / "antiphon.db"


async def test_a_log_left_by_a_crash_is_taken_up(data_dir: Path) -> None:
    await crashed(data_dir)
    store = await opened(data_dir)
    assert len(await store.entries("ses_0", after=0, limit=99)) == 10
    await store.close()


@pytest.mark.parametrize("length", [1, 99, 100, 1800, 4096, 5000, 12288])
async def test_a_damaged_beginning_is_refused_and_kept(data_dir: Path, length: int) -> None:
    path = await written(data_dir)
    whole = path.read_bytes()
    path.write_bytes((b"\0damaged\xff" * 2000)[:length] + whole[length:])
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match=r"antiphon\.db is damaged"):
        await opened(data_dir)
    assert snapshot(data_dir) == before


@pytest.mark.parametrize("kept", [50, 100, 1000, 4096, 20000])
async def test_a_file_that_was_cut_off_is_refused_and_kept(data_dir: Path, kept: int) -> None:
    path = await written(data_dir)
    path.write_bytes(path.read_bytes()[:kept])
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match=r"antiphon\.db is damaged"):
        await opened(data_dir)
    assert snapshot(data_dir) == before


async def test_a_page_that_was_overwritten_is_told_when_it_is_met_and_kept(data_dir: Path) -> None:
    path = await written(data_dir, sessions=400)
    tool = apsw.Connection(str(path))
    page = tool.execute("SELECT pageno FROM dbstat WHERE name = 'sessions' AND pagetype = 'leaf' LIMIT 1").get
    tool.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xde\xad\xbe\xef" * 1024
    path.write_bytes(content)
    store = await opened(data_dir)
    with pytest.raises(StoreDamaged, match=r"antiphon\.db is damaged"):
        await store.load("ses_0")
    assert await store.load("ses_399") is not None
    newer = Draft("ses_399", sequence=1)
    beside = [store.commit(Draft("ses_0", sequence=1).log()), store.commit(newer.log())]
    outcomes = await asyncio.gather(*beside, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreDamaged, type(None)]
    assert await store.load("ses_399") == newer.session
    await store.close()
    assert path.read_bytes()[(page - 1) * 4096 : page * 4096] == content[(page - 1) * 4096 : page * 4096]


async def test_another_programs_database_is_refused_and_kept(data_dir: Path) -> None:
    data_dir.mkdir()
    with apsw.Connection(str(data_dir / "antiphon.db")) as other:
        other.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    other.close()
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match="not a store of antiphon"):
        await opened(data_dir)
    assert snapshot(data_dir) == before


async def test_a_later_schema_is_refused_and_kept(data_dir: Path) -> None:
    path = await written(data_dir)
    with apsw.Connection(str(path)) as tool:
        tool.execute("PRAGMA user_version = 99")
    tool.close()
    before = snapshot(data_dir)
    with pytest.raises(StoreDamaged, match="schema 99; this antiphon knows schemas up to"):
        await opened(data_dir)
    assert snapshot(data_dir) == before
    assert (data_dir / "antiphon.lock").read_bytes() == b""


async def test_a_store_half_made_by_a_killed_host_is_made_anew(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "antiphon.db.new").write_bytes(b"SQLite for")
    (data_dir / "antiphon.db.new-journal").write_bytes(b"half")
    store = await opened(data_dir)
    await store.commit(Draft("ses_1").create())
    await store.close()
    assert sorted(file.name for file in data_dir.iterdir()) == ["antiphon.db", "antiphon.lock"]


async def test_a_directory_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="can't be used"):
        await opened(tmp_path / "file" / "data")


async def test_programs_that_the_host_starts_do_not_keep_the_directory_locked(data_dir: Path) -> None:
    store = await opened(data_dir)
    child = await asyncio.create_subprocess_exec("sleep", "30", close_fds=False)
    await store.close()
    again = await opened(data_dir)
    await again.close()
    child.kill()
    await child.wait()
