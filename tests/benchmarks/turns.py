"""Durable turns a second: a host in process with the scripted agent, against a bare loop that commits the same rows."""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import uvloop

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.session import Message, Session, Turn
from antiphon.core.step import Step
from antiphon.host.commits import new_texts
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.ports.store import Commit
from antiphon.store.sql import writes
from antiphon.store.sql.statements import Row
from antiphon.store.sqlite import SqliteStore
from antiphon.store.sqlite.database import connect, prepare
from antiphon.store.sqlite.driver import run, translated
from antiphon.system import SystemClock, SystemIds, tune_for_serving
from antiphon.testing.scripted_agent import Say, ScriptedAgent
from benchmarks.figures import Figure

PIECES = 20
SESSIONS = 32
GROUP = 32
ROUNDS = 3


def scripted() -> ScriptedAgent:
    """An agent that answers every message with twenty pieces of text."""
    return ScriptedAgent(lambda _text: [Say(f"piece {number} of it ") for number in range(PIECES)])


async def host_rate(root: Path, *, sessions: int, turns: int) -> float:
    """Turns a second of a host in process, each message sent when the one before it was answered."""
    store = await SqliteStore.open(root, clock=SystemClock())
    host = Host(
        store=store,
        agents={"scripted": scripted()},
        clock=SystemClock(),
        ids=SystemIds(),
        settings=HostSettings(max_agents=sessions),
        workspace=lambda _id: str(root),
    )
    await host.start()
    tune_for_serving()  # as `serve` does
    keys = [f"bench:{number}" for number in range(sessions)]
    await busy(host, keys, turns=1)
    began = time.perf_counter()
    await busy(host, keys, turns=turns)
    took = time.perf_counter() - began
    await host.stop()
    await store.close()
    return sessions * turns / took


async def busy(host: Host, keys: Sequence[str], *, turns: int) -> None:
    """Have each session answer so many messages, each sent when the one before it was answered."""

    async def one(key: str) -> None:
        for _ in range(turns):
            create = NewSession(agent="scripted", key=key)
            receipt = await host.send(key, NewMessage(text="a message of some length"), create=create)
            end = await host.wait_message(receipt.id, 60)
            assert end.state == "answered", end

    await asyncio.gather(*[one(key) for key in keys])


def bare_rate(root: Path, *, turns: int) -> float:
    """Turns a second of a loop that only executes the statements of the same rows, 32 turns a transaction."""
    connection = _prepared(root)
    lives = [Life(number) for number in range(1, SESSIONS + 1)]
    for life in lives:
        run(connection, writes.commit(writes.prepare(life.born(), now=0)))
    groups = [[_statements(life.number, commit) for life in lives for commit in life.turn()] for _ in range(turns)]
    began = time.perf_counter()
    for group in groups:
        connection.execute("BEGIN IMMEDIATE")
        for statements in group:
            _execute(connection, statements)
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    connection.close()
    return turns * GROUP / took


Statements = list[tuple[str, tuple[Any, ...]]]


def _prepared(root: Path) -> apsw.Connection:
    """A connection to a new store, as the store's own writer opens it."""
    root.mkdir(parents=True)
    path, _ = prepare(root, None)
    return connect(path, None, writes=True)


