"""Commits that wait for the writer together are written as if each had been written by itself (P5, P10)."""

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.ports.store import Commit
from antiphon.store.sql import writes
from antiphon.store.sql.statements import Command
from antiphon.store.sql.writes import Write
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft

THERE = 4
KINDS = ("log", "log", "accept", "keyed", "turn", "ask", "stale", "fenced", "unbindable", "delete", "create", "taken")
attempts = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, THERE - 1)), max_size=10)


def drafts() -> list[Draft]:
    """Sessions that are there before anything else."""
    return [Draft(f"ses_{number}", key=f"key:{number}") for number in range(THERE)]


def made(some: Sequence[tuple[str, int]]) -> list[Commit]:
    """What is asked for, in order: some of it can't be done, or only if nothing came before."""
    there = drafts()
    for draft in there:
        draft.create()
    return [attempt(kind, there[number], index) for index, (kind, number) in enumerate(some)]


def attempt(kind: str, draft: Draft, index: int) -> Commit:
    before = draft.session
    match kind:
        case "accept":
            return draft.accept(f"msg_{index}", "hello", files=({"name": "a"},))
        case "keyed":
            return draft.accept(f"msg_{index}", idempotency_key=f"k{index % 2}", digest="d")
        case "turn":
            return draft.start(draft.turn(f"turn_{index}", message_ids=()))
        case "ask":
            return draft.ask(f"perm_{index}", at=index)
        case "delete":
            return draft.delete()
        case "create":
            return Draft(f"ses_new_{index}", key=f"new:{index}").create()
        case "taken":
            return Draft(f"ses_new_{index}", key=before.key).create()
        case "stale" | "fenced" | "unbindable":
            draft.session = replace(before, sequence=before.sequence + (kind == "stale"))
            refused = draft.log()
            draft.session = before
            if kind == "stale":
                return refused
            if kind == "fenced":
                return replace(refused, fence=-1)
            return replace(refused, session=replace(refused.session, active_at=1 << 70))
        case _:
            return draft.log(f"remark {index}")


async def outcomes(directory: Path, commits: Sequence[Commit], *, together: bool) -> list[str]:
    """What became of each, and which rows there are in the end."""
    store = await SqliteStore.open(directory, clock=CountingClock())
    for draft in drafts():
        await store.commit(draft.create())
    if together:
        told = await at_once(store, commits)
    else:
        told = [(await asyncio.gather(store.commit(commit), return_exceptions=True))[0] for commit in commits]
    await store.close()
    return [repr(outcome) for outcome in told] + rows(store.path)


async def at_once(store: SqliteStore, commits: Sequence[Commit]) -> list[Any]:
    """Have all of them wait while the writer is busy."""
    free = threading.Event()

    def busy() -> Command[None]:
        assert free.wait(30)
        yield from ()

    held = asyncio.ensure_future(store._write(busy))  # pyright: ignore[reportPrivateUsage]
    waiting = [asyncio.ensure_future(store.commit(commit)) for commit in commits]
    await asyncio.sleep(0)  # each gets as far as the writer
    free.set()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


def rows(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = [
            f"{table}: {row}"
            for table in sorted(set(tables) - {"meta"})
            for row in sorted(map(repr, connection.execute(f"SELECT * FROM {table}")))
        ]
    connection.close()
    return found


@given(attempts)
def test_commits_together_are_as_each_would_be_alone(some: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        alone = asyncio.run(outcomes(Path(one), made(some), together=False))
        assert asyncio.run(outcomes(Path(other), made(some), together=True)) == alone


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits were written together each time."""
    sizes: list[int] = []
    commits = writes.commits

    def counted(some: Sequence[Write], *, listened: bool = True) -> Command[list[int]]:
        sizes.append(len(some))
        return commits(some, listened=listened)

    monkeypatch.setattr(writes, "commits", counted)
    return sizes


async def test_what_waits_is_written_together_in_the_order_in_which_it_came(data_dir: Path, groups: list[int]) -> None:
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    start, there = await store.feed_end(), drafts()
    assert await at_once(store, [draft.create() for draft in there]) == [None] * THERE
    twice = [draft.log(text) for text in ("one", "two") for draft in there]
    assert await at_once(store, twice) == [None] * (2 * THERE)
    assert groups == [THERE, THERE, THERE]
    feed = await store.feed(after=start, limit=99)
    assert [told.entry.session_id for told in feed] == [draft.session.id for draft in there] * 3
    await store.close()
