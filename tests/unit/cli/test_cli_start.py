"""What a command loads. The terminal's views are installed with antiphon; only they pay for what draws them."""

import subprocess
import sys
from pathlib import Path

import pytest

DRAWING = {"textual", "rich", "markdown_it", "pygments", "asyncio", "httpx2", "antiphon.terminal"}


@pytest.mark.parametrize("line", [("session", "list"), ("session", "message", "k", "hello"), ("session", "watch", "k")])
def test_other_commands_load_nothing_that_draws(line: tuple[str, ...], tmp_path: Path) -> None:
    argv = [*line, "--no-start", "--data-dir", str(tmp_path)]
    code = f"import sys; from antiphon.cli.program import run; run({argv!r}); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert "no host" in done.stderr.lower()
    assert not DRAWING & set(done.stdout.split())


def test_a_view_that_can_not_be_drawn_loads_nothing_that_draws(tmp_path: Path) -> None:
    code = "import sys; from antiphon.cli.program import run; print(run(['board'])); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.startswith("2\n")
    assert not DRAWING & set(done.stdout.split())
