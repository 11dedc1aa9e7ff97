"""Whole lives of sessions, written to every store: each holds what the plain model and all others hold."""

import asyncio
import itertools
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.core.evolve import Record, fold
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.host.commits import new_texts
from antiphon.ports.store import Commit, SequenceMoved, SessionQuery, Store, StoredMessage
from antiphon.store.memory import MemoryStore
from antiphon.store.postgres import PostgresStore
from antiphon.store.sqlite import SqliteStore
from antiphon.testing.clocks import CountingClock
from models.life import AGENT, CLIENTS, OWNER, SESSION, Life
from real_postgres import RealPostgres, real_postgres

ROUNDS = 60 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 10
LIVES = 6
COMMANDS = 80
ALL = SessionQuery()
ENGINES = ("memory", "sqlite", "postgres")
_schemas = itertools.count(1)

__all__ = ["real_postgres"]


class Written(Life):
    """A life whose steps become commits.

    Attributes:
        id: The id its session has in the stores; every other id begins with it too.
        commits: What a host would commit, one after another.
    """

    def __init__(self, number: int, fate: random.Random) -> None:
        self.id = f"ses_{number}"
        self.commits: list[Commit] = []
        super().__init__(fate.randrange, lambda _: None)

    def new(self, kind: str) -> str:
        return f"{super().new(kind)}_{self.id}"

    def own(self, value: Any) -> Any:
        """A value with the session's own id and key for those that all lives have."""
        wire = msgspec.json.encode(value).replace(f'"{SESSION}"'.encode(), f'"{self.id}"'.encode())
        for name in ("key", "session_key"):
            wire = wire.replace(f'"{name}":"k"'.encode(), f'"{name}":"k:{self.id}"'.encode())
        return msgspec.json.decode(wire, type=type(value))

    def commit(self) -> None:
        step = self.step
        super().commit()
        if step is None or not step.entries or step.session is None:
            return
        records = tuple(self.own(record) for record in step.records.values())
        self.commits.append(
            Commit(
                session=self.own(step.session),
                expected=step.before.sequence if step.before else 0,
                entries=tuple(self.own(entry) for entry in step.entries),
                messages=tuple(record for record in records if isinstance(record, Message)),
                turns=tuple(record for record in records if isinstance(record, Turn)),
                permissions=tuple(record for record in records if isinstance(record, Permission)),
                texts=new_texts(step.events),
            )
        )


def lived(seed: int) -> list[Written]:
    """Lives as fate wills it."""
    fate = random.Random(seed)
    lives = [Written(number, fate) for number in range(LIVES)]
    for life in lives:
        for _ in range(fate.randrange(COMMANDS)):
            fate.choice(fate.choice((CLIENTS, OWNER, AGENT)))(life)
        life.end()
    return lives


@asynccontextmanager
async def opened(engine: str, data_dir: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Store]:
    if engine == "memory":
        store: Store = MemoryStore()
    elif engine == "sqlite":
        store = await SqliteStore.open(data_dir, clock=CountingClock())
    else:
        server: RealPostgres = request.getfixturevalue("real_postgres")
        name = f"lives_{next(_schemas)}"
        store = await PostgresStore.open(server.url, clock=CountingClock(), schema_name=name, connections=LIVES)
    try:
        yield store
    finally:
        await store.close()


async def write(store: Store, life: Written) -> None:
    """Every commit, some of them twice, as after an answer that was lost: the second is refused."""
    for number, commit in enumerate(life.commits):
        await store.commit(commit)
        if number % 3 == 0:
            with pytest.raises(SequenceMoved):
                await store.commit(commit)


async def holds(store: Store, life: Written) -> None:
    """The store holds what this life left."""
    session = life.own(life.session)
    if session.lifecycle == "deleted":
        assert await store.load(life.id) is None
        assert list(await store.entries(life.id, after=0, limit=9999)) == []
        return
    entries = list(await store.entries(life.id, after=0, limit=9999))
    assert await store.load(life.id) == session == fold(None, entries)
    assert entries == [life.own(entry) for entry in life.entries]
    for record in life.records.values():
        assert await stored(store, record.id, type(record)) == life.own(record)
    for key, (message_id, digest) in life.keyed.items():
        keyed = await store.keyed(life.id, key)
        assert keyed is not None
        assert (keyed.message_id, keyed.digest) == (message_id, digest)
    for id, text in life.journal.replies.items():
        assert await store.turn(id) is not None
        assert (await store.reply(id) or "") == text


async def stored(store: Store, id: str, kind: type[Record]) -> Record | None:
    if kind is Message:
        found = await store.message(id)
        return found.message if found else None
    return await (store.turn(id) if kind is Turn else store.permission(id))


async def everything(store: Store, lives: list[Written]) -> dict[str, Any]:
    """All that the lists tell."""
    shown: dict[str, Any] = {
        "sessions": await store.sessions(ALL, cursor=None, limit=999),
        "count": await store.count(),
    }
    shown["unsettled"] = sorted(await store.unsettled())
    for status in ("idle", "running", "asking", "starting", "stopped", "errored", "dormant"):
        shown[status] = await store.sessions(SessionQuery(statuses=(status,)), cursor=None, limit=999)
    shown["permissions"] = await store.permissions(state=None, session_id=None, cursor=None, limit=999)
    shown["pending"] = await store.permissions(state="pending", session_id=None, cursor=None, limit=999)
    for life in lives:
        shown[life.id] = (
            await store.turns(life.id, generation=None, cursor=None, limit=999),
            [await store.transcript(life.id, generation=number, cursor=None, limit=999) for number in range(1, 5)],
            list(await store.tail(life.id, before=None, limit=7)),
        )
    return shown


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_store_holds_what_the_model_holds(
    engine: str, seed: int, data_dir: Path, request: pytest.FixtureRequest
) -> None:
    lives = lived(seed)
    async with opened(engine, data_dir, request) as store:
        await asyncio.gather(*[write(store, life) for life in lives])
        for life in lives:
            await holds(store, life)


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_all_stores_tell_the_same(seed: int, data_dir: Path, request: pytest.FixtureRequest) -> None:
    lives = lived(seed + 1000)
    told: list[dict[str, Any]] = []
    for engine in ENGINES:
        async with opened(engine, data_dir, request) as store:
            await asyncio.gather(*[write(store, life) for life in lives])
            before = await everything(store, lives)
            async with asyncio.timeout(10):
                while await store.purge(50):
                    pass
            assert await everything(store, lives) == before, "a purge takes nothing that can be seen"
            told.append(before)
    assert told[0] == told[1] == told[2]
    assert any(isinstance(item, Session) for item in told[0]["sessions"].items)
    transcripts = [page for life in lives for page in told[0][life.id][1]]
    assert any(isinstance(item, StoredMessage) and item.text for page in transcripts for item in page.items)
