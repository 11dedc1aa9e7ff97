"""A first look at antiphon: an answer, then a refusal beside a running turn whose answer arrives all the same.

It drives the installed command line and nothing else, on a data directory of its own that is gone afterwards; the agent
is the built-in `echo`, so no key and no network are needed. It exits 1 when anything goes another way than it says.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("antiphon")
COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ
PATIENCE_S = 20.0


class WentWrong(Exception):
    """Something did not go as the demo says it does."""


def say(text: str = "", *, colour: int | None = None) -> None:
    """Print a line, coloured on a terminal; no meaning is in the colour alone."""
    print(f"\033[{colour}m{text}\033[0m" if COLOURS and colour else text, flush=True)


def told(process: subprocess.Popen[str], *, code: int, answer: str, means: str) -> None:
    """Show what a command printed, and its exit code; stdout must be `answer`."""
    out, err = process.communicate(timeout=PATIENCE_S)
    for line in (out + err).splitlines():
        say(textwrap.fill(line, 110, initial_indent="    ", subsequent_indent="    ", break_long_words=False))
    if process.returncode != code:
        raise WentWrong(f"exit {process.returncode} instead of {code}")
    if out != answer:
        raise WentWrong(f"stdout is not {answer!r}")
    say(f"    exit {code}: {means}", colour=2)


class Demo:
    """One host on a temporary directory, and the commands sent to it."""

    def __init__(self, place: Path) -> None:
        self.data, self.work, self.log = place / "data", place / "work", place / "serve.log"
        self.work.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON")}

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the host and wait until it serves."""
        say("$ antiphon serve &", colour=1)
        command = [COMMAND, "serve", "--port", "0", "--data-dir", self.data]
        with self.log.open("wb") as log:
            host = subprocess.Popen(command, cwd=self.work, env=self.environment, stdout=log, stderr=log)
        ready = self.data / "ready.json"
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            if host.poll() is not None or time.monotonic() > deadline:
                raise WentWrong("the host did not start")
            time.sleep(0.02)
        say(f"    serving at {json.loads(ready.read_text())['url']}, all data under {self.data}")
        return host

    def antiphon(self, *args: str, shown: bool = True, background: bool = False) -> subprocess.Popen[str]:
        """Start a command for this host, shown as a person would type it."""
        if shown:
            words = [f'"{word}"' if " " in word else word for word in args]
            say(f"$ antiphon {' '.join(words)}{' &' if background else ''}", colour=1)
        command = [COMMAND, *args, "--data-dir", self.data]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def asked(self, *args: str) -> Any:
        """What a command says with `--json`, not shown."""
        process = self.antiphon(*args, "--json", shown=False)
        out, err = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise WentWrong(f"{' '.join(args)}: exit {process.returncode}: {err}")
        return json.loads(out)

    def until_running(self) -> None:
        """Wait until the session's turn runs."""
        deadline = time.monotonic() + PATIENCE_S
        while (status := self.asked("session", "show", "desk")["status"]) != "running":
            if time.monotonic() > deadline:
                raise WentWrong(f"the turn does not run; the session is {status}")
            time.sleep(0.05)

    def conversation(self) -> None:
        """An answer, a refusal beside a running turn, the answer of that turn."""
        hello = self.antiphon("session", "message", "desk", "Hello, who is there?", "--agent", "echo")
        told(
            hello,
            code=0,
            answer="echo: Hello, who is there?\n",
            means="answered; stdout is the answer and nothing else",
        )
        say("\nA turn that takes its time, and beside it a message that does not want to wait:")
        first = self.antiphon("session", "message", "desk", "[[hold gate]] The long answer.", background=True)
        self.until_running()
        second = self.antiphon("session", "message", "desk", "Me too!", "--when-busy", "refuse")
        told(second, code=3, answer="", means="refused; nothing else has changed")
        if first.poll() is not None:
            raise WentWrong("the first sender was sent away")
        say("$ touch gate    # lets the held turn go on", colour=1)
        (self.work / "gate").touch()
        told(first, code=0, answer="echo: The long answer.\n", means="the first sender has its own answer")

    def receipts(self) -> None:
        """What became of every message that was accepted."""
        say("\nThe receipts. The refused message has none: it was never accepted.")
        transcript = self.asked("session", "transcript", "desk")["items"]
        ids = [line["message_id"] for line in transcript if line["role"] == "user"]
        for message_id in ids:
            receipt = self.asked("message", "show", message_id)
            say(f"    {receipt['id']}  {receipt['state']}  {receipt['turn_id']}  {receipt['reply']!r}")
        if len(ids) != 2:
            raise WentWrong("the transcript holds something else than the two accepted messages")

    def stop(self, host: subprocess.Popen[bytes]) -> None:
        """End the host in good order."""
        say("\n$ kill %1", colour=1)
        host.send_signal(signal.SIGTERM)
        if host.wait(PATIENCE_S):
            raise WentWrong(f"the host ended with {host.returncode}")
        if (self.data / "ready.json").exists():
            raise WentWrong("the host left its ready.json behind")
        say("    exit 0: the host has ended in good order", colour=2)
        say("\nYour turn: docs/tutorial/first-session.md")


def play(place: Path) -> None:
    """The demo from start to end; the host never outlives it."""
    demo = Demo(place)
    host = None
    say("One conversation, two senders; the agent is the built-in echo.\n")
    try:
        host = demo.serve()
        demo.conversation()
        demo.receipts()
        demo.stop(host)
    except (WentWrong, subprocess.TimeoutExpired):
        if demo.log.exists():
            say(demo.log.read_text()[-2000:])
        raise
    finally:
        if host is not None and host.poll() is None:
            host.kill()
            host.wait()


def main() -> int:
    """Play the demo; 1 when it went wrong."""
    with tempfile.TemporaryDirectory(prefix="antiphon-demo-") as place:
        try:
            play(Path(place))
        except (WentWrong, subprocess.TimeoutExpired) as error:
            say(f"The demo went wrong: {error}", colour=31)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
