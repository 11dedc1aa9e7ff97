"""Every way to end a process leaves nothing of it running, in bounded time (P14)."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from antiphon.agents.process import AgentProcess
from antiphon.testing.processes import alive, eventually, marked

IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(99)
"""
HEEDS_TERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(99)
"""

HIDERS = {
    "in its group": "sleep()",
    "with a session of its own": "os.setsid(); sleep()",
    "as a daemon": "os.setsid(); os.fork() and os._exit(0); close(); sleep()",
    "as a daemon with an empty environment": "os.setsid(); os.fork() and os._exit(0); close(); bare()",
    "three generations down": "os.fork() or os.fork() or os.setsid(); sleep()",
    "stopped": "os.setsid(); tell(); os.kill(os.getpid(), signal.SIGSTOP); sleep()",
    "under a subreaper of its own": "prctl(36, 1); os.fork() or (os.fork() and os._exit(0)); sleep()",
}
"""Grandchildren that ignore SIGTERM, and where each hides."""

HIDING = """
import ctypes, os, signal, sys, time
prctl = ctypes.CDLL(None).prctl
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
def tell():
    with open("pids", "a") as file: file.write(f"{os.getpid()}\\n")
def close():
    for fd in (0, 1, 2): os.close(fd)
def bare():
    os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; echo $$ >> pids; sleep 99; sleep 99"], {"PATH": "/bin:/usr/bin"})
def sleep():
    tell()
    time.sleep(99)
    os._exit(0)
if not os.fork():
    HIDE
"""


async def begin(start, tmp_path: Path, source: str, count: int = 1) -> tuple[AgentProcess, set[int]]:
    """Start a program that writes the pids of those below it into a file; return it and all of them."""
    pids = tmp_path / "pids"
    process = await start(python=source)
    await eventually(lambda: pids.exists() and len(pids.read_text().splitlines()) >= count, what="its children")
    return process, {process.pid, *map(int, pids.read_text().split())}


@pytest.mark.parametrize("hide", HIDERS.values(), ids=HIDERS.keys())
async def test_a_grandchild_that_ignores_sigterm_ends_with_the_agent(start, tmp_path: Path, hide: str):
    process, pids = await begin(start, tmp_path, HIDING.replace("HIDE", hide) + "time.sleep(99)")
    began = time.monotonic()
    assert await process.end(0.3)
    assert not any(map(alive, pids))
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("hide", HIDERS.values(), ids=HIDERS.keys())
async def test_what_the_agent_leaves_behind_ends_too_when_it_exits_by_itself(start, tmp_path: Path, hide: str):
    process, pids = await begin(start, tmp_path, HIDING.replace("HIDE", hide) + "sys.stdin.read(); sys.exit(3)")
    process.end_input()
    assert await asyncio.wait_for(process.wait(), 5) == 3
    assert not any(map(alive, pids))


async def test_a_polite_request_comes_first(start):
    process = await start(python="import sys\nprint(sys.stdin.readline(), end='', flush=True)")
    assert await process.end(5, lambda: process.write_line(b"please leave"))
    assert process.exit_code == 0
    assert await anext(process.lines()) == b"please leave"


async def test_sigterm_comes_before_sigkill(start):
    process = await start(python=HEEDS_TERM)
    await anext(process.lines())
    assert await process.end(5)
    assert process.exit_code == 7


async def test_an_agent_that_ignores_sigterm_is_killed_when_the_patience_is_over(start):
    process = await start(python=IGNORES_TERM)
    await anext(process.lines())
    began = time.monotonic()
    assert await process.end(0.4, lambda: None)
    assert process.exit_code == -signal.SIGKILL
    assert 0.35 < time.monotonic() - began < 2


async def test_no_patience_kills_at_once(start):
    process = await start(python=IGNORES_TERM)
    await anext(process.lines())
    began = time.monotonic()
    assert await process.end(0, lambda: pytest.fail("no polite request without patience"))
    assert time.monotonic() - began < 1


async def test_a_stopped_agent_hears_sigterm(start):
    process = await start(python=HEEDS_TERM)
    await anext(process.lines())
    os.kill(process.pid, signal.SIGSTOP)
    assert await process.end(5)
    assert process.exit_code == 7


async def test_ending_twice_and_at_the_same_time_is_ending_once(start):
    process = await start(python=IGNORES_TERM)
    await anext(process.lines())
    assert await asyncio.gather(process.end(3), process.end(0.2), process.end(0)) == [True, True, True]
    assert await process.end(1)


async def test_a_cancelled_end_can_be_asked_for_again(start):
    process = await start(python=IGNORES_TERM)
    await anext(process.lines())
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.end(30), 0.02)
    assert await process.end(0)


async def test_an_agent_that_kills_its_own_group_takes_only_itself_down(start):
    process = await start("sh", "-c", "kill -9 0; sleep 60")
    assert await asyncio.wait_for(process.wait(), 5) == -signal.SIGKILL


async def test_an_agent_that_closes_its_stdout_lives_on_until_it_is_ended(start):
    process = await start(python="import os, time\nos.close(1)\ntime.sleep(99)")
    assert [line async for line in process.lines()] == []
    assert not process.gone
    assert alive(process.pid)
    assert await process.end(1)


async def test_a_grandchild_that_keeps_stdout_open_does_not_keep_the_reader_waiting(start):
    process = await start("sh", "-c", "(trap '' TERM; setsid sleep 60) & echo said; exit 4")
    async with asyncio.timeout(5):
        assert [line async for line in process.lines()] == [b"said"]
    assert await asyncio.wait_for(process.wait(), 5) == 4


CHAIN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
open("pids", "w").write(str(os.getpid()))
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""
"""A process that is never the same for longer than a fork: each one starts the next, in a new session, and exits."""

CROWD = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(1000):
    if not os.fork():
        os.setsid()
        time.sleep(99)
    if n == 10: open("pids", "w").write(str(os.getpid()))
    time.sleep(0.002)
time.sleep(99)
"""
"""A process that has another child every other millisecond, each in a session of its own."""


