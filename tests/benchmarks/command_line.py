"""The command line, against a bare interpreter's start."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.door import served_host
from benchmarks.figures import Figure, median_of

ANTIPHON = str(Path(sys.executable).with_name("antiphon"))


def command_line(root: Path, *, quick: bool) -> list[Figure]:
    """`session list`, and a send with its answer."""
    times = 9 if quick else 25
    data = root / "host"
    with served_host(data):
        options = ["--data-dir", str(data)]
        send = [ANTIPHON, "session", "message", "bench", "hello", *options]
        _seconds([*send, "--agent", "echo"])
        bare = median_of(lambda: _seconds([sys.executable, "-c", "pass"]), times)
        listed = median_of(lambda: _seconds([ANTIPHON, "session", "list", *options]), times)
        sent = median_of(lambda: _seconds(send), times)
    return [
        Figure("cli_list", "`antiphon session list`, against a bare interpreter", listed, bare, 5.0, "lower", "s"),
        Figure("cli_send", "a send and its answer, against a bare interpreter", sent, bare, 8.0, "lower", "s"),
    ]


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - began
