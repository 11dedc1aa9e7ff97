"""What grows with the store and what must not: start, memory, the list's first page, waking a session."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import uvloop

from antiphon.client import Client
from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.session import Message, Session, Turn
from antiphon.core.step import Step
from antiphon.host.commits import new_texts
from antiphon.host.host import Host
from antiphon.host.service import NewMessage
from antiphon.ports.store import Commit
from antiphon.store.sqlite import SqliteStore
from antiphon.system import SystemClock, SystemIds
from benchmarks.door import served_host
from benchmarks.figures import Figure
from benchmarks.turns import scripted

MIB = 1024 * 1024
MEMORY_BOUND_MB = 20.0


def start_and_list(root: Path, *, quick: bool) -> list[Figure]:
    """Start, memory and the first page with 10 and with 100,000 sessions."""
    sizes = {"few": 10, "many": 100_000}
    for name, size in sizes.items():
        uvloop.run(_fill(root / name, size))
    rounds = 3 if quick else 7
    took: dict[str, list[float]] = {name: [] for name in sizes}
    memory: dict[str, list[float]] = {name: [] for name in sizes}
    page: dict[str, list[float]] = {name: [] for name in sizes}
    for _ in range(rounds):
        for name in sizes:
            with served_host(root / name) as (ready, pid, seconds), Client(ready["url"], ready["token"]) as client:
                took[name].append(seconds)
                memory[name].append(psutil.Process(pid).memory_info().rss / MIB)
                page[name].append(min(_first_page_ms(client) for _ in range(10)))
    few_mb, many_mb = min(memory["few"]), min(memory["many"])
    return [
        Figure("start_100k", "start to ready with 100,000 sessions, against 10",
               min(took["many"]), min(took["few"]), 1.3, "lower", "s"),
        Figure("memory_100k", "memory after start with 100,000 sessions, against 10 (within 20 MB)",
               many_mb, few_mb, (few_mb + MEMORY_BOUND_MB) / few_mb, "lower", "MB"),
        Figure("list_100k", "first page of the list with 100,000 sessions, against 10",
               min(page["many"]), min(page["few"]), 1.5, "lower", "ms"),
    ]  # fmt: skip


def _first_page_ms(client: Client) -> float:
    """How long the first ten sessions take: as many as both stores have."""
    began = time.perf_counter()
    listed = client.sessions(limit=10)
    next(iter(listed))
    return 1000 * (time.perf_counter() - began)


async def _fill(root: Path, count: int) -> None:
    store, ids = await SqliteStore.open(root, clock=SystemClock()), SystemIds()
    for start in range(0, count, 500):
        group = [_born(ids.new("ses"), start + n) for n in range(min(500, count - start))]
        await asyncio.gather(*[store.commit(commit) for commit in group])
    await store.close()


def _born(session_id: str, number: int) -> Commit:
    step = Step(None, Given(now=1_700_000_000_000 + number), session_id=session_id)
    step.take(c.CreateSession(session_id=session_id, agent="echo", key=f"bench:{number}"))
    step.seal()
    assert isinstance(step.session, Session)
    return Commit(session=step.session, expected=0, entries=tuple(step.entries))


def waking(root: Path, *, quick: bool) -> Figure:
    """A first message to a session with a journal of 100,000 events, against one with 100."""
    value, floor = uvloop.run(_waking(root, 5 if quick else 15))
    what = "waking a session with a journal of 100,000 events, against one with 100"
    return Figure("waking_100k_events", what, value, floor, 2.0, "lower", "ms")


async def _waking(root: Path, rounds: int) -> tuple[float, float]:
    store = await SqliteStore.open(root, clock=SystemClock())
    long = await _lived(store, 100_000)
    short = await _lived(store, 100)
    times: dict[str, list[float]] = {long: [], short: []}
    for _ in range(rounds):
        for session_id in (long, short):
            host = Host(
                store=store,
                agents={"scripted": scripted()},
                clock=SystemClock(),
                ids=SystemIds(),
                workspace=lambda _id: str(root),
            )
            await host.start()
            began = time.perf_counter()
            receipt = await host.send(session_id, NewMessage(text="wake up"))
            await host.wait_message(receipt.id, 60)
            times[session_id].append(1000 * (time.perf_counter() - began))
            await host.stop()
    await store.close()
    return min(times[long]), min(times[short])


async def _lived(store: SqliteStore, events: int) -> str:
    """A session in the store whose journal has about so many events; its id."""
    ids = SystemIds()
    session_id, session = ids.new("ses"), None
    for commands in _life(session_id, ids, events):
        step = Step(session, Given(now=1_700_000_000_000), session_id=session_id)
        for command in commands:
            step.take(command)
        step.seal()
        assert isinstance(step.session, Session)
        records = tuple(step.records.values())
        await store.commit(
            Commit(
                session=step.session,
                expected=session.sequence if session else 0,
                entries=tuple(step.entries),
                messages=tuple(record for record in records if isinstance(record, Message)),
                turns=tuple(record for record in records if isinstance(record, Turn)),
                texts=new_texts(step.events),
            )
        )
        session = step.session
    return session_id


def _life(session_id: str, ids: SystemIds, events: int) -> Iterator[list[c.Command]]:
    yield [c.CreateSession(session_id=session_id, agent="scripted")]
    for _ in range(max(1, events // 1000)):
        turn_id = ids.new("turn")
        pieces = min(events, 1000) - 10
        said = [c.AgentSaid(turn_id=turn_id, said=e.TurnText(turn_id=turn_id, text="piece "))] * pieces
        yield [c.SendMessage(message_id=ids.new("msg"), text="say a lot"), c.StartTurn(turn_id=turn_id)]
        yield [*said, c.AgentEnded(turn_id=turn_id)]