@pytest.mark.parametrize("source", [CHAIN, CROWD], ids=["a chain", "a crowd"])
async def test_who_forks_all_the_time_is_ended_in_bounded_time(start, tmp_path: Path, mark, source: str):
    process, _ = await begin(start, tmp_path, source)
    began = time.monotonic()
    assert await process.end(0.05)
    assert time.monotonic() - began < 10
    assert not marked(mark)


async def test_a_killed_guard_takes_everything_with_it(start, tmp_path: Path, mark):
    process, pids = await begin(start, tmp_path, HIDING.replace("HIDE", HIDERS["as a daemon"]) + "time.sleep(99)")
    os.kill(guard_of(process), signal.SIGKILL)
    assert await asyncio.wait_for(process.wait(), 5) is None
    assert process.ending == "its guard was killed"
    assert not any(map(alive, pids))
    assert not marked(mark)


@pytest.mark.parametrize("patience_s", [0, 0.1])
async def test_a_stopped_guard_is_overcome(start, tmp_path: Path, patience_s: float):
    process, pids = await begin(start, tmp_path, HIDING.replace("HIDE", HIDERS["as a daemon"]) + "time.sleep(99)")
    os.kill(guard_of(process), signal.SIGSTOP)
    began = time.monotonic()
    assert await process.end(patience_s)
    assert not any(map(alive, pids))
    assert time.monotonic() - began < 2


async def test_what_cannot_be_killed_is_told_and_its_output_ends(start, monkeypatch: pytest.MonkeyPatch):
    """No test can hold a process in the kernel, so the guard is kept from its work instead."""
    process = await start(python=IGNORES_TERM)
    lines = process.lines()
    assert await anext(lines) == b"ready"
    guard = guard_of(process)
    os.kill(guard, signal.SIGSTOP)
    monkeypatch.setattr("antiphon.agents.process.KILL_PATIENCE_S", 0.05)
    monkeypatch.setattr(process._guard, "send_signal", str)
    assert not await process.end(0)
    assert not process.gone
    assert [line async for line in lines] == []
    monkeypatch.undo()
    os.kill(guard, signal.SIGCONT)
    await asyncio.wait_for(process.wait(), 5)


def guard_of(process: AgentProcess) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
