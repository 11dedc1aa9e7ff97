"""A host driven from outside, as a person or a program would: its command line, its HTTP, its signals.

Nothing here imports antiphon, so that the command under test may be any installation.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlsplit

ENDS = ("answered", "failed", "cancelled", "interrupted", "withdrawn")
PATIENCE_S = 10.0
T = TypeVar("T")


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Answer(NamedTuple):
    """An HTTP answer whose body, if any, was JSON."""

    status: int
    headers: http.client.HTTPMessage
    json: Any


def until(look: Callable[[], T | None], what: str, seconds: float = PATIENCE_S) -> T:
    """Look until there is something to see; what was seen."""
    deadline = time.monotonic() + seconds
    while True:
        if seen := look():
            return seen
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


def together(*calls: Callable[[], T]) -> list[T]:
    """Make calls at the same moment, each on its thread; their results in order, or the first error."""
    barrier = threading.Barrier(len(calls))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(place: int, call: Callable[[], T]) -> None:
        try:
            barrier.wait(PATIENCE_S)
            results[place] = call()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller below
            errors.append(error)

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive(), "a call never came back"
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(calls))]


class Command(subprocess.Popen[str]):
    """A command that runs."""

    def finish(self, seconds: float = 30) -> Done:
        """Wait for its end; one that outlasts `seconds` is killed, and the test fails."""
        try:
            out, err = self.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.communicate()
            raise AssertionError(f"no end within {seconds:g} s: {self.args} said {out!r} {err!r}") from None
        assert "Traceback (most recent call last)" not in err, err
        return Done(self.returncode, out, err)


class Host:
    """A data directory with a host on it, and the commands that talk to that host.

    `store` is where the host keeps its sessions, in the environment of all that is started here.
    """

    def __init__(self, command: str, home: Path, store: str = "sqlite") -> None:
        self.command, self.home = command, home
        self.data, self.work, self.log = home / "data", home / "work", home / "serve.log"
        self.work.mkdir(parents=True)
        places = {f"XDG_{kind}_HOME": str(home / "xdg") for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON", "PYTHON"))}
        self.environment = own | places | {"E2E_HOME": str(home), "ANTIPHON_STORE": store}
        self.process: subprocess.Popen[bytes] | None = None
        self.commands: list[Command] = []
        self.ready: dict[str, Any] = {}

    # Its life

    def start(self, *options: str) -> Self:
        """Serve, and wait until `ready.json` names the new process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.command, "serve", "--port", "0", "--data-dir", str(self.data), *options],
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process = self.process

        def up() -> bool:
            assert process.poll() is None, f"the host ended while it started:\n{self.log.read_text()[-2000:]}"
            return self.read_ready() and self.ready["pid"] == process.pid

        until(up, f"a host that serves; so far it said: {self.log.read_text()[-2000:]}", 30)
        return self

    def read_ready(self) -> bool:
        """Read `ready.json`, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.ready = json.loads((self.data / "ready.json").read_text())
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send the host a signal."""
        assert self.process
        self.process.send_signal(number)

    def wait(self, seconds: float = 30) -> int:
        """Wait for the host's end; its exit code."""
        assert self.process
        return self.process.wait(seconds)

    def stop(self, seconds: float = 30) -> int:
        """SIGTERM and wait; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def serving(self) -> set[int]:
        """The processes that serve this data directory, however they were started."""
        return {pid for pid in self._mine() if b"serve" in _read(pid, "cmdline").split(b"\0")}

    def _mine(self) -> Iterator[int]:
        mark = f"E2E_HOME={self.home}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and mark in _read(int(entry.name), "environ").split(b"\0"):
                yield int(entry.name)

    def close(self) -> None:
        """End everything that was started here and still runs."""
        for command in self.commands:
            if command.poll() is None:
                command.kill()
            command.communicate()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.serving() or self._mine():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + 5
            while set(self._mine()) and time.monotonic() < deadline:
                time.sleep(0.02)
        if self.process:
            self.process.wait(5)

    # Its command line

    def later(self, *args: str, stdin: str = "", env: dict[str, str] | None = None) -> Command:
        """Start a command for this data directory; it ends with `finish`."""
        command = Command(
            [self.command, *args, "--data-dir", str(self.data)],
            cwd=self.work,
            env=self.environment | (env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert command.stdin
        with contextlib.suppress(BrokenPipeError):
            command.stdin.write(stdin)
            command.stdin.close()
        command.stdin = None
        self.commands.append(command)
        return command

    def cli(self, *args: str, stdin: str = "", seconds: float = 30, env: dict[str, str] | None = None) -> Done:
        """Run a command to its end."""
        return self.later(*args, stdin=stdin, env=env).finish(seconds)

    # Its HTTP

    def connect(self) -> http.client.HTTPConnection:
        """A new connection to the address that `ready.json` names."""
        place = urlsplit(self.ready["url"])
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)

    def api(self, method: str, path: str, body: Any = None, *, connection: Any = None, **headers: str) -> Answer:
        """One request under `/v1`; underscores in the names of headers become hyphens."""
        own = {"Authorization": f"Bearer {self.ready['token']}", "Content-Type": "application/json"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        line = connection or self.connect()
        try:
            line.request(method, f"/v1{path}", None if body is None else json.dumps(body), own | more)
            response = line.getresponse()
            raw = response.read()
        finally:
            if connection is None:
                line.close()
        return Answer(response.status, response.headers, json.loads(raw) if raw else None)

    def session(self, **fields: Any) -> str:
        """Make an echo session that works in `self.work`; its id."""
        answer = self.api("POST", "/sessions", {"agent": "echo", "cwd": str(self.work)} | fields)
        assert answer.status == 201, answer
        return answer.json["id"]

    def post(self, ref: str, text: str, **fields: Any) -> Answer:
        """Send a message and don't wait for its end."""
        return self.api("POST", f"/sessions/{quote(ref, safe='')}/messages", {"text": text} | fields)

    def receipt(self, message_id: str) -> dict[str, Any]:
        """A message's receipt as it stands."""
        answer = self.api("GET", f"/messages/{message_id}")
        assert answer.status == 200, answer
        return answer.json

    def ended(self, message_id: str, seconds: float = PATIENCE_S) -> dict[str, Any]:
        """The receipt of a message that must come to its end."""

        def end() -> dict[str, Any] | None:
            now = self.receipt(message_id)
            return now if now["state"] in ENDS else None

        return until(end, f"the end of {message_id}", seconds)

    def events(self, ref: str) -> list[dict[str, Any]]:
        """All events of a session so far."""
        return list(self._pages(f"/sessions/{quote(ref, safe='')}/events"))

    def transcript(self, ref: str) -> list[dict[str, Any]]:
        """The conversation of a session."""
        answer = self.api("GET", f"/sessions/{quote(ref, safe='')}/transcript")
        assert answer.status == 200, answer
        return answer.json["items"]

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            answer = self.api("GET", f"{path}{after}")
            assert answer.status == 200, answer
            yield from answer.json["items"]
            if not answer.json["items"] or not answer.json["next_cursor"]:
                return
            after = f"?after={quote(answer.json['items'][-1]['cursor'])}"

    # Echo sessions

    def held(
        self, ref: str, text: str, gate: str = "gate", seconds: float = PATIENCE_S
    ) -> tuple[Command, dict[str, Any]]:
        """Send, from the command line, a message whose turn runs until `release`; the sender and the receipt."""
        sender = self.later("session", "message", ref, f"[[hold {gate}]] {text}")

        def running() -> dict[str, Any] | None:
            assert sender.poll() is None, sender.finish()
            turns = [event for event in self.events(ref) if event["type"] == "turn.started"]
            if not turns:
                return None
            turn = self.api("GET", f"/turns/{turns[-1]['turn_id']}").json
            return self.receipt(turn["message_ids"][0]) if turn["state"] == "running" else None

        return sender, until(running, "a turn that runs", seconds)

    def release(self, gate: str = "gate") -> None:
        """Let a held turn go on."""
        (self.work / gate).touch()


def types(events: Iterable[dict[str, Any]]) -> list[str]:
    """The types of events, in their order."""
    return [event["type"] for event in events]


def _read(pid: int, what: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{what}").read_bytes()
    return b""
