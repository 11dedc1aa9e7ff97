"""What an agent says and hears: lines, bytes, floods, its environment; and programs that do not start."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.agents.process import AgentProcess, Overlong, StartFailed, clean_environment
from antiphon.testing.processes import eventually, marked

COUNTING = """
import os
with open("count", "w") as count:
    for n in range(2000):
        os.write(1, b"x" * 9999 + b"\\n")
        count.write(".")
        count.flush()
"""
SAY = "import os, sys\nsay = lambda data: os.write(1, data)\n"


async def lines_of(process: AgentProcess) -> list[bytes | Overlong]:
    async with asyncio.timeout(20):
        return [line async for line in process.lines()]


async def test_lines_go_both_ways(start):
    process = await start(python="import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)")
    lines = process.lines()
    for word in (b"one", "zwei \u2028 drei".encode()):
        assert process.write_line(word)
        assert await asyncio.wait_for(anext(lines), 5) == b"heard " + word
    process.end_input()
    assert await asyncio.wait_for(process.wait(), 5) == 0
    assert process.ending == "exit 0"


async def test_a_line_of_ten_megabytes_arrives_whole_in_both_directions(start):
    process = await start(python="import sys\nsys.stdout.write(sys.stdin.readline())\nprint('after')")
    assert process.write_line(b"x" * 10_000_000)
    assert await lines_of(process) == [b"x" * 10_000_000, b"after"]


async def test_a_line_over_the_limit_is_told_and_the_reader_goes_on(start):
    process = await start(python=SAY + "say(b'head' + b'x' * 3_000_000 + b'\\nnext\\n')", line_limit=1_000_000)
    overlong, following = await lines_of(process)
    assert isinstance(overlong, Overlong)
    assert (overlong.size, overlong.head[:6]) == (3_000_004, b"headxx")
    assert following == b"next"


async def test_bytes_that_are_not_utf_8_and_line_separators_of_unicode_arrive_as_they_are(start):
    process = await start(python=SAY + r"say(b'\xff\xfe\nok \xe2\x80\xa8 same line\n')")
    assert await lines_of(process) == [b"\xff\xfe", "ok \u2028 same line".encode()]


async def test_chunks_come_before_the_line_ends(start):
    process = await start(python=SAY + "say(b'at once'); sys.stdin.read()")
    chunks = process.chunks()
    assert await asyncio.wait_for(anext(chunks), 5) == b"at once"
    process.end_input()
    assert [chunk async for chunk in chunks] == []


async def test_a_slow_reader_slows_the_agent(start, tmp_path: Path):
    process = await start(python=COUNTING)
    lines = process.lines()
    await anext(lines)
    written = await eventually(lambda: settled(tmp_path / "count"), what="an agent that waits for its reader")
    assert written * 10_000 < 2_000_000, f"it could write {written} lines of 10 kB ahead of the reader"
    assert len([line async for line in lines]) == 1999


def settled(file: Path) -> int:
    """The size of a file once it has not grown for a moment."""
    before = file.stat().st_size if file.exists() else 0
    time.sleep(0.1)
    after = file.stat().st_size if file.exists() else 0
    return after if after == before else 0


async def test_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept(start):
    process = await start(
        python=SAY + "os.write(2, b'first')\nfor _ in range(160): os.write(2, b'e' * 65536)\n"
        "os.write(2, b'last'); say(b'done\\n')"
    )
    assert await lines_of(process) == [b"done"]
    await asyncio.wait_for(process.wait(), 5)
    assert process.stderr().endswith("elast")
    assert len(process.stderr()) <= 3 * 8192


async def test_stderr_shows_no_secret_of_the_agents_environment(start):
    process = await start(
        python="import os, sys\nsys.stderr.write('401 for ' + os.environ['MODEL_API_KEY'])",
        environment={"MODEL_API_KEY": "sk-0123456789"},
    )
    await asyncio.wait_for(process.wait(), 5)
    assert process.stderr() == "401 for [redacted]"


async def test_the_environment_is_exactly_what_was_given(start, mark):
    given = {"ODD": "a=b\tc\u2028d\udcff", "EMPTY": ""}
    show = "import sys\nsys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"
    process = await start(python=show, environment=given)
    (line,) = await lines_of(process)
    assert isinstance(line, bytes)
    seen = dict(entry.split(b"=", 1) for entry in line.split(b"\0") if entry)
    expected = {os.fsencode(k): os.fsencode(v) for k, v in clean_environment(given | mark).items()}
    assert seen.pop(b"AGENT_TREE_ID")
    assert seen == expected


async def test_the_agent_inherits_nothing_but_its_three_pipes(start):
    process = await start(python="import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd')))")
    (line,) = await lines_of(process)
    assert line == b"[0, 1, 2, 3]", "the last one is the directory that it reads"


async def test_the_agent_has_no_signal_blocked_or_ignored_by_its_guard(start):
    process = await start("sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    blocked, ignored = [int(line.split()[1], 16) for line in await lines_of(process) if isinstance(line, bytes)]
    libc_own = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's: no program can set them, so none resets them
    assert (blocked & ~libc_own, ignored & ~libc_own) == (0, 0)


async def test_pid_is_the_agents_own(start):
    process = await start(python="import os, sys\nprint(os.getpid(), os.getpgrp(), flush=True)\nsys.stdin.read()")
    pid = process.pid
    assert await anext(process.lines()) == f"{pid} {pid}".encode(), "it leads a group of its own"


async def test_how_it_ended_is_told(start):
    for source, code, words in (
        ("raise SystemExit(3)", 3, "exit 3"),
        ("import os; os.kill(os.getpid(), 9)", -9, "killed by signal 9 (Killed)"),
    ):
        process = await start(python=source)
        assert await asyncio.wait_for(process.wait(), 5) == code
        assert (process.ending, process.pid, process.gone) == (words, None, True)


async def test_a_dead_process_takes_no_more_lines(start):
    process = await start("true")
    await asyncio.wait_for(process.wait(), 5)
    assert not process.write_line(b"hello")
    assert not process.write(b"hello")
    process.end_input()
    assert await process.end(1)


async def test_an_agent_that_reads_nothing_does_not_hold_up_the_writer(start):
    process = await start("sleep", "60")
    assert process.write_line(b"x" * 1_000_000)
    assert process.write_line(b"x" * 63_000_000)
    assert not process.write_line(b"x" * 10_000_000), "64 MiB wait already"


async def test_a_line_with_a_line_end_in_it_is_refused(start):
    process = await start("cat")
    with pytest.raises(ValueError, match="line end"):
        process.write_line(b"two\nlines")


async def test_what_was_said_before_the_end_is_still_read_after_it(start):
    process = await start(python=SAY + "say(b'last words\\nand more')")
    await asyncio.wait_for(process.wait(), 5)
    assert await lines_of(process) == [b"last words", b"and more"]


async def test_a_program_that_is_not_there_is_told(start, tmp_path: Path, mark):
    for program in ("no-such-program-anywhere", str(tmp_path / "missing")):
        with pytest.raises(StartFailed, match="no program") as told:
            await start(program)
        assert told.value.errno == errno.ENOENT
    assert not marked(mark)


async def test_a_program_that_may_not_be_executed_is_told(start, tmp_path: Path):
    (tmp_path / "plain").write_text("text")
    with pytest.raises(StartFailed, match="can't be started") as told:
        await start(str(tmp_path / "plain"))
    assert told.value.errno == errno.EACCES


async def test_a_directory_that_is_not_there_is_told(mark):
    with pytest.raises(StartFailed, match="directory '/nowhere' does not exist"):
        await AgentProcess.start(["true"], cwd="/nowhere", environment=clean_environment(mark))


async def test_arguments_that_no_program_can_get_are_told(start):
    with pytest.raises(StartFailed, match="can't be started") as told:
        await start("true", "x" * 3_000_000)
    assert told.value.errno == errno.E2BIG
    with pytest.raises(StartFailed, match="null"):
        await start("true", "a\0b")


@contextlib.contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """A time in which this process can open only so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_host_out_of_file_descriptors_says_so_and_loses_none(start, mark):
    for spare in (0, 1, 5, 9, 10, 11):
        with few_descriptors(spare), pytest.raises(StartFailed, match="Too many open files") as told:
            await start("true")
        assert told.value.errno == errno.EMFILE
    assert not marked(mark)
    process = await start("true")
    assert await asyncio.wait_for(process.wait(), 5) == 0


async def test_a_cancelled_start_leaves_nothing_running(tmp_path: Path, mark):
    environment = clean_environment(mark)
    for delay_s in (0, 0.001, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06):
        starting = asyncio.create_task(AgentProcess.start(["sleep", "60"], cwd=str(tmp_path), environment=environment))
        done, _ = await asyncio.wait([starting], timeout=delay_s)
        starting.cancel()
        try:
            process = await starting
        except asyncio.CancelledError:
            assert not marked(mark), f"something runs after a cancellation {delay_s} s into the start"
        else:
            assert done
            await process.end(0)


async def test_fifty_starts_leave_no_file_open(start):
    for _ in range(50):
        process = await start("true")
        await asyncio.wait_for(process.wait(), 5)


async def test_signals_meant_for_a_terminal_do_not_reach_the_guard(start):
    process = await start("sleep", "60")
    guard = guard_of(process)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(guard, number)
    assert await process.end(5)
    assert process.exit_code == -signal.SIGTERM, "it ended by the order of the host, and not before"


def guard_of(process: AgentProcess) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_a_script_without_an_interpreter_line_is_told(start, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    with pytest.raises(StartFailed, match="Exec format error"):
        await start(str(script))
