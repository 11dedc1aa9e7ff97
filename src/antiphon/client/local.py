"""The host of this machine: how a client finds it by its data directory, and starts one where none runs.

`ready.json` in the data directory names the host that serves it: `{"url", "pid", "token", "version"}`, written once it
serves and gone after a clean stop (contract, "HTTP"). One that a crash left behind names a process that is dead, or an
address where nobody answers: then there is no host.
"""

# Paths are strings here: pathlib costs the command line 7 ms at every start.
# ruff: noqa: PTH100, PTH103, PTH105, PTH111, PTH117, PTH118, PTH123, PTH202

import contextlib
import errno
import fcntl
import json
import os
import sys
from time import monotonic, sleep  # noqa: TID251  finding a process is a matter of real time
from typing import TYPE_CHECKING, Any, NamedTuple

from antiphon.client.address import Address
from antiphon.client.errors import ClientError, HostNotReached
from antiphon.client.transport import Transport, connected
from antiphon.client.wire import Request

if TYPE_CHECKING:
    from subprocess import Popen

START_S = 30.0
POLL_S = 0.05
ANOTHER_S = 5.0
"""How long to look for another host's ready.json after the one that was started gave up: it was probably in the way."""
LOG_BYTES_MAX = 8 << 20
_FOR_CLIENTS = ("ANTIPHON_URL", "ANTIPHON_TOKEN")


class Ready(NamedTuple):
    """What `ready.json` holds."""

    url: str
    pid: int
    token: str | None
    version: str


class StartFailed(HostNotReached):
    """A host was started and does not serve. `log` is the path of what it said."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(f"{reason} Its log is {log}.")
        self.log = log


def default_data_dir() -> str:
    """Where a host keeps its data unless told otherwise (XDG Base Directory Specification 0.8)."""
    given = os.environ.get("ANTIPHON_DATA_DIR")
    if given:
        return os.path.abspath(given)
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # the specification has relative ones ignored
        base = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "antiphon")


class LocalHost:
    """The host of one data directory, as seen from outside."""

    def __init__(self, data_dir: str | None = None, *, token: str | None = None) -> None:
        self.data_dir = os.path.abspath(os.path.expanduser(data_dir)) if data_dir else default_data_dir()
        self._token = token

    def path(self, name: str) -> str:
        """The path of a file in the data directory."""
        return os.path.join(self.data_dir, name)

    def ready(self) -> Ready | None:
        """What `ready.json` says; None where there is none, or none that can be read."""
        try:
            with open(self.path("ready.json"), encoding="utf-8") as file:
                found: Any = json.load(file)
            return Ready(str(found["url"]), int(found["pid"]), found.get("token"), str(found.get("version", "")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def address(self) -> Address:
        """Where the host is now.

        Raises:
            HostNotReached: `ready.json` names no living process.
        """
        ready = self.ready()
        if ready is None:
            raise HostNotReached(f"No host runs for {self.data_dir}: start one with `antiphon serve`.")
        if not is_alive(ready.pid):
            raise HostNotReached(f"The host for {self.data_dir} (process {ready.pid}) is gone.")
        return Address.parse(ready.url, self._token or ready.token)

    def answers(self) -> bool:
        """Whether somebody takes connections where `ready.json` says."""
        try:
            with connected(self.address(), 2):
                return True
        except (HostNotReached, OSError):
            return False

    def ensure(self) -> None:
        """Start a host in the background unless one answers; of many callers at once only one starts it.

        Raises:
            StartFailed: It does not serve within `START_S`.
            HostNotReached: The data directory can't be made or written.
        """
        if self.answers():
            return
        try:
            os.makedirs(self.data_dir, mode=0o700, exist_ok=True)
            lock = os.open(self.path("starting.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HostNotReached(f"The data directory {self.data_dir} can't be used: {error.strerror}.") from error
        deadline = monotonic() + START_S
        try:
            while not self.answers():
                if _locked(lock):
                    if not self.answers():
                        self._start(deadline)
                    return
                if monotonic() > deadline:
                    raise StartFailed("Another command is starting a host and does not get it done.", self.log)
                sleep(POLL_S)
        finally:
            os.close(lock)  # and with it the lock

    @property
    def log(self) -> str:
        """Where a host that was started in the background writes what it has to say."""
        return self.path("host.log")

    def log_tail(self, length: int) -> str:
        """The last bytes of the log, as text; empty where there is none."""
        try:
            with open(self.log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - length))
                return file.read(length).decode(errors="replace")
        except OSError:
            return ""

    def _start(self, deadline: float) -> None:
        process = _detached(self.data_dir, self.log)
        until = deadline
        while not self._serves():
            if monotonic() > until:
                break
            if process.poll() is not None:
                until = min(until, monotonic() + ANOTHER_S)
            sleep(POLL_S)
        else:
            process.returncode = 0  # it is meant to outlive this process, so don't let `Popen` warn of that
            return
        if process.returncode is None:
            process.terminate()
            process.wait(ANOTHER_S)
            raise StartFailed(f"The host that was started does not serve after {START_S:g} s.", self.log)
        raise StartFailed(f"The host that was started ended with exit code {process.returncode}.", self.log)

    def _serves(self) -> bool:
        try:
            transport = Transport(self.address, monotonic)
            with contextlib.closing(transport):
                return transport.call(Request("GET", "/healthz"), 2).status < 300
        except ClientError:
            return False


def is_alive(pid: int) -> bool:
    """Whether a process of that number exists, be it ours or not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    except OverflowError:
        return False
    return True


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _detached(data_dir: str, log: str) -> "Popen[bytes]":
    """`antiphon serve` in a session of its own, which neither our terminal nor our end concerns."""
    from subprocess import DEVNULL, Popen  # noqa: PLC0415  10 ms that only the first command of a day needs

    with contextlib.suppress(OSError):
        if os.path.getsize(log) > LOG_BYTES_MAX:
            os.replace(log, f"{log}.1")
    environment = {name: value for name, value in os.environ.items() if name not in _FOR_CLIENTS}
    command = [sys.executable, "-P", "-m", "antiphon.cli", "serve", "--data-dir", data_dir, "--port", "0"]
    command += ["--log-level", "warning"]  # nobody looks after this log, so it must not grow with every request
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return Popen(  # noqa: S603  our own interpreter and program
            command, cwd="/", env=environment, stdin=DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    finally:
        os.close(output)
