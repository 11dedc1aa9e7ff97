"""A child process that talks in lines, and the certain end of it and of everything below it.

Between the host and the agent stands a small guard process (`antiphon.agents.guard`), the subreaper of all that the
agent starts. It ends the whole tree when the host asks, and by itself when the host dies, also by SIGKILL. The guard is
killed by nothing that is meant for the agent; should it be killed all the same, the agent dies with it
(PR_SET_PDEATHSIG) and the host finds the rest by the mark `AGENT_TREE_ID` in their environment.

`AGENT_MEMORY_MB` in an agent's environment bounds the memory of its whole tree: the guard looks four times a second and
ends a tree that has more. A control group would be exact, but few hosts may make one.

On systems other than Linux there is no subreaper: there only the agent and its process group are sure to end.
"""

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from antiphon.agents import guard
from antiphon.agents.environment import clean_environment, secrets_of
from antiphon.agents.pipes import Overlong, PipeReader, PipeSink, PipeWriter, Tail, framed

__all__ = ["AgentProcess", "Overlong", "StartFailed", "clean_environment"]

LINE_LIMIT = 32 << 20
STDERR_TAIL = 8 << 10
WRITE_LIMIT = 64 << 20
START_TIMEOUT_S = 20.0
KILL_PATIENCE_S = 3.0
REAP_PAUSE_S = 0.002
SWEEP_PAUSE_S = 0.02
TOO_MUCH_MEMORY = "It and what it started used {} MB of memory, more than `memory_mb` allows, and were ended.\n"
TREE_MARK = "AGENT_TREE_ID"
GUARD_DIRECTORY = str(Path(guard.__file__).resolve().parent)
GUARD_PROGRAM = f"import sys; sys.path.append({GUARD_DIRECTORY!r}); import guard; guard.main()"
"""Imported, and not run as a script, it need not be compiled each time: that is 3 ms of its 15."""


class StartFailed(Exception):
    """The program could not be started; the text is for a person.

    Attributes:
        errno: Why, where the system gave a number (`errno.ENOENT` when there is no such program).
    """

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(text)
        self.errno = number


