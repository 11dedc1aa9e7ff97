"""The host dies by SIGKILL, and within moments nothing that it started is left (P14)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import antiphon
from antiphon.testing.processes import eventually, marked

HOST = """
import asyncio, os, sys
from antiphon.agents.process import AgentProcess, clean_environment

SPAWN = "trap '' TERM HUP INT; (setsid sh -c 'trap \\"\\" TERM; sleep 99; sleep 99' &); echo up; sleep 99; sleep 99"
mark = {"PROCESS_MARK": os.environ["PROCESS_MARK"]}

async def main():
    agents = []
    for _ in range(3):
        agents.append(await AgentProcess.start(["sh", "-c", SPAWN], cwd=".", environment=clean_environment(mark)))
        await anext(agents[-1].lines())
    FORK
    print("up", flush=True)
    await asyncio.sleep(99)

RUN
"""
RUN = {
    "asyncio": "asyncio.run(main())",
    "uvloop": "import uvloop; uvloop.run(main())",
    "thread": "import threading; t = threading.Thread(target=asyncio.run, args=(main(),)); t.start(); t.join()",
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The host is a process of its own here; its loop is a parameter of the test."""
    return "asyncio"


def run_host(tmp_path: Path, mark: dict[str, str], run: str, fork: str = "pass") -> "subprocess.Popen[str]":
    """A host that starts three agents with grandchildren, and then says that they are up."""
    source = HOST.replace("FORK", fork).replace("RUN", run)
    environment = os.environ | mark | {"PYTHONPATH": str(Path(antiphon.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", source], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )


def said(host: "subprocess.Popen[str]") -> str:
    """The next line that the host says."""
    assert host.stdout
    return host.stdout.readline().strip()


@pytest.mark.parametrize("run", RUN.values(), ids=RUN.keys())
async def test_no_agent_outlives_a_killed_host(tmp_path: Path, mark, run: str):
    with run_host(tmp_path, mark, run) as host:
        assert said(host) == "up"
        assert len(marked(mark)) >= 10, "the host, three agents and their grandchildren"
        host.kill()
        began = time.monotonic()
        await eventually(lambda: not marked(mark), what="the end of everything")
        assert time.monotonic() - began < 3


async def test_no_agent_outlives_a_host_that_leaves_without_ending_it(tmp_path: Path, mark):
    with run_host(tmp_path, mark, RUN["asyncio"]) as host:
        assert said(host) == "up"
        host.send_signal(signal.SIGTERM)
        await eventually(lambda: not marked(mark), what="the end of everything")


async def test_the_guard_notices_also_when_somebody_else_holds_its_pipe(tmp_path: Path, mark):
    """A fork of the host that never becomes another program, such as multiprocessing's, inherits every pipe."""
    fork = (
        "child = os.fork()\n    if not child: import signal; signal.pause(); os._exit(0)\n    print(child, flush=True)"
    )
    with run_host(tmp_path, mark, RUN["asyncio"], fork) as host:
        child = int(said(host))
        try:
            assert said(host) == "up"
            host.kill()
            await eventually(lambda: marked(mark) == {child}, what="the end of all but the fork")
        finally:
            os.kill(child, signal.SIGKILL)
