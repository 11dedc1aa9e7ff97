"""The torture, briefly: a real host is killed under load again and again, and nothing is lost, doubled or mixed up."""

import json
import subprocess
import sys

import pytest

from e2e.stores import ON_BOTH


@ON_BOTH
@pytest.mark.timeout(420)
def test_a_host_that_is_killed_over_and_over_loses_nothing(store: str) -> None:
    seconds, least = (20, 50) if store == "sqlite" else (15, 10)
    command = [sys.executable, "-m", "antiphon.testing.torture", "--seconds", str(seconds), "--seed", "7"]
    command += ["--processes", "2", "--store", store]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["findings"] == [], done.stderr[-2000:]
    assert done.returncode == 0
    assert report["kills"] >= 2
    assert report["messages"] >= least