class AgentProcess:
    """A running agent: its stdin, its stdout in lines or chunks, the tail of its stderr, its end.

    Whoever starts one must call `end` on every path. No method may be called from another thread or loop than the one
    that started it.
    """

    def __init__(
        self, popen: "subprocess.Popen[bytes]", ends: "_HostEnds", mark: str, tail: Tail, line_limit: int
    ) -> None:
        """Use `start`."""
        self._loop = asyncio.get_running_loop()
        self._guard = popen
        self._mark = f"{TREE_MARK}={mark}".encode()
        self._tail = tail
        self._line_limit = line_limit
        self._control = ends.control
        os.set_blocking(ends.control, False)
        self._stdin = PipeWriter(ends.stdin, WRITE_LIMIT)
        self._stdout = PipeReader(ends.stdout)
        self._stderr = PipeSink(ends.stderr, tail.feed)
        self._status_line = b""
        self._status = PipeSink(ends.status, self._hear, self._guard_ended)
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._pid: int | None = None
        self._exit_code: int | None = None
        self._clear = False
        self._too_much_memory = ""
        self._gone = asyncio.Event()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        line_limit: int = LINE_LIMIT,
        stderr_tail: int = STDERR_TAIL,
    ) -> Self:
        """Start a program in a process group of its own, in exactly this environment (and `AGENT_TREE_ID`).

        Safe to cancel: then nothing of it is left running.

        Args:
            argv: The program, looked up in the environment's PATH, and its arguments.
            cwd: An existing directory.
            environment: All of it; see `clean_environment`.
            line_limit: Bytes; a longer line comes as `Overlong`.
            stderr_tail: How many of the last bytes of stderr are kept.

        Raises:
            StartFailed: There is no such program or directory, it may not be executed, or the machine is out of
                processes or file descriptors.
        """
        mark = secrets.token_hex(16)
        try:
            popen, ends = _start_guard(argv, cwd, {**environment, TREE_MARK: mark})
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise _start_failed(argv, cwd, error) from error
        process = cls(popen, ends, mark, Tail(stderr_tail, secrets_of(environment)), line_limit)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(process._started)
        except TimeoutError:
            await process.end(0)
            raise StartFailed(f"{argv[0]!r} did not start within {START_TIMEOUT_S:g} s") from None
        except OSError as error:
            await process.end(0)
            raise _start_failed(argv, cwd, error, process.stderr()) from error
        except asyncio.CancelledError:
            await process.end(0)
            raise
        return process

    @property
    def pid(self) -> int | None:
        """The agent itself, not its guard; None once it has ended."""
        return self._pid

    @property
    def exit_code(self) -> int | None:
        """The agent's exit code, `-N` when signal N killed it; None while it runs, or when nobody saw its end."""
        return self._exit_code

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs any more: neither the agent nor anything that it started."""
        return self._gone.is_set()

    @property
    def ending(self) -> str:
        """How the agent ended, in words."""
        code = self._exit_code
        if code is None:
            return "its guard was killed" if self.gone else "it still runs"
        if code >= 0:
            return f"exit {code}"
        return f"killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"

    def stderr(self) -> str:
        """What it was ended for, if it was, then the last part of what it wrote to stderr; secrets are replaced."""
        return self._too_much_memory + self._tail.text()

    def write_line(self, line: bytes) -> bool:
        r"""Send a line; the `\n` is added. Never waits: what the agent does not read yet is kept for it.

        Returns:
            False when the agent takes no more input (it is gone or closed its stdin), or leaves 64 MiB unread: then
            nothing of the line was sent.
        """
        if b"\n" in line:
            raise ValueError("a line can't hold a line end")
        return self.write(line + b"\n")

    def write(self, data: bytes) -> bool:
        """Send bytes, all or nothing, as `write_line` does."""
        return self._stdin.write(data)

    def end_input(self) -> None:
        """Close its stdin once everything was sent."""
        self._stdin.end()

    def lines(self) -> AsyncIterator[bytes | Overlong]:
        r"""What it says, in lines, framed on `\n` alone and without it; ends when all who could write are gone.

        Call it once, and from one task. Only as much is read ahead as the pipe holds, so a slow reader slows the agent.
        """
        return framed(self._stdout, self._line_limit)

    async def chunks(self) -> AsyncIterator[bytes]:
        """What it says, as it comes. Instead of `lines`."""
        while data := await self._stdout.read():
            yield data

    async def wait(self) -> int | None:
        """Wait until it and everything below it is gone; return `exit_code`."""
        await self._gone.wait()
        return self._exit_code

    async def end(self, patience_s: float, polite: Callable[[], object] | None = None) -> bool:
        """End it and everything below it: a polite request, then SIGTERM, then SIGKILL. Idempotent, safe to cancel.

        Args:
            patience_s: How long it may take until SIGKILL; 0 kills at once. With `polite` one half is for the request.
            polite: Asks it to leave, for example by a line or by `end_input`. It must not wait.

        Returns:
            Whether nothing of it runs any more. False only when something can't be killed: the kernel holds it (state
            D), or it is another user's. Then its output ends here, and its guard goes on trying.
        """
        deadline = self._loop.time() + patience_s
        if polite and patience_s > 0 and not self.gone:
            polite()
            await self._gone_within(patience_s / 2)
        if patience_s > 0 and not self.gone:
            self.terminate()
            await self._gone_within(deadline - self._loop.time())
        self.kill()
        if not await self._gone_within(KILL_PATIENCE_S):
            self._let_go()
        return self.gone

    def terminate(self) -> None:
        """Send SIGTERM to it and to everything below it, without waiting for what comes of it."""
        if self._control >= 0:
            with contextlib.suppress(OSError):  # the guard is gone, and `_guard_ended` knows
                os.write(self._control, b"T")
            self._guard.send_signal(signal.SIGCONT)  # somebody may have stopped the guard too

    def kill(self) -> None:
        """Have it and everything below it killed, without waiting: `wait` tells when nothing is left.

        The guard takes the end of its control pipe as the order, so this can't fail.
        """
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
            self._guard.send_signal(signal.SIGCONT)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0, seconds)):
                await self._gone.wait()
        return self.gone

    def _hear(self, data: bytes) -> None:
        *lines, self._status_line = (self._status_line + data).split(b"\n")
        for line in lines:
            word, _, number = line.decode().partition(" ")
            match word:
                case "started":
                    self._pid = int(number)
                    self._settle_start(None)
                case "failed":
                    self._clear = True
                    self._settle_start(OSError(int(number), os.strerror(int(number))))
                case "exited" | "killed":
                    self._pid = None
                    self._exit_code = int(number) if word == "exited" else -int(number)
                case "memory":
                    self._too_much_memory = TOO_MUCH_MEMORY.format(number)
                case _:
                    self._clear = True

    def _settle_start(self, error: OSError | None) -> None:
        if self._started.done():
            return
        if error:
            self._started.set_exception(error)
        else:
            self._started.set_result(None)

    def _guard_ended(self) -> None:
        self._pid = None
        if self._guard.poll() is None:  # it has closed its files but is not quite gone
            self._loop.call_later(REAP_PAUSE_S, self._guard_ended)
        elif self._clear:
            self._finish()
        else:
            self._sweep(self._loop.time() + KILL_PATIENCE_S)

    def _sweep(self, deadline: float) -> None:
        """The guard was killed: end whoever carries the mark, until nobody does."""
        marked = _processes_marked(self._mark)
        for pid, started in marked.items():
            guard.signal_process(pid, started, signal.SIGKILL)
        if marked and self._loop.time() < deadline:
            self._loop.call_later(SWEEP_PAUSE_S, self._sweep, deadline)
        else:
            self._finish()

    def _finish(self) -> None:
        self.kill()
        self._let_go()
        self._settle_start(OSError("its guard was killed"))
        self._gone.set()

    def _let_go(self) -> None:
        """Close the pipes, after taking in what is still in them."""
        self._stdin.close()
        self._stdout.finish()
        self._stderr.finish()


@dataclass(frozen=True, slots=True)
class _HostEnds:
    """The host's ends of the five pipes, as file descriptors."""

    stdin: int
    stdout: int
    stderr: int
    control: int
    status: int


