"""Play schedules against a host of their own; 1 when one of them broke a promise."""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from antiphon.client import AsyncClient
from antiphon.testing.schedules.checks import findings
from antiphon.testing.schedules.schedule import Played, play
from antiphon.testing.torture.victim import Victim

SHOWN_MAX = 20


def main() -> int:
    """Start a host, play what the command line asks for, say what was found."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the seed of the first")
    parser.add_argument("--store", default="sqlite", help="where the host keeps sessions: sqlite, or an empty database")
    parser.add_argument("--at-once", type=int, default=8, help="how many share the host at a time")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="antiphon-schedules-"))
    victim, began = Victim(root, environment={"ANTIPHON_STORE": asked.store}), time.perf_counter()
    try:
        victim.start()
        seeds = iter(range(asked.first, asked.first + asked.schedules))
        played, found = asyncio.run(_play(victim, seeds, asked.at_once))
        victim.stop()
        found += [f"process {pid} outlived the host (P14)" for pid in victim.left_behind()]
    finally:
        victim.end()
        shutil.rmtree(root, ignore_errors=True)
    for finding in found[:SHOWN_MAX]:
        print(finding, file=sys.stderr)  # noqa: T201
    took_s = time.perf_counter() - began
    print(f"{asked.schedules} schedules, {played} messages in {took_s:.0f} s; {len(found)} findings")  # noqa: T201
    return bool(found)


async def _play(victim: Victim, seeds: Iterator[int], at_once: int) -> tuple[int, list[str]]:
    """How many messages were accepted, and every finding."""
    found: list[str] = []
    messages = 0

    def take(played: Played) -> None:
        nonlocal messages
        messages += len(played.sent)
        found.extend(findings(played))

    async def work() -> None:
        async with await AsyncClient.local(str(victim.data_dir), start=False) as client:
            for seed in seeds:
                take(await play(client, seed))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return messages, found


if __name__ == "__main__":
    sys.exit(main())
