"""The guard: a small program between the host and one agent, so that no process of the agent outlives its session.

    python -I -S -c "…; import guard; guard.main()" CONTROL_FD STATUS_FD PROGRAM [ARGUMENT]...

It makes itself the child subreaper (prctl(2), since Linux 3.4): whatever the agent starts stays below the guard, also
when it calls setsid or forks twice. It starts the agent in a session of its own with the guard's stdin, stdout and
stderr, of which it keeps nothing itself. Then it obeys the control pipe, one byte a command:

    T             SIGTERM to every process below the guard (and SIGCONT, so that a stopped one hears it)
    K             SIGKILL to every process below, again and again until none is left
    end of file   the host closed the pipe or died: the same as K

On the status pipe it says, a line each: `started PID` or `failed ERRNO`; `exited CODE` or `killed SIGNAL` once the
agent itself has ended; `memory MB` when all below used more than `AGENT_MEMORY_MB` of its environment allows, for which
they are killed; `clear` when nothing is left below, and then it exits. What the agent leaves behind when it ends gets
SIGTERM, and SIGKILL after `LEFTOVER_PATIENCE_S`.

This program starts before every agent, so it imports as little as can be: `_signal` and `_ctypes` are the C halves of
`signal` and `ctypes`, of which the whole costs 5 to 10 ms more each (enum, struct, types).
"""

# ruff: noqa: PTH123, PTH208, SIM105, TID251
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:  # a Python without this half: slower to start, otherwise the same
        import signal

LEFTOVER_PATIENCE_S = 0.25
MEMORY_LIMIT = "AGENT_MEMORY_MB"
MEMORY_LOOK_S = 0.25
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1
CHASE_FROM_PAUSE_S, CHASE_LOOKS, CHASE_AHEAD = 0.006, 200, 6
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
DEAF_TO = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU, signal.SIGUSR2)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process. Without Linux there is none: then only the agent's own group is ended."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import _ctypes as core  # noqa: PLC0415
    except ImportError:
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    else:
        program = core.dlopen(None, 0)  # pyright: ignore[reportArgumentType]
        core.call_function(core.dlsym(program, "prctl"), (option, value, 0, 0, 0))


def original_environment() -> dict[bytes, bytes]:
    """The environment as the host gave it: the interpreter may have added LC_CTYPE to its own (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def look(pid: int) -> tuple[int, int] | None:
    """Parent and start time of a process (proc_pid_stat(5), fields 4 and 22), or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def processes_below(ancestor: int) -> dict[int, int]:
    """All processes that descend from `ancestor`, with their start times; empty where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    seen = {int(name): stat for name in names if name.isdigit() and (stat := look(int(name)))}
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in seen.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    parents = [ancestor]
    while parents:
        for pid in children.get(parents.pop(), ()):
            found[pid] = seen[pid][1]
            parents.append(pid)
    return found


def children_of(pid: int) -> list[int]:
    """The children of a process (proc_pid_task_tid_children(5)), without a look at all the others.

    Raises:
        OSError: It is gone, or this system does not tell.
    """
    children: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", "rb", buffering=0) as file:
            children += map(int, file.read(1 << 16).split())
    return children


def memory_below(ancestor: int) -> int:
    """Bytes of memory that are of all processes below `ancestor` and nobody else's (proc_pid_statm(5)).

    What several share, such as a program's own pages, counts once, for the one that has most of it.
    """
    own, shared_most, parents = 0, 0, [ancestor]
    while parents:
        parent = parents.pop()
        try:
            children = children_of(parent)
        except OSError:
            children = [] if parent != ancestor else list(processes_below(ancestor))
        for pid in children:
            parents.append(pid)
            try:
                with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
                    resident, shared = map(int, file.read(256).split()[1:3])
            except (OSError, ValueError):
                continue  # it has ended
            own += resident - shared
            shared_most = max(shared_most, shared)
    return (own + shared_most) * os.sysconf("SC_PAGE_SIZE")


def signal_process(pid: int, started: int, number: int) -> None:
    """Signal the process that started then, never a later one to which its number was given."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        now = look(pid)
        if now and now[1] == started:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass  # it has ended meanwhile
    finally:
        os.close(handle)


def wake_up(number: int, frame: object) -> None:
    """Handle a signal by nothing but the byte that it writes to the wake-up pipe."""


