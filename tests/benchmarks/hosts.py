"""Several hosts over one PostgreSQL: turns a second, what telling each other costs, the way through another door."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from antiphon.testing.postgres_server import PostgresServer, Programs
from benchmarks.door import milliseconds, served_host, times
from benchmarks.figures import Figure

KEY = "bench"
MOST_HOSTS = 3
_count = itertools.count()
LIKE_REAL = {"fsync": "on", "autovacuum": "on", "max_connections": "120"}


def several_hosts(root: Path, *, quick: bool) -> list[Figure]:
    """Turns a second with one, two and three hosts, and what one host would do that tells the others nothing."""
    turns, numbers, tries = (5, (1, MOST_HOSTS), 1) if quick else (40, range(1, MOST_HOSTS + 1), 2)
    figures: list[Figure] = []
    with _database() as url:
        for hosts in numbers:
            floor = _rate(url, hosts, turns, "bare")
            value = _rate(url, hosts, turns, "host")
            number = ("one host", "two hosts", "three hosts")[hosts - 1]
            what = (
                f"durable turns on PostgreSQL, {number} with 32 sessions each, against the bare statements of the rows"
            )
            figures.append(Figure(f"postgres_turns_{hosts}", what, value, floor, 0.4, "higher", "turns/s"))
        silent, telling = (max(_rate(url, 1, 2 * turns, kind) for _ in range(tries)) for kind in ("silent", "host"))
    what = "durable turns on PostgreSQL, one host, against one that notifies nobody"
    return [*figures, Figure("postgres_notify", what, telling, silent, 0.8, "higher", "turns/s")]


def _rate(url: str, hosts: int, turns: int, kind: str) -> float:
    """Turns a second of so many processes together, in sessions of their own."""
    command = [sys.executable, "-m", "benchmarks.member", kind, url]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with contextlib.ExitStack() as stack:
        members = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, f"{kind}-{number}-of-{hosts}-{next(_count)}", str(turns)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
            for number in range(1, hosts + 1)
        ]
        for member in members:
            assert member.stdout
            assert member.stdout.readline().strip() == "ready", "a member could not begin"
        for member in members:
            assert member.stdin
            member.stdin.write("go\n")
            member.stdin.flush()
        told = [json.loads(member.stdout.readline()) for member in members if member.stdout]
    return sum(each["turns"] for each in told) / max(each["seconds"] for each in told)


def another_door(root: Path, *, quick: bool) -> Figure:
    """A synchronous message through the door of a host that does not own the session, against the owner's door."""
    count, rounds = (40, 2) if quick else (150, 5)
    body = json.dumps({"text": "a message of some length"}).encode()
    first = json.dumps({"text": "first", "create": {"agent": "echo"}}).encode()
    path, asking = f"/v1/sessions/{KEY}/messages", {"Content-Type": "application/json", "Prefer": "wait=30"}
    own: list[float] = []
    other: list[float] = []
    with (
        _database() as url,
        served_host(root / "owner", "--store", url) as (owner, _pid, _took),
        served_host(root / "guest", "--store", url) as (guest, _guests_pid, _guest_took),
    ):
        doors = [(place["url"], asking | {"Authorization": f"Bearer {place['token']}"}) for place in (owner, guest)]
        times(doors[0][0], path, doors[0][1], first, 1)
        for _ in range(rounds):
            for (door, headers), told in zip(doors, (own, other), strict=True):
                told.extend(times(door, path, headers, body, count))
    what = "a synchronous message through the door of a host that does not own the session, against the owner's, median"
    return Figure("another_door", what, milliseconds(other, 50), milliseconds(own, 50), 2.0, "lower", "ms")


@contextlib.contextmanager
def _database() -> Generator[str]:
    """The URL of a server with nothing in it, which syncs as a real one does."""
    programs = Programs()
    try:
        server = PostgresServer(programs).create()
        server.start(**LIKE_REAL)
        try:
            yield server.url
        finally:
            server.stop()
    finally:
        programs.close()
