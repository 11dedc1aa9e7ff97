"""A whole store is copied: all that it holds arrives, once, however often the copy is cut short."""

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Turn
from antiphon.host.archive import exported
from antiphon.ports.store import OtherFeed, SessionQuery, StoreDamaged
from antiphon.ports.timetable import Run
from antiphon.store.address import is_postgres
from antiphon.store.copy import CannotCopy, Outcome, copied
from antiphon.store.copy.parts import ENTRY_COLUMNS, FEED_COLUMNS, PARTS
from antiphon.store.postgres import PostgresStore
from antiphon.store.sqlite import SqliteStore
from antiphon.store.sqlite.database import NAME, connect
from antiphon.store.sqlite.driver import execute
from antiphon.system import SystemClock
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.outbox import end, hook
from antiphon.testing.store_contract.suite import pages
from antiphon.testing.store_contract.timetable import plan
from real_postgres import RealPostgres

DIRECTIONS = [
    ("sqlite", "postgresql"),
    ("postgresql", "sqlite"),
    ("sqlite", "sqlite"),
    ("postgresql", "postgresql"),
]
ENDED = 7
"""The session of which a turn and a message have ended."""
Addresses = Callable[[str], Awaitable[str]]
WholeStore = SqliteStore | PostgresStore


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Addresses:
    """Gives the address of a new, empty store of a kind."""
    numbers = iter(range(100))

    async def new(kind: str) -> str:
        if kind == "postgresql":
            server: RealPostgres = request.getfixturevalue("real_postgres")
            return await asyncio.to_thread(server.new_database)
        return str(tmp_path / f"data-{next(numbers)}")

    return new


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[WholeStore]:
    """A store as a host opens it."""
    if is_postgres(address):
        store: WholeStore = await PostgresStore.open(address, clock=SystemClock(), connections=4)
    else:
        store = await SqliteStore.open(Path(address), clock=SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def fill(store: WholeStore, sessions: int = 8) -> None:
    """Write some of everything, the sessions' commits in turns."""
    await store.outbox.add(hook("hook_off", events=("session.deleted",), disabled_at=5), limit=9, rewrite_secret=False)
    await store.outbox.add(hook("hook_all", description="a\nb"), limit=9, rewrite_secret=False)
    drafts = [Draft(f"ses_{number}", key=f"chat:{number}", title="T\u00eftle") for number in range(sessions)]
    for draft in drafts:
        await store.commit(draft.create())
    turns: list[Turn] = []
    for step in range(3):
        for number, draft in enumerate(drafts):
            id = f"msg_{number}_{step}"
            message = draft.message(id)
            about = {"idempotency_key": f"key {step}", "digest": f"digest {step}"}
            await store.commit(draft.accept(id, f"text\0 {id} \u2028 \U0001f600", files=({"path": "/x"},), **about))
            turns.append(draft.turn(f"turn_{number}_{step}", message_ids=(id,)))
            await store.commit(draft.start(turns[-1]))
            await store.commit(draft.say(turns[-1], "Hel", "lo", "x" * 2000))
            await store.commit(draft.end(turns[-1]))
            await store.commit(end(draft, message, turn_id=turns[-1].id))
    await store.commit(drafts[0].ask("perm_1", at=5000))
    await store.commit(drafts[1].ask("perm_2", at=6000, state="allowed"))
    await store.commit(drafts[2].delete())
    for number in (0, 1):
        assert await store.claim(f"ses_{number}", "host_1")
    for target in (await store.outbox.due(9_000)).targets:
        taken = await store.outbox.take(target, host="host_1", now=9_000, until=9_999_999_999_999, limit=5)
        assert taken
    last = Run(due_at=1, at=2, outcome="sent", message_id="msg_0_0")
    for schedule in (plan("sch_1", wakes_at=77, last=last), plan("sch_2", session="chat:1", version=4)):
        assert await store.timetable.add(schedule, limit=9)


async def everything(store: WholeStore) -> dict[str, Any]:
    """All that a store holds, as hosts read it, without places in lists."""
    found: dict[str, Any] = {"epoch": store.epoch, "exports": {}, "turns": {}, "lines": {}, "keys": {}, "replies": {}}
    for session in await pages(lambda cursor: store.sessions(SessionQuery(), cursor=cursor, limit=3)):
        id = session.id
        assert await store.load(id) == session
        assert await store.find(session.key) == id
        found["exports"][id] = await exported(store, session)
        turns = await pages(lambda cursor, ref=id: store.turns(ref, generation=None, cursor=cursor, limit=2))
        found["turns"][id] = turns
        found["replies"][id] = [await store.reply(turn.id) for turn in turns]
        found["lines"][id] = await pages(
            lambda cursor, ref=id: store.transcript(ref, generation=1, cursor=cursor, limit=2)
        )
        found["keys"][id] = [await store.keyed(id, f"key {step}") for step in range(4)]
    every = {"cursor": None, "limit": 99}
    found["permissions"] = (await store.permissions(state=None, session_id=None, **every)).items
    found["webhooks"] = (await store.outbox.webhooks(message_id=None, **every)).items
    found["deliveries"] = (await store.outbox.deliveries(**every)).items
    found["due"] = (await store.outbox.due(9_000)).targets
    found["schedules"] = (await store.timetable.schedules(session=None, **every)).items
    found["unsettled"] = list(await store.unsettled())
    return found


async def feed(store: WholeStore, start: str) -> list[tuple[str, int]]:
    """The feed after a position: whose entries, in its order."""
    found: list[tuple[str, int]] = []
    while page := await store.feed(after=start, limit=50):
        found += [(place.entry.session_id, place.entry.sequence) for place in page]
        start = page[-1].position
    return found


async def before_all(store: WholeStore) -> str:
    """The position before the feed's first entry."""
    tag, dash, _ = (await store.feed_end()).rpartition("-")
    return f"{tag}{dash}" + ("0.0" if isinstance(store, SqliteStore) else "0.0.0")


async def copy(source: str, target: str, told: Callable[[str], None] = lambda _line: None) -> Outcome:
    return await copied(source, target, told)


@pytest.mark.parametrize(("of", "to"), DIRECTIONS)
async def test_a_copy_holds_all_that_the_source_holds_and_a_host_can_go_on_with_it(
    address: Addresses, of: str, to: str
) -> None:
    source, target = await address(of), await address(to)
    async with opened(source) as store:
        await fill(store)
        old, order = await everything(store), await feed(store, await before_all(store))
        assert {delivery.state for delivery in old["deliveries"]} == {"pending"}

    outcome = await copy(source, target)

    assert (outcome.damaged, outcome.differences, outcome.resumed) == (0, (), False)
    assert outcome.rows["sessions"] == 7, "what the deleted one left stays behind"
    assert outcome.rows["entries"] == sum(len(export["entries"]) for export in old["exports"].values())
    async with opened(target) as store:
        new = await everything(store)
        assert new.pop("due") == ("https://example.com:443",), "no claim of a host that is gone is left"
        old.pop("due")
        assert new == old
        assert await feed(store, await before_all(store)) == order
        fence = await store.claim("ses_0", "host_2")
        assert fence is not None
        assert fence > 2, "no older claim is greater"
        await store.commit(Draft("ses_new").create())
        draft = Draft("ses_0")
        draft.session = await loaded(store, "ses_0")
        await store.commit(draft.log(fence=fence))
        assert await feed(store, await before_all(store)) == [*order, ("ses_new", 1), ("ses_0", draft.session.sequence)]
        await store.outbox.add(hook("hook_new"), limit=9, rewrite_secret=False)
        assert await store.timetable.add(plan("sch_new"), limit=9)


async def loaded(store: WholeStore, session_id: str) -> Any:
    session = await store.load(session_id)
    assert session is not None
    return session


async def test_there_and_back_again_every_session_exports_as_it_did(address: Addresses) -> None:
    places = [await address(kind) for kind in ("sqlite", "postgresql", "postgresql", "sqlite")]
    async with opened(places[0]) as store:
        await fill(store)
        old = await everything(store)
    outcomes = [await copy(of, to) for of, to in itertools.pairwise(places)]
    async with opened(places[-1]) as store:
        new = await everything(store)
    assert new["exports"] == old["exports"]
    assert {outcome.epoch for outcome in outcomes} == {old["epoch"]}
    assert len({json.dumps(outcome.digests) for outcome in outcomes}) == 1, "the digests don't depend on the engine"


@pytest.mark.parametrize(("of", "to"), DIRECTIONS)
async def test_a_position_of_the_old_feed_is_known_for_one_in_the_new_store(
    address: Addresses, of: str, to: str
) -> None:
    places = [await address(of), await address(to), await address(of)]
    positions: list[str] = []
    async with opened(places[0]) as store:
        await fill(store, 3)
        positions += [(await store.feed(after=await before_all(store), limit=5))[-1].position, await store.feed_end()]
    for source, target in itertools.pairwise(places):
        await copy(source, target)
        async with opened(target) as store:
            for position in positions:
                with pytest.raises(OtherFeed):
                    await store.feed(after=position, limit=5)
            own = await store.feed_end()
            assert list(await store.feed(after=own, limit=5)) == []
            positions.append(own)


COPY_SLOWLY = """
import asyncio, sys
from antiphon.store.copy import copied, copying
copying.BATCH_ROWS, copying.TELL_S = 3, 0.0
print("began", flush=True)
outcome = asyncio.run(copied(sys.argv[1], sys.argv[2], lambda line: print(line, flush=True)))
print("done", outcome.resumed, outcome.damaged, len(outcome.differences), flush=True)
"""


def cut_short(source: str, target: str, chance: random.Random) -> str | None:
    """Begin or go on with a copy in a process that is killed somewhere; its last line if it came to its end."""
    command = [sys.executable, "-c", COPY_SLOWLY, source, target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = 0
        last, wanted = "", chance.randrange(2, 14)
        while lines < wanted and (line := process.stdout.readline()):
            lines, last = lines + 1, line
        time.sleep(chance.random() * 0.004)
        process.kill()
        rest = process.stdout.read()
        return next((line for line in [last, *rest.splitlines()] if line.startswith("done")), None)


@pytest.mark.parametrize(("of", "to"), DIRECTIONS[:2])
async def test_a_copy_that_is_killed_again_and_again_goes_on_and_copies_nothing_twice(
    address: Addresses, of: str, to: str
) -> None:
    source, target = await address(of), await address(to)
    async with opened(source) as store:
        await fill(store)
        old = await everything(store)
    chance, kills, ended = random.Random(7), 0, None
    while ended is None and kills < 200:
        ended = cut_short(source, target, chance)
        if ended is None:
            kills += 1
            if kills == 5:
                with pytest.raises(StoreDamaged, match="not finished"):
                    async with opened(target):
                        pass
    assert kills >= 10
    outcome = await copy(source, target)
    assert outcome.already
    async with opened(target) as store:
        assert (await everything(store))["exports"] == old["exports"]


async def test_a_copy_of_a_source_that_has_changed_meanwhile_begins_anew(address: Addresses) -> None:
    source, target = await address("sqlite"), await address("postgresql")
    async with opened(source) as store:
        await fill(store)
    assert cut_short(source, target, random.Random(1)) is None
    async with opened(source) as store:
        await store.commit(Draft("ses_late", key="late").create())
        old = await everything(store)
    lines: list[str] = []

    outcome = await copy(source, target, lines.append)

    assert "the source has changed since the copy was begun: beginning anew" in lines
    assert not outcome.resumed
    async with opened(target) as store:
        assert (await everything(store))["exports"] == old["exports"]


@pytest.mark.parametrize(("of", "to"), DIRECTIONS[:2])
async def test_rows_that_cannot_be_read_are_told_and_the_rest_is_copied(address: Addresses, of: str, to: str) -> None:
    source, target = await address(of), await address(to)
    async with opened(source) as store:
        await fill(store)
        old = await everything(store)
    for sql in (
        "UPDATE sessions SET state = {0} WHERE id = 'ses_3'",
        "UPDATE entries SET data = {0} WHERE sequence = 4 AND session = " + NUMBER,
        "UPDATE messages SET record = {0} WHERE id = 'msg_5_1'",
    ):
        await spoil(source, sql)
    lines: list[str] = []

    outcome = await copy(source, target, lines.append)

    assert outcome.damaged == 3
    assert set(outcome.damage) <= set(lines)
    for words in ("sessions ses_3", "entries 4 of session ses_4", "messages msg_5_1 of session ses_5"):
        assert any(line.startswith(words) for line in outcome.damage), outcome.damage
    async with opened(target) as store:
        with pytest.raises(StoreDamaged):
            await store.load("ses_3")
        for id in ("ses_0", "ses_1", "ses_5", "ses_6", "ses_7"):
            assert await exported(store, await loaded(store, id)) == old["exports"][id]
        assert [entry.sequence for entry in await store.entries("ses_3", after=0, limit=9)] == list(range(1, 10))


NUMBER = "(SELECT number FROM sessions WHERE id = 'ses_4')"


async def spoil(address: str, sql: str) -> None:
    """Run a statement with a value that nobody can read in the place of `{0}`."""
    if is_postgres(address):
        connection: Any = await asyncpg.connect(address)
        await connection.execute("SET search_path TO antiphon")
        await connection.execute(sql.format("'\\x00'::bytea"))
        await connection.close()
    else:
        own = connect(Path(address) / NAME, None, writes=True)
        execute(own, sql.format("x'00'"))
        own.close()


async def test_what_postgresql_cannot_hold_is_left_out_and_told(address: Addresses) -> None:
    source, target = await address("sqlite"), await address("postgresql")
    async with opened(source) as store:
        await fill(store, 3)
        await store.outbox.add(hook("hook_nul", description="a\0b"), limit=9, rewrite_secret=False)
    outcome = await copy(source, target)
    assert outcome.damaged == 1
    assert outcome.damage[0].startswith("webhooks hook_nul: holds a NUL")
    assert (outcome.rows["webhooks"], outcome.differences) == (2, ())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_target_that_holds_something_else_is_refused_and_left_as_it_is(address: Addresses, kind: str) -> None:
    source, other, target, begun = (
        await address("sqlite"),
        await address("sqlite"),
        await address(kind),
        await address(kind),
    )
    for place in (source, other):
        async with opened(place) as store:
            await fill(store, 3)
    async with opened(target) as store:
        await store.commit(Draft("ses_own").create())
        old = store.epoch
    with pytest.raises(CannotCopy, match="holds a store already"):
        await copy(source, target)
    async with opened(target) as store:
        assert (store.epoch, await store.count()) == (old, 1)
    assert cut_short(other, begun, random.Random(1)) is None
    with pytest.raises(CannotCopy, match="unfinished copy of another store"):
        await copy(source, begun)
    assert (await copy(other, begun)).resumed


async def test_a_finished_copy_is_compared_again_and_refused_once_it_is_used(address: Addresses) -> None:
    source, target = await address("sqlite"), await address("postgresql")
    async with opened(source) as store:
        await fill(store, 3)
    first, second = await copy(source, target), await copy(source, target)
    assert (first.already, second.already) == (False, True)
    assert first.digests == second.digests
    async with opened(target) as store:
        await store.commit(Draft("ses_own").create())
    with pytest.raises(CannotCopy, match="has been used since"):
        await copy(source, target)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_store_that_a_host_has_open_is_neither_copied_nor_written(
    address: Addresses, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.copy.postgres_place.LATE_S", 0.3)
    used, quiet, empty = await address(kind), await address("sqlite"), await address("sqlite")
    async with opened(quiet) as store:
        await fill(store, 3)
    async with opened(used):
        with pytest.raises(StoreUnavailable, match=r"in use by another host|Hosts are connected"):
            await copy(used, empty)
        with pytest.raises(StoreUnavailable, match=r"in use by another host|Hosts are connected"):
            await copy(quiet, used)


async def test_no_host_opens_a_database_while_it_is_copied(address: Addresses) -> None:
    source, target = await address("postgresql"), await address("sqlite")
    async with opened(source) as store:
        await fill(store, 3)
    command = [sys.executable, "-c", COPY_SLOWLY, source, target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        assert process.stdout
        try:
            while not process.stdout.readline().startswith("sessions"):
                assert process.poll() is None
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(StoreUnavailable, match="being copied"):
                async with opened(source):
                    pass
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.read().splitlines()[-1] == "done False 0 0"


async def test_there_must_be_something_to_copy(address: Addresses) -> None:
    for kind in ("sqlite", "postgresql"):
        with pytest.raises(CannotCopy, match="no store"):
            await copy(await address(kind), await address("sqlite"))
    with pytest.raises(CannotCopy, match="postgresql:// address"):
        await copy("mysql://user:secret@host/db", await address("sqlite"))


LEFT_BEHIND = {
    "sessions": {"owner", "deleted_at"},  # claims are of hosts that are gone; deleted sessions are not copied
    "deliveries": {"claimed_by"},
    "feed": {"xid"},  # PostgreSQL's order, which the copy makes anew
    "hosts": None,
    "drained": None,
    "fences": None,  # its number goes on
    "meta": None,  # what a store says of itself
    "sqlite_sequence": None,
}
"""Columns that a copy leaves to the target; None for a whole table."""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_every_column_of_the_schema_is_copied_or_left_behind_on_purpose(address: Addresses, kind: str) -> None:
    place = await address(kind)
    async with opened(place):
        pass
    copied_columns = {part.name: set(part.columns) for part in PARTS}
    copied_columns |= {"entries": set(ENTRY_COLUMNS), "feed": set(FEED_COLUMNS)}
    found = await columns(place)
    assert copied_columns.keys() <= found.keys()
    for table, names in found.items():
        left = LEFT_BEHIND.get(table, set())
        assert left is None or names <= copied_columns[table] | left, table


async def columns(address: str) -> dict[str, set[str]]:
    """The columns of each table of a store."""
    found: dict[str, set[str]] = {}
    if is_postgres(address):
        connection: Any = await asyncpg.connect(address)
        rows = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'antiphon'"
        )
        await connection.close()
    else:
        own = connect(Path(address) / NAME, None, writes=False)
        tables = "sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
        rows = execute(own, f"SELECT m.name, c.name FROM {tables}")
        own.close()
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found
