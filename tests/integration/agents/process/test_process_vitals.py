"""What a process and those below it are seen to do."""

import asyncio
import os
import signal

from antiphon.agents.vitals import SystemVitals
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


async def test_the_work_of_a_grandchild_counts_and_idling_does_not(start):
    busy, idle = await start(python=BUSY), await start(python=IDLE)
    for process in (busy, idle):
        assert await anext(process.lines()) == b"ready"
    vitals = SystemVitals()
    before = vitals.look(busy.pid), vitals.look(idle.pid)
    assert before[0]
    assert before[1]
    await eventually(lambda: vitals.look(busy.pid).cpu_s > before[0].cpu_s + 0.1, 30, "work of the grandchild")
    after = vitals.look(idle.pid)
    assert after.cpu_s - before[1].cpu_s < 0.05
    assert len(vitals.look(busy.pid).ages_s) == 1
    assert after.ages_s == ()


async def test_a_child_that_ended_leaves_what_it_used(start):
    process = await start(python=ENDED)
    assert await anext(process.lines()) == b"ready"
    assert SystemVitals().look(process.pid).cpu_s > 0.05


async def test_how_old_a_child_is_is_told(start):
    process = await start(python=BUSY)
    assert await anext(process.lines()) == b"ready"
    [young] = SystemVitals().look(process.pid).ages_s
    assert 0 <= young < 60
    await asyncio.sleep(0.2)
    [older] = SystemVitals().look(process.pid).ages_s
    assert older > young


async def test_a_stopped_process_is_seen_to_be_stopped(start):
    process = await start(python=IDLE)
    assert await anext(process.lines()) == b"ready"
    os.kill(process.pid, signal.SIGSTOP)
    await eventually(lambda: SystemVitals().look(process.pid).stopped, 30, "a stopped process")
    os.kill(process.pid, signal.SIGCONT)
    await eventually(lambda: not SystemVitals().look(process.pid).stopped, 30, "a process that goes on")


async def test_a_process_that_is_gone_is_not_seen(start):
    process = await start(python="pass")
    pid = process.pid
    await process.wait()
    assert SystemVitals().look(pid or 2**22 + 1) is None
