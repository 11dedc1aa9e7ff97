"""The host under torture: started, killed, started again on the same data directory, ended in good order."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

START_S = 30.0
STOP_S = 40.0


class Troubled(Exception):
    """The host did something that no host may do; the text says what."""


class Victim:
    """A real `antiphon serve`. Its output is kept in a file beside the data directory."""

    def __init__(
        self, root: Path, *, arguments: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """A host in the directory `root`, with further arguments and what is added to its environment."""
        self.data_dir = root / "data"
        self.log = root / "serve.log"
        self._arguments = arguments
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; how long it took until it served, in seconds.

        Raises:
            Troubled: It ended, or does not serve within 30 s.
        """
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "antiphon.cli",
            "serve",
            "--data-dir",
            str(self.data_dir),
            "--log-level",
            "warning",
            *self._arguments,
        ]
        environment = {**os.environ, "ANTIPHON_STORE": "sqlite", **self._environment}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while time.monotonic() < began + START_S:
            if self._process.poll() is not None:
                code, said = self._process.returncode, self.said()[-500:]
                raise Troubled(f"the host ended while starting, with {code}: {said}")
            if self._ready_pid() == self._process.pid:
                return time.monotonic() - began
            time.sleep(0.02)
        raise Troubled(f"the host does not serve {START_S:g} s after its start: {self.said()[-500:]}")

    def _ready_pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.data_dir / "ready.json").read_text())["pid"]
        return None

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process, "only a host that was started can be killed"
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing at all until it is thawed. Its agents go on."""
        assert self._process, "only a host that was started can be frozen"
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process, "only a host that was started can be thawed"
        self._process.send_signal(signal.SIGCONT)

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """SIGTERM, and its end.

        Raises:
            Troubled: It does not end, or with another code than 0.
        """
        assert self._process, "only a host that was started can be stopped"
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Troubled(f"the host did not end within {STOP_S:g} s of SIGTERM") from None
        if code != 0:
            raise Troubled(f"the host ended with {code} after SIGTERM: {self.said()[-500:]}")

    def end(self) -> None:
        """Leave nothing of it, however things stand."""
        if self._process and self._process.poll() is None:
            self.kill()

    def said(self) -> str:
        """What it has printed so far, over all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def left_behind(self) -> list[int]:
        """The processes that work below the data directory: agents that should be gone once the host is."""
        return list(self.places())

    def places(self) -> dict[int, Path]:
        """Where each of the processes that work below the data directory does so."""
        return {pid: place for pid, place in _working_directories() if place.is_relative_to(self.data_dir)}


def _working_directories() -> Iterator[tuple[int, Path]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "cwd").readlink()
