"""`python -m antiphon.testing.torture --seconds N --seed S`: load, kills, and what was found, as one JSON line."""

import argparse
import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from antiphon.store.address import is_postgres
from antiphon.store.sqlite import SqliteStore
from antiphon.system import SystemClock
from antiphon.testing.torture.checks import Kept, check, read_logs, read_store
from antiphon.testing.torture.load import PACE
from antiphon.testing.torture.rest import settle
from antiphon.testing.torture.victim import Troubled, Victim

LOAD_ENDS_S = 150.0


def main() -> int:
    """Torture a host for a time; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to kill and load")
    parser.add_argument("--seed", type=int, default=1, help="of the load and of the moments of the kills")
    parser.add_argument("--processes", type=int, default=3, help="processes of load")
    parser.add_argument("--threads", type=int, default=6, help="callers in each of them")
    parser.add_argument("--sessions", type=int, default=8, help="sessions that they share")
    parser.add_argument("--store", default="sqlite", help="where the host keeps sessions: sqlite, or an empty database")
    parser.add_argument("--keep", action="store_true", help="keep the data and the logs, and say where they are")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="antiphon-torture-"))
    found: list[str] = []
    kills, kept = 0, Kept()
    try:
        kills = _torment(root, options, found)
        kept = asyncio.run(_read(root, options.store, found))
        found += check(read_logs(sorted(root.glob("load-*.jsonl"))), kept)
    finally:
        if options.keep or found:
            print(f"kept: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)
    report = {"kills": kills, "messages": len(kept.texts), "findings": found[:50], "seed": options.seed}
    print(json.dumps(report), flush=True)
    return 1 if found else 0


def _torment(root: Path, options: argparse.Namespace, found: list[str]) -> int:
    """Load the host and kill it over and over; then let it come to rest, and end it. How often it was killed."""
    chance, kills = random.Random(options.seed), 0  # noqa: S311 - a seed, not a secret
    victim = Victim(root, environment={"ANTIPHON_STORE": options.store})
    load: list[subprocess.Popen[bytes]] = []
    try:
        victim.start()
        load = [_load(root, victim, options, number) for number in range(options.processes)]
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            time.sleep(chance.choice((0.1, 0.5, 1.0, 2.0, 4.0)) * (0.5 + chance.random()))
            victim.kill()
            kills += 1
            took_s = victim.start()
            print(
                f"kill {kills}, {end - time.monotonic():.0f} s to go, served again after {took_s:.1f} s",
                file=sys.stderr,
            )
        for process in load:
            process.send_signal(signal.SIGTERM)
        found += ["a caller hangs" for process in load if process.wait(LOAD_ENDS_S) != 0]
        settle(victim.data_dir, PACE)
        victim.stop()
        found += [f"process {pid} outlived the host (P14)" for pid in victim.left_behind()]
    except (Troubled, subprocess.TimeoutExpired) as trouble:
        found.append(f"{type(trouble).__name__}: {trouble}")
    finally:
        for process in load:
            process.kill()
            process.wait()
        victim.end()
    return kills


def _load(root: Path, victim: Victim, options: argparse.Namespace, number: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "antiphon.testing.torture.load", "--data-dir", str(victim.data_dir)]
    command += ["--log", str(root / f"load-{number}.jsonl"), "--name", f"p{number}", "--seed", str(options.seed)]
    command += ["--threads", str(options.threads), "--sessions", str(options.sessions)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


async def _read(root: Path, address: str, found: list[str]) -> Kept:
    if is_postgres(address):
        from antiphon.store.postgres import PostgresStore  # noqa: PLC0415  # an extra

        store = await PostgresStore.open(address, clock=SystemClock())
    else:
        store = await SqliteStore.open(root / "data", clock=SystemClock())
    try:
        return await read_store(store, found)
    finally:
        await store.close()


if __name__ == "__main__":
    sys.exit(main())