def _start_guard(
    argv: Sequence[str], cwd: str, environment: Mapping[str, str]
) -> tuple["subprocess.Popen[bytes]", _HostEnds]:
    pipes: list[tuple[int, int]] = []
    try:
        pipes.extend(os.pipe() for _ in range(5))
        (stdin, _), (_, stdout), (_, stderr), (control, _), (_, status) = pipes
        popen = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", "-c", GUARD_PROGRAM, str(control), str(status), *argv],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(control, status),
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except BaseException:
        for fd in (fd for pipe in pipes for fd in pipe):
            os.close(fd)
        raise
    for fd in (stdin, stdout, stderr, control, status):
        os.close(fd)
    (_, stdin), (stdout, _), (stderr, _), (_, control), (status, _) = pipes
    return popen, _HostEnds(stdin, stdout, stderr, control, status)


def _start_failed(argv: Sequence[str], cwd: str, error: Exception, stderr: str = "") -> StartFailed:
    program = argv[0] if argv else ""
    number = error.errno if isinstance(error, OSError) else None
    if not Path(cwd).is_dir():
        return StartFailed(f"The working directory {cwd!r} does not exist.", number)
    if number == errno.ENOENT:
        return StartFailed(f"There is no program {program!r} on this machine's PATH.", number)
    why = os.strerror(number) if number else f"{error}. {stderr}".strip(". ")
    return StartFailed(f"{program!r} can't be started: {why}.", number)


def _processes_marked(mark: bytes) -> dict[int, int]:
    """Living processes with the mark in their environment, and when they started."""
    found: dict[int, int] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
        except OSError:
            continue  # gone, or another user's
        if mark in environment.split(b"\0") and (stat := guard.look(int(directory.name))):
            found[int(directory.name)] = stat[1]
    return found