class Guard:
    """Starts one agent and sees to the end of everything below it."""

    def __init__(self, control: int, status: int, argv: list[str]) -> None:
        self.control, self.status, self.argv = control, status, argv
        self.host = os.getppid()
        self.host_gone = False
        self.agent = 0
        self.agent_ended = False
        self.reaped = 0
        limit = os.environ.get(MEMORY_LIMIT, "")
        self.memory_limit = int(limit) << 20 if limit.isdecimal() else 0
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def say(self, line: str) -> None:
        """Tell the host; one that is gone does not hear it."""
        try:
            os.write(self.status, line.encode() + b"\n")
        except OSError:
            self.host_gone = True

    def settle_in(self) -> None:
        """Become deaf to what is meant for the agent, and the parent of every orphan below."""
        self.wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end)
        self.poll.register(self.wake, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in DEAF_TO:
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, wake_up)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # The second line, should somebody else hold the control pipe open. It follows the host's thread that forked.
        prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
        os.set_inheritable(self.control, False)
        os.set_inheritable(self.status, False)

    def start(self) -> bool:
        """Start the agent and let go of what it inherited; false when it could not be started."""
        reading, writing = os.pipe()
        guard = os.getpid()
        try:
            self.agent = os.fork()
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        else:
            if not self.agent:
                self.become_agent(guard, writing)
        os.close(writing)
        failure = os.read(reading, 16)
        os.close(reading)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        os.close(nothing)
        os.chdir("/")
        self.say(f"failed {failure.decode()}" if failure else f"started {self.agent}")
        return not failure

    def become_agent(self, guard: int, writing: int) -> None:
        """In the forked child: turn into the agent, or tell the guard why not."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (*DEAF_TO, signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == guard:
                os.execvpe(self.argv[0], self.argv, original_environment())  # noqa: S606
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)

    def reap(self) -> bool:
        """Take in whoever has ended, and tell when it was the agent; false once nobody is left below.

        A subreaper without children has no descendants at all, so this needs no look at the process table.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self.reaped = pid
            if pid == self.agent and not self.agent_ended:
                self.agent_ended = True
                code = os.waitstatus_to_exitcode(status)
                self.say(f"killed {-code}" if code < 0 else f"exited {code}")

    def listen(self, timeout_s: float | None) -> bytes:
        """Wait until a child ends, the host says something, or the time is up; return what the host wants."""
        commands = b""
        for ready, _ in self.poll.poll(None if timeout_s is None else max(0, timeout_s * 1000)):
            if ready == self.wake:
                os.read(self.wake, 4096)
                self.host_gone |= os.getppid() != self.host
            else:
                commands = os.read(self.control, 64)
                if not commands:
                    self.host_gone = True
                    self.poll.unregister(self.control)
        return commands + (b"K" if self.host_gone else b"")

    def signal_group(self, number: int) -> None:
        """Signal the agent's own group, as long as its number can be nobody else's: until the agent is reaped."""
        if not self.agent_ended:
            try:
                os.killpg(self.agent, number)
            except OSError:
                pass  # it has ended

    def signal_all(self, number: int) -> None:
        """Signal every process below, each once."""
        below = processes_below(os.getpid())
        for pid, started in below.items():
            signal_process(pid, started, number)
        if not below:
            self.signal_group(number)

    def kill_all(self) -> None:
        """SIGKILL until nobody is left; who is born while the table is read is met in the next pass."""
        pause_s = FIRST_PAUSE_S
        self.signal_group(signal.SIGKILL)  # nearly always enough, and much cheaper than the process table
        self.listen(pause_s)
        while self.reap():
            self.signal_all(signal.SIGKILL)
            if pause_s > CHASE_FROM_PAUSE_S:  # the first passes were not enough
                self.chase()
            self.listen(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    def uses_too_much(self) -> bool:
        """Whether all below use more memory than they may; it is told."""
        used = memory_below(os.getpid()) if self.memory_limit else 0
        if used <= self.memory_limit:
            return False
        self.say(f"memory {used >> 20}")
        return True

    def chase(self) -> None:
        """Catch a process that forks and exits faster than the table is read: the next one has one of the next numbers.

        `waitid` tells within a microsecond whether a number is that of a living child, which can then be nobody else's.
        """
        looks = CHASE_LOOKS if hasattr(os, "waitid") else 0
        while looks and self.reap():
            looks -= 1
            for pid in range(self.reaped + 1, self.reaped + CHASE_AHEAD):
                try:
                    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                        os.kill(pid, signal.SIGKILL)
                except ChildProcessError:
                    pass  # another's, or nobody's

    def run(self) -> None:
        """From the agent's start to the end of everything below it."""
        deadline = None
        while self.reap():
            if self.agent_ended and deadline is None:
                deadline = time.monotonic() + LEFTOVER_PATIENCE_S
                self.signal_all(signal.SIGTERM)
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            if self.memory_limit:
                left_s = MEMORY_LOOK_S if left_s is None else min(left_s, MEMORY_LOOK_S)
            commands = self.listen(left_s)
            if b"K" in commands or self.uses_too_much():
                break
            if b"T" in commands:
                self.signal_all(signal.SIGTERM)
                self.signal_all(signal.SIGCONT)
        self.kill_all()
        self.say("clear")


def main() -> None:
    """Guard one agent, then leave without the interpreter's tidying up."""
    guard = Guard(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    guard.settle_in()
    if guard.start():
        guard.run()
    os._exit(0)
