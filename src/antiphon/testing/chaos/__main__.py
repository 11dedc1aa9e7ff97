"""`python -m antiphon.testing.chaos --seconds N --seed S`: load, faults, and what was found, as one JSON line."""

import argparse
import asyncio
import json
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from antiphon.client import ClientError
from antiphon.store.postgres import PostgresStore
from antiphon.system import SystemClock
from antiphon.testing.chaos.afterwards import cross_checked
from antiphon.testing.chaos.database import Database
from antiphon.testing.chaos.fleet import Fleet
from antiphon.testing.chaos.storm import Storm, Tally
from antiphon.testing.chaos.watch import Watch
from antiphon.testing.torture.checks import Kept, check, read_logs, read_store
from antiphon.testing.torture.load import HASTE
from antiphon.testing.torture.rest import settle
from antiphon.testing.torture.victim import Troubled

CALM_S = 3.0
SESSION_ID = re.compile(r"ses_[0-9a-f]+")
LOAD_ENDS_S = 150.0
SETTLE_S = 60.0


class Outcome(msgspec.Struct):
    """All that a run came to."""

    tally: Tally = msgspec.field(default_factory=Tally)
    kept: Kept = msgspec.field(default_factory=Kept)
    takeovers_ms: list[float] = []
    settled_s: float | None = None
    strayed_s: float = 0.0


def main() -> int:
    """Let chaos reign for a time; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to load and to disturb")
    parser.add_argument("--seed", type=int, default=1, help="of the load and of the faults")
    parser.add_argument("--processes", type=int, default=2, help="processes of load")
    parser.add_argument("--threads", type=int, default=12, help="callers in each of them")
    parser.add_argument("--sessions", type=int, default=50, help="sessions that they share")
    parser.add_argument("--only", action="append", default=[], help="only this fault; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the logs, and say where they are")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="antiphon-chaos-"))
    found = ["it did not come to its end"]
    try:
        outcome = uvloop.run(_reign(root, options))
        report, found = _report(outcome, options), outcome.tally.findings
    except asyncio.CancelledError:
        found = []
        return 128 + signal.SIGTERM
    finally:
        if options.keep or found:
            print(f"kept: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(report), flush=True)
    return 1 if found else 0


def _report(outcome: Outcome, options: argparse.Namespace) -> dict[str, Any]:
    tally, took_ms = outcome.tally, sorted(outcome.takeovers_ms)
    return {
        "host_kills": tally.host_kills,
        "freezes": tally.freezes,
        "database_restarts": tally.database_restarts,
        "failovers": tally.failovers,
        "cuts": tally.cuts,
        "silences": tally.silences,
        "backends_ended": tally.backends_ended,
        "restarts": tally.restarts,
        "messages": len(outcome.kept.texts),
        "findings": tally.findings[:50],
        "takeovers": len(took_ms),
        "takeover_ms_median": round(statistics.median(took_ms), 1) if took_ms else None,
        "takeover_ms_most": round(took_ms[-1], 1) if took_ms else None,
        "settled_s": None if outcome.settled_s is None else round(outcome.settled_s, 1),
        "strayed_s": round(outcome.strayed_s, 1),
        "seed": options.seed,
    }


async def _reign(root: Path, options: argparse.Namespace) -> Outcome:
    task = asyncio.current_task()
    assert task is not None, "this runs in one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that everything goes with this
    outcome, database = Outcome(), Database()
    logs = [root / f"load-{number}.jsonl" for number in range(options.processes)]
    try:
        await database.start()
        async with Fleet.over(database, root) as fleet:
            try:
                await _disturb(logs, options, fleet, database, outcome)
            except (Troubled, ClientError, subprocess.TimeoutExpired) as trouble:
                outcome.tally.findings.append(f"{type(trouble).__name__}: {trouble}")
        outcome.takeovers_ms = await Watch(database).takeovers_ms(outcome.tally.deaths)
        await _read(database, outcome)
        outcome.tally.findings += check(read_logs(logs), outcome.kept)
        await _write_journals(root, database, outcome.tally.findings)
    finally:
        await asyncio.to_thread(database.close)
    return outcome


async def _disturb(
    logs: list[Path], options: argparse.Namespace, fleet: Fleet, database: Database, outcome: Outcome
) -> None:
    """Load and faults; then, with nothing in the way any more, everything comes to rest, and to its end."""
    chance = random.Random(options.seed)  # noqa: S311 - a seed, not a secret
    watch = Watch(database)
    storm = Storm(fleet, database, watch, chance, options.only)
    outcome.tally = storm.tally
    load: list[subprocess.Popen[bytes]] = []
    try:
        await asyncio.gather(*[member.revive() for member in fleet])
        load = [_load(log, fleet, options) for log in logs]
        await storm.rage(options.seconds)
        await asyncio.sleep(CALM_S)
        for process in load:
            process.send_signal(signal.SIGTERM)
        ends = [await asyncio.to_thread(process.wait, LOAD_ENDS_S) for process in load]
        storm.tally.findings += ["a caller hangs" for code in ends if code != 0]
    finally:
        for process in load:
            process.kill()
            process.wait()
    outcome.settled_s = await asyncio.to_thread(settle, fleet[0].victim.data_dir, HASTE, SETTLE_S)
    doors = [member.victim.data_dir for member in fleet]
    storm.tally.findings += await asyncio.to_thread(cross_checked, doors)
    for member in fleet:
        storm.tally.findings += await watch.strays(member)
    outcome.strayed_s = watch.strayed_s
    await _end(fleet, storm.tally)


async def _end(fleet: Fleet, tally: Tally) -> None:
    """End all hosts in good order; nothing of them is left."""
    for member in fleet:
        if (code := member.victim.exit_code) is not None:
            tally.findings.append(f"host {member.name} ended by itself, with {code}")
            continue
        await member.stop()
    tally.findings += [
        f"process {pid} outlived host {member.name} (P14)" for member in fleet for pid in member.victim.left_behind()
    ]


def _load(log: Path, fleet: Fleet, options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "antiphon.testing.torture.load", "--manner", "chaos"]
    for member in fleet:
        command += ["--data-dir", str(member.victim.data_dir)]
    command += ["--log", str(log), "--name", f"p{log.stem.rpartition('-')[2]}", "--seed", str(options.seed)]
    command += ["--threads", str(options.threads), "--sessions", str(options.sessions)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


async def _write_journals(root: Path, database: Database, findings: list[str]) -> None:
    """Keep the journal of every session that a finding names, with the times of its commits."""
    for session_id in sorted(set(SESSION_ID.findall(" ".join(findings)))):
        lines = [json.dumps(row, default=str) for row in await Watch(database).journal(session_id)]
        await asyncio.to_thread((root / f"{session_id}.jsonl").write_text, "\n".join(lines))


async def _read(database: Database, outcome: Outcome) -> None:
    store = await PostgresStore.open(database.url, clock=SystemClock())
    try:
        outcome.kept = await read_store(store, outcome.tally.findings)
    finally:
        await store.close()


if __name__ == "__main__":
    sys.exit(main())
