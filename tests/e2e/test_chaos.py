"""Chaos, briefly: hosts, lines and the database fail under load, and nothing is lost, doubled or told by two."""

import json
import subprocess
import sys

import pytest

SEED = "6"
"""Of an order in which every kind of fault comes early."""


@pytest.mark.timeout(400)
def test_hosts_over_a_database_that_fails_lose_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "antiphon.testing.chaos", "--seconds", "40", "--seed", SEED],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["findings"] == [], done.stderr[-4000:]
    assert done.returncode == 0
    assert report["host_kills"] >= 1
    assert report["freezes"] >= 1
    assert report["database_restarts"] >= 1
    assert report["failovers"] >= 1
    assert report["messages"] >= 50
