"""Many sessions over several real agents: a short run of what is run for longer by hand."""

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(240)
def test_busy_sessions_over_several_agents_lose_nothing_and_leave_nothing() -> None:
    command = [sys.executable, "-m", "antiphon.testing.endurance", "--seconds", "10", "--sessions", "10"]
    done = subprocess.run([*command, "--max-agents", "6"], capture_output=True, text=True, timeout=230, check=False)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["findings"] == [], done.stderr
    assert done.returncode == 0
    assert set(report["agents"]) >= {"echo", "command"}
    assert report["ends"]["answered"] > 10
    assert report["processes_most"] > 3
