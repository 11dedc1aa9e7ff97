"""The torture, briefly: a real host is killed under load again and again, and nothing is lost, doubled or mixed up."""

import json
import subprocess
import sys


def test_a_host_that_is_killed_over_and_over_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "antiphon.testing.torture", "--seconds", "20", "--seed", "7", "--processes", "2"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["findings"] == [], done.stderr[-2000:]
    assert done.returncode == 0
    assert report["kills"] >= 2
    assert report["messages"] >= 50
