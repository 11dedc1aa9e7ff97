"""A real host and real commands, as processes."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

START_S = 20.0


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


class Installation:
    """An `antiphon` command with a data directory of its own. `close` ends whatever host serves it."""

    def __init__(self, command: str, root: Path) -> None:
        self.command, self.data, self.work = command, root / "data", root / "work"
        self.work.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON")}
        self.environment = kept | {"XDG_DATA_HOME": str(root / "xdg"), "COLUMNS": "100"}
        self.served: subprocess.Popen[bytes] | None = None
        self._commands: list[subprocess.Popen[str]] = []

    def popen(self, *args: str, **settings: Any) -> subprocess.Popen[str]:
        """Start a command for this data directory."""
        environment = self.environment | settings.pop("env", {})
        defaults: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8",
        }  # fmt: skip
        line = [self.command, "--data-dir", str(self.data), *args]
        command = subprocess.Popen(line, cwd=self.work, env=environment, **(defaults | settings))
        self._commands.append(command)
        return command

    def run(self, *args: str, stdin: str | None = None, seconds: float = 20, **settings: Any) -> Done:
        """Run a command to its end."""
        with self.popen(*args, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, **settings) as process:
            try:
                out, err = process.communicate(stdin, timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def ready(self) -> dict[str, Any]:
        """What ready.json says; nothing where there is none."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return json.loads((self.data / "ready.json").read_text())
        return {}

    def serve(self) -> Self:
        """Run a host in the foreground of this test, and wait until it serves."""
        old = self.ready().get("pid")
        with (self.work / "serve.log").open("ab") as log:
            line = [self.command, "serve", "--data-dir", str(self.data), "--port", "0"]
            self.served = subprocess.Popen(line, cwd=self.work, env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while self.ready().get("pid") in (None, old):
            assert self.served.poll() is None, (self.work / "serve.log").read_text()
            assert time.monotonic() < deadline, "the host does not serve"
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """End the host as a crash would."""
        assert self.served
        self.served.kill()
        self.served.wait(10)

    def stop(self) -> None:
        """End the host in good order."""
        assert self.served
        self.served.terminate()
        assert self.served.wait(30) == 0

    def close(self) -> None:
        """End the commands that still run, and the host that serves this directory, whoever started it."""
        for command in self._commands:
            if command.poll() is None:
                command.kill()
            for stream in (command.stdin, command.stdout, command.stderr):
                if stream:
                    stream.close()
            command.wait(10)
        if self.served and self.served.poll() is None:
            self.served.terminate()
            try:
                self.served.wait(15)
            except subprocess.TimeoutExpired:
                self.served.kill()
                self.served.wait(10)
        pid = self.ready().get("pid")
        if pid and pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                until(lambda: not self.ready(), "end of the host that a command started", 15)

    def release(self, name: str) -> None:
        """Let an echo turn go on that was told to `[[hold NAME]]`."""
        (self.work / name).touch()


def until(question: Any, what: str, seconds: float = 30) -> Any:
    """Ask again and again until the answer is truthy; fail when the time is up."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.01)
    return answer
