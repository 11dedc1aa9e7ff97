"""`python -m antiphon.testing.endurance --seconds N --sessions N`: load, and what was found, as one JSON line."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from antiphon.client import AsyncClient, HostNotReached
from antiphon.client.plans import Pace
from antiphon.testing.endurance.caller import Account, Caller
from antiphon.testing.endurance.fleet import Member, configuration, muster
from antiphon.testing.endurance.gauges import Gauges
from antiphon.testing.processes import eventually, marked, new_mark

START_S, STOP_S, GONE_S = 60.0, 60.0, 15.0
SETTLE_S = 300.0
AT_REST = ("idle", "dormant", "errored")
PACE = Pace(slice_s=10, late_s=60, answer_s=120, reconnect_s=30, retry_s=60)
"""Patient: how soon hundreds of callers on a small machine hear something is nobody's promise."""
HOST: dict[str, Any] = {"agent_idle_s": 5, "open_timeout_s": 300, "drain_s": 2}


class Troubled(Exception):
    """It could not be carried out; the text says why."""


def main() -> int:
    """Keep the sessions busy for a time; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.endurance", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to keep them busy")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--agents", default="", help="adapters, with commas; by default the first five that are there")
    parser.add_argument("--max-agents", type=int, default=100, help="how many may be open at once")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)  # so that the host goes with this
    with tempfile.TemporaryDirectory(prefix="antiphon-endurance-", ignore_cleanup_errors=True) as directory:
        try:
            report = _endure(Path(directory), options)
        except (Troubled, LookupError) as trouble:
            report = {"findings": [str(trouble)]}
    print(json.dumps(report), flush=True)
    return 1 if report["findings"] else 0


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _endure(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    home, data = root / "home", root / "data"
    home.mkdir()
    data.mkdir(mode=0o700)
    mark, account = new_mark(), Account()
    with _model() as model_url:
        names = [name for name in options.agents.split(",") if name]
        members = muster(model_url, home, count=5, names=names)
        text = configuration(members, {**HOST, "max_agents": options.max_agents})
        (data / "antiphon.toml").write_text(text)
        with _host(data, home, mark) as host:
            gauges = Gauges(host.pid, mark)
            began = time.monotonic()
            asyncio.run(_load(data, members, account, gauges, options))
            took_s = time.monotonic() - began
            account.findings += _stop(host, root)
        account.findings += asyncio.run(_left(mark))
    open_ones = set(account.words) - set(account.ends)
    account.findings += [f"{message_id} has no end (P3)" for message_id in sorted(open_ones)[:20]]
    turns = sum(account.states.get(state, 0) for state in ("answered", "cancelled", "failed"))
    return {
        "agents": [member.name for member in members],
        "sessions": options.sessions,
        "messages": len(account.words),
        "ends": account.states,
        "refused": account.refused,
        "unheard": account.unheard,
        "turns_per_s": round(turns / took_s, 2),
        "took_s": round(took_s, 1),
        **gauges.report(),
        "findings": [*account.findings, *gauges.findings()][:50],
    }


async def _load(
    data: Path, members: list[Member], account: Account, gauges: Gauges, options: argparse.Namespace
) -> None:
    """Everybody talks, until the time is up; then every message comes to its end and every session to rest."""
    ended = asyncio.Event()
    async with await AsyncClient.local(data, start=False, pace=PACE) as client, asyncio.TaskGroup() as group:
        watching = group.create_task(gauges.watch())
        try:
            async with asyncio.TaskGroup() as callers:
                for number in range(options.sessions):
                    member = members[number % len(members)]
                    callers.create_task(Caller(number, member, client, account, options.seed).run(ended))
                await asyncio.sleep(options.seconds)
                ended.set()
            await _settle(client, account)
        finally:
            ended.set()
            watching.cancel()


async def _settle(client: AsyncClient, account: Account) -> None:
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            busy = [session.id async for session in client.sessions() if session.status not in AT_REST]
        except HostNotReached as error:
            busy = [str(error)]
        if not busy:
            return
        if time.monotonic() > deadline:
            account.findings.append(f"not at rest after {SETTLE_S:g} s: {busy[:10]} (P11)")
            return
        await asyncio.sleep(0.5)


@contextlib.contextmanager
def _model() -> Generator[str]:
    """A loopback model server in a process of its own; its address."""
    command = [sys.executable, "-m", "antiphon.testing.model_server"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout, "its output is a pipe"
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextlib.contextmanager
def _host(data: Path, home: Path, mark: dict[str, str]) -> Generator["subprocess.Popen[bytes]"]:
    """A host that serves the data directory; whatever happens, it is gone afterwards.

    Raises:
        Troubled: It does not serve.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON")}
    command = [sys.executable, "-m", "antiphon.cli", "serve", "--data-dir", str(data), "--log-level", "error"]
    with (data.parent / "serve.log").open("ab") as log:
        host = subprocess.Popen(
            command, env={**kept, "HOME": str(home), **mark}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + START_S
        while not (data / "ready.json").exists():
            if host.poll() is not None or time.monotonic() > deadline:
                raise Troubled(f"the host does not serve: {_said(data.parent)}")
            time.sleep(0.05)
        yield host
    finally:
        if host.poll() is None:
            host.kill()
            host.wait()


def _said(root: Path) -> str:
    return (root / "serve.log").read_text(errors="replace")[-1000:]


def _stop(host: "subprocess.Popen[bytes]", root: Path) -> list[str]:
    """End the host in good order; what was wrong with that."""
    if host.poll() is not None:
        return [f"the host ended by itself with {host.returncode}: {_said(root)}"]
    host.send_signal(signal.SIGTERM)
    try:
        code = host.wait(STOP_S)
    except subprocess.TimeoutExpired:
        return [f"the host did not stop within {STOP_S:g} s: {_said(root)}"]
    return [] if code == 0 else [f"the host ended with {code}: {_said(root)}"]


async def _left(mark: dict[str, str]) -> list[str]:
    """The processes that outlive the host."""
    try:
        await eventually(lambda: not marked(mark), GONE_S)
    except AssertionError:
        return [f"process {pid} outlived the host (P14)" for pid in sorted(marked(mark))]
    return []


if __name__ == "__main__":
    sys.exit(main())