class Life:
    """A session whose commits are made by the core alone."""

    def __init__(self, number: int, name: str = "bench") -> None:
        self._ids, self._session = SystemIds(), None
        self._key = f"{name}:{number}"
        self.number = number
        """That of its row: rows are numbered from 1."""
        self._id = self._ids.new("ses")

    def _step(self, *commands: c.Command) -> Commit:
        step = Step(self._session, Given(now=1_700_000_000_000), session_id=self._id)
        for command in commands:
            step.take(command)
        step.seal()
        before, self._session = self._session, step.session
        assert isinstance(step.session, Session)
        records = tuple(step.records.values())
        return Commit(
            session=step.session,
            expected=before.sequence if before else 0,
            entries=tuple(step.entries),
            messages=tuple(record for record in records if isinstance(record, Message)),
            turns=tuple(record for record in records if isinstance(record, Turn)),
            texts=new_texts(step.events),
        )

    def born(self) -> Commit:
        return self._step(c.CreateSession(session_id=self._id, agent="scripted", key=self._key))

    def turn(self) -> Iterator[Commit]:
        """A turn as a host commits it: the message with its turn's start, then what was said with its end."""
        turn_id = self._ids.new("turn")
        sent = c.SendMessage(message_id=self._ids.new("msg"), text="a message of some length")
        yield self._step(sent, c.StartTurn(turn_id=turn_id))
        said = [
            c.AgentSaid(turn_id=turn_id, said=e.TurnText(turn_id=turn_id, text=f"piece {number} of it "))
            for number in range(PIECES)
        ]
        yield self._step(*said, c.AgentEnded(turn_id=turn_id))


def _statements(number: int, commit: Commit) -> Statements:
    """The statements of a commit of the session with that number of its row."""
    command = writes.commit(writes.prepare(commit, now=0))
    found: Statements = []
    sql, args = next(command)
    try:
        while True:
            found.append((translated(sql), args))
            rows: list[Row] = [(0,)] if "count(*)" in sql else [(number, 0)[: 2 if "feed" in sql else 1]]
            sql, args = command.send(rows)
    except StopIteration:
        return found


def _execute(connection: apsw.Connection, statements: Statements) -> None:
    for sql, args in statements:
        connection.execute(sql, args).fetchall()


def alternately(floor: Callable[[Path], float], value: Callable[[Path], float], root: Path) -> tuple[float, float]:
    """The medians of some measurements of each, taken in turns: a shared machine changes its speed by the minute."""
    pairs = [(floor(root / f"floor-{number}"), value(root / f"value-{number}")) for number in range(ROUNDS)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def durable_turns(root: Path, *, quick: bool) -> Figure:
    """Turns a second with 32 sessions."""
    turns = 20 if quick else 60
    floor, value = alternately(
        lambda place: bare_rate(place, turns=turns),
        lambda place: uvloop.run(host_rate(place, sessions=SESSIONS, turns=turns)),
        root,
    )
    what = "durable turns, 32 sessions, 20 pieces each, against a bare loop committing the same rows"
    return Figure("durable_turns", what, value, floor, 0.2, "higher", "turns/s")


def many_sessions(root: Path, *, quick: bool) -> Figure:
    """Turns a second with a thousand sessions, each with one waiting message, against 32 sessions."""
    few, many = alternately(
        lambda place: uvloop.run(host_rate(place, sessions=SESSIONS, turns=20 if quick else 40)),
        lambda place: uvloop.run(_thousand(place)),
        root,
    )
    what = "1,000 sessions with one waiting message each, against 32 sessions"
    return Figure("thousand_sessions", what, many, few, 0.8, "higher", "turns/s")


async def _thousand(root: Path) -> float:
    """Turns a second when a thousand sessions each have a message waiting; like the 32, each has had one before."""
    store = await SqliteStore.open(root, clock=SystemClock())
    host = Host(
        store=store,
        agents={"scripted": scripted()},
        clock=SystemClock(),
        ids=SystemIds(),
        settings=HostSettings(max_agents=1000),
        workspace=lambda _id: str(root),
    )
    await host.start()
    tune_for_serving()
    keys = [f"bench:{number}" for number in range(1000)]
    new = [NewSession(agent="scripted", key=key) for key in keys]
    await asyncio.gather(*[host.create_session(one, return_existing=False) for one in new])

    async def one_each() -> None:
        receipts = await asyncio.gather(*[host.send(key, NewMessage(text="a message of some length")) for key in keys])
        ends = await asyncio.gather(*[host.wait_message(receipt.id, 120) for receipt in receipts])
        assert {end.state for end in ends} == {"answered"}

    await one_each()
    began = time.perf_counter()
    await one_each()
    took = time.perf_counter() - began
    await host.stop()
    await store.close()
    return 1000 / took
