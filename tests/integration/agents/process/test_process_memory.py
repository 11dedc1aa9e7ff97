"""A tree of processes that uses more memory than it may is ended, and it is told why."""

from antiphon.testing.processes import marked

GREEDY = """
import os, time
if not os.fork():
    os.setsid()
    held = [bytearray(b"x" * (8 << 20)) for _ in range(12)]
    time.sleep(99)
print("ready", flush=True)
time.sleep(99)
"""
MODEST = """
held = bytearray(b"x" * (8 << 20))
input()
"""


async def test_memory_of_a_grandchild_counts_and_the_whole_tree_ends(start, mark):
    process = await start(python=GREEDY, environment={"AGENT_MEMORY_MB": "64"})
    assert await process.wait() == -9
    assert "more than `memory_mb` allows" in process.stderr()
    assert not marked(mark)


async def test_who_stays_below_the_limit_is_left_alone(start):
    process = await start(python=MODEST, environment={"AGENT_MEMORY_MB": "200"})
    process.write_line(b"go on")
    assert await process.wait() == 0
    assert process.stderr() == ""


async def test_without_a_limit_there_is_none(start):
    process = await start(python=GREEDY, environment={"AGENT_MEMORY_MB": ""})
    assert await anext(process.lines()) == b"ready"
    assert process.pid is not None
