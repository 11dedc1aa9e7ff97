"""Pages of documentation carried out: files written, commands typed into one shell, their output compared.

In a page, a fenced block with the language

- `console` is a dialogue with a shell: `$ ` begins a command, `> ` continues it, the rest is what it prints, stdout and
  stderr together. In what it prints `…` stands for anything within a line, and a line `…` for any lines.
- any other language with `file=NAME` behind it is a file that the reader is asked to write.
- `python` without `file=` is a program that the reader is asked to run.
"""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
END = "\x1e"
COMMAND_S = 60.0


class Step(NamedTuple):
    """One thing that a page asks for: `kind` is `file`, `python` or `command`."""

    kind: str
    what: str
    body: str


def steps(page: str) -> Iterator[Step]:
    """What a page asks its reader to do, in order."""
    for block in BLOCK.finditer(page):
        language, _, rest = block["info"].strip().partition(" ")
        if rest.startswith("file="):
            yield Step("file", rest.removeprefix("file="), block["body"])
        elif language == "python":
            yield Step("python", "", block["body"])
        elif language == "console":
            yield from dialogue(block["body"])


def dialogue(body: str) -> Iterator[Step]:
    """The commands of a console block, each with what it should print."""
    for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        lines = command.splitlines()
        typed = [lines[0]]
        while len(typed) < len(lines) and lines[len(typed)].startswith("> "):
            typed.append(lines[len(typed)].removeprefix("> "))
        printed = [line for line in lines[len(typed) :] if line.strip()]
        yield Step("command", "\n".join(typed), "\n".join(printed))


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what the page says."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n"
    said = "".join(f"{line}\n" for line in printed.splitlines() if line.strip())
    return re.fullmatch(pattern, said) is not None


class Shell:
    """One bash that keeps its directory, its variables and its background jobs from command to command."""

    def __init__(self, cwd: Path, environment: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """Type a command, and wait for its end; what it printed."""
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin
        assert stdout
        alarm = threading.Timer(COMMAND_S, self.close)
        alarm.start()
        stdin.write(f"(exit ${{status:-0}})\n{{ {command}\n}} </dev/null\nstatus=$?\nprintf '{END}\\n'\n")
        printed: list[str] = []
        for line in stdout:
            if END in line:
                alarm.cancel()
                return "".join(printed) + line.partition(END)[0]
            printed.append(line)
        raise AssertionError(f"no end within {COMMAND_S:g} s: {command}; so far: {''.join(printed)}")

    def close(self) -> None:
        """End the shell and what it still runs."""
        if self._bash.poll() is None:
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        for pipe in (self._bash.stdin, self._bash.stdout):
            if pipe:
                pipe.close()


def carry_out(page: Path, cwd: Path, environment: dict[str, str]) -> int:
    """Do everything that a page asks for; the number of its steps. A step that goes another way fails."""
    shell, done = Shell(cwd, environment), 0
    try:
        for step in steps(page.read_text()):
            done += 1
            if step.kind == "file":
                (cwd / step.what).write_text(step.body)
            elif step.kind == "python":
                _run_python(step.body, cwd, environment)
            else:
                printed = shell.run(step.what)
                assert matches(step.body, printed), f"$ {step.what}\nprinted:\n{printed}\nthe page says:\n{step.body}"
    finally:
        shell.close()
    return done


def _run_python(program: str, cwd: Path, environment: dict[str, str]) -> None:
    python = shutil.which("python", path=environment["PATH"])
    command = [str(python), "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{program}\n{done.stderr}"
