"""What a process and those below it are seen to do."""

import os
import signal

from antiphon.agents.process import AgentProcess
from antiphon.agents.vitals import SystemVitals
from antiphon.ports.vitals import Signs
from antiphon.testing.processes import eventually

BUSY = """
import os
if not os.fork():
    os.setsid()
    while True: pass
print("ready", flush=True)
input()
"""
ENDED = """
import os
if not os.fork():
    sum(range(10**7))
    os._exit(0)
os.wait()
print("ready", flush=True)
input()
"""
IDLE = "print('ready', flush=True)\ninput()"


def seen(process: AgentProcess) -> Signs:
    signs = SystemVitals().look(process.pid or 0)
    assert signs is not None
    return signs


async def test_the_work_of_a_grandchild_counts_and_idling_does_not(start):
    busy, idle = await start(python=BUSY), await start(python=IDLE)
    for process in (busy, idle):
        assert await anext(process.lines()) == b"ready"
    busy_before, idle_before = seen(busy), seen(idle)
    await eventually(lambda: seen(busy).cpu_s > busy_before.cpu_s + 0.1, 30, "work of the grandchild")
    after = seen(idle)
    assert after.cpu_s - idle_before.cpu_s < 0.05
    assert len(seen(busy).ages_s) == 1
    assert after.ages_s == ()


async def test_a_child_that_ended_leaves_what_it_used(start):
    process = await start(python=ENDED)
    assert await anext(process.lines()) == b"ready"
    assert seen(process).cpu_s > 0.05


async def test_how_old_a_child_is_is_told(start):
    process = await start(python=BUSY)
    assert await anext(process.lines()) == b"ready"
    [young] = seen(process).ages_s
    assert 0 <= young < 60
    await eventually(lambda: seen(process).ages_s[0] > young, 30, "a moment later")


async def test_a_stopped_process_is_seen_to_be_stopped(start):
    process = await start(python=IDLE)
    assert await anext(process.lines()) == b"ready"
    os.kill(process.pid, signal.SIGSTOP)
    await eventually(lambda: seen(process).stopped, 30, "a stopped process")
    os.kill(process.pid, signal.SIGCONT)
    await eventually(lambda: not seen(process).stopped, 30, "a process that goes on")


async def test_a_process_that_is_gone_is_not_seen(start):
    process = await start(python="pass")
    pid = process.pid
    await process.wait()
    assert SystemVitals().look(pid or 2**22 + 1) is None
