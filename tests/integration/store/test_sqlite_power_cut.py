"""A power cut at any write or sync: what was answered is there, and nothing is half there (P2)."""

import asyncio
import random
from pathlib import Path

import apsw
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import Commit, NewText
from antiphon.store.sqlite import SqliteStore, writer
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft
from antiphon.testing.power_cut import PowerCut

SESSIONS = 6


class Writing:
    """One session, written until the power goes: the commits that were made, and how many of them were answered."""

    def __init__(self, number: int, choice: random.Random) -> None:
        self.draft = Draft(f"ses_{number}", key=f"k{number}")
        self.choice = choice
        self.commits: list[Commit] = []
        self.answered = 0

    async def go_on(self, store: SqliteStore) -> None:
        try:
            while True:
                self.commits.append(self.next_commit())
                await store.commit(self.commits[-1])
                self.answered += 1
        except StoreUnavailable:
            return

    def next_commit(self) -> Commit:
        if not self.commits:
            return self.draft.create()
        id = f"msg_{self.draft.session.id}_{len(self.commits)}"
        text = self.choice.choice(["", "short", "x" * 5000]) + id
        commit = self.draft.accept(id, text, idempotency_key=id)
        more = [self.draft.log("y" * self.choice.choice([1, 300, 9000])) for _ in range(self.choice.randrange(3))]
        entries = sum((one.entries for one in more), commit.entries)
        texts = (NewText(message_id=id, text=text, idempotency_key=id),)
        session = self.draft.session
        return Commit(session=session, expected=commit.expected, entries=entries, messages=commit.messages, texts=texts)

    async def check(self, store: SqliteStore) -> int:
        """Everything answered is there and whole; the one commit in flight may be there, or not. How much is."""
        session = await store.load(self.draft.session.id)
        states = [None, *[commit.session for commit in self.commits]]
        assert session in states[self.answered :], "an answered commit is gone"
        written = states.index(session)
        entries = [entry for commit in self.commits[:written] for entry in commit.entries]
        assert list(await store.entries(self.draft.session.id, after=0, limit=9999)) == entries
        for count, commit in enumerate(self.commits, 1):
            for text in commit.texts:
                stored = await store.message(text.message_id)
                spent = await store.keyed(self.draft.session.id, text.message_id)
                assert (stored is not None, spent is not None) == (count <= written, count <= written)
                assert stored is None or stored.text == text.text
        return len(entries)


@pytest.mark.parametrize("seed", range(24))
async def test_after_a_power_cut_every_answered_commit_is_there_and_none_by_half(
    data_dir: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(seed)
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", choice.choice([5, 30, 1000]))
    sessions = [Writing(number, choice) for number in range(SESSIONS)]
    start = None
    for _ in range(3):  # cuts on top of what earlier cuts left
        power = PowerCut(choice)
        store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=power.name)
        start = start or await store.feed_end()
        power.cut_after(choice.randrange(400))
        async with asyncio.timeout(20):
            await asyncio.gather(*[one.go_on(store) for one in sessions])
        await store.close()
        power.settle()

        store = await SqliteStore.open(data_dir, clock=CountingClock())
        found = sum([await one.check(store) for one in sessions])
        assert len(await store.feed(after=start, limit=99_999)) == min(found, 99_999)
        await store.close()
        connection = apsw.Connection(str(store.path))
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        connection.close()
        for one in sessions:  # what was in flight and is not there is decided anew
            await take_up(one, data_dir)


async def take_up(one: Writing, data_dir: Path) -> None:
    """Go on from what is stored, as a restarted host does."""
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    session = await store.load(one.draft.session.id)
    one.commits = [commit for commit in one.commits if session and commit.session.sequence <= session.sequence]
    one.answered = len(one.commits)
    one.draft.session = session or Draft(one.draft.session.id, key=one.draft.session.key).session
    await store.close()


async def test_a_disk_that_forgets_what_was_synced_is_caught_by_this_test(data_dir: Path) -> None:
    """The proof that the shim loses what it should: with syncs off, answered commits are gone after a cut."""
    power = PowerCut(random.Random(1))
    store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=power.name)
    await store.commit(Draft("ses_1").create())
    power.ignore_syncs = True
    await store.commit(Draft("ses_2").create())
    power.cut()
    await store.close()
    power.settle(kept=0.0)
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    assert await store.load("ses_1") is not None
    assert await store.load("ses_2") is None
    await store.close()


@pytest.mark.parametrize("operations", range(0, 60, 3))
async def test_a_power_cut_while_a_store_is_made_leaves_one_that_can_be_opened(data_dir: Path, operations: int) -> None:
    power = PowerCut(random.Random(operations))
    power.cut_after(operations)
    try:
        store = await SqliteStore.open(data_dir, clock=CountingClock(), vfs=power.name)
    except StoreUnavailable:
        pass
    else:
        power.cut()
        await store.close()
    power.settle()
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    await store.commit(Draft("ses_1").create())
    assert await store.count() == 1
    await store.close()
