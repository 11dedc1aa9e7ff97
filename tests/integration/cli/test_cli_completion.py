"""Completion in real shells, where they are installed."""

import shutil
import subprocess
from uuid import uuid4

import pytest

from clientlab.running import Installation

BASH = """
source <("$ANTIPHON" completion bash)
antiphon() { "$ANTIPHON" "$@"; }
COMP_LINE="antiphon $1"; COMP_POINT=${#COMP_LINE}
_antiphon antiphon
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(host: Installation, typed: str) -> list[str]:
    """What bash would put in for what was typed."""
    more = {"ANTIPHON": host.command, "ANTIPHON_DATA_DIR": str(host.data)}
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", typed],
        env=host.environment | more, cwd=host.work, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("sta", ["status"]),
        ("session mes", ["message"]),
        ("session message k x --when-busy ste", ["steer"]),
        ("--json permission al", ["allow"]),
        ("completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_finishes_words(typed: str, expected: list[str], host: Installation) -> None:
    assert completed(host, typed) == expected


def test_bash_finishes_sessions_with_colons_and_agents_and_files(host: Installation) -> None:
    key = f"shell{uuid4().hex}:42"
    host.run("session", "start", key, "--agent", "echo")
    (host.work / "completed.json").touch()

    assert completed(host, f"session show {key[:-8]}") == [key.replace(":", "\\:")] or completed(
        host, f"session show {key[:-8]}"
    ) == [key]
    assert completed(host, f"session show {key[:-1]}") == ["42"]
    assert completed(host, "session start k --agent ec") == ["echo"]
    assert completed(host, f"--data-dir {host.work}/none session start k --agent ec") == []
    assert completed(host, "session import completed.j") == ["completed.json"]


def test_completion_starts_no_host(alone: Installation) -> None:
    line = [alone.command, "__complete", "--data-dir", str(alone.data), "session", "show", ""]
    done = subprocess.run(
        line, env=alone.environment, cwd=alone.work, capture_output=True, text=True, timeout=20, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not alone.data.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(shell: str, host: Installation) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = host.run("completion", shell).out
    arguments = ["--no-execute", "-"] if shell == "fish" else ["-n", "/dev/stdin"]

    subprocess.run([shell, *arguments], input=script, text=True, timeout=20, check=True)
