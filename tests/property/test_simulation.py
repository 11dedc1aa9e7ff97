"""Ten thousand simulations: no promise is broken in any, each can be played again, and mistakes would be noticed."""

import os
import subprocess
import sys
from typing import Any

import pytest

from antiphon.core.commands import ResumeSession
from antiphon.host.actor import SessionActor
from antiphon.host.driver import Driver
from antiphon.host.fanout import Fanout
from antiphon.host.places import Places
from antiphon.testing.simulation import simulate
from antiphon.testing.simulation.__main__ import main

SEEDS = 10_000
CHUNK = 500
COMMAND = [sys.executable, "-m", "antiphon.testing.simulation"]


def run(*options: str, timeout_s: float = 280, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own."""
    return subprocess.run(
        [*COMMAND, *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK), ids=lambda first: f"from {first}")
def test_no_promise_is_broken_in_any_simulation(first: int) -> None:
    done = run("--from", str(first), "--seeds", str(CHUNK), "--jobs", "2")
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    assert f"{CHUNK} seeds" in done.stdout


def test_a_seed_goes_the_same_way_in_every_process() -> None:
    seeds = ["3", "14", "159"]
    ways = [
        [run("--seed", seed, PYTHONHASHSEED=hash_seed).stdout for seed in seeds] for hash_seed in ("1", "2", "random")
    ]
    assert ways[0] == ways[1] == ways[2]
    assert len(set(ways[0])) == len(seeds), "different seeds go different ways"


def test_a_seed_goes_the_same_way_whatever_was_simulated_before() -> None:
    first = simulate(26).digest
    simulate(27)
    assert simulate(26).digest == first


def test_a_trace_tells_what_happened_and_is_only_kept_when_asked_for() -> None:
    traced, plain = simulate(5, trace=True), simulate(5)
    assert traced.digest == plain.digest
    assert any("host starts" in line for line in traced.trace)
    assert plain.trace == ()


def spoil(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, replacement: Any) -> None:
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, replacement)


async def _never_written(_self: Any, _step: Any) -> bool:
    return False


def _takes_at_once(places: Any, guest: Any) -> bool:
    places._holders[guest] = None
    return True


def _tells_nobody(_fanout: Any, _session_id: str, _entries: Any) -> None:
    """Keep it to oneself."""


async def _is_deaf(driver: Any, turn_id: str) -> None:
    """Take no notice."""


FLAWS: dict[str, tuple[type, str, Any]] = {
    "a commit of unknown outcome is tried again without a look": (SessionActor, "_was_written", _never_written),
    "the limit of agents is not kept": (Places, "take", _takes_at_once),
    "nobody is told what happened": (Fanout, "publish", _tells_nobody),
    "a cancel is not carried out": (Driver, "_stop_turn", _is_deaf),
    "a turn that could not start is forgotten": (SessionActor, "_look_again", lambda _self, _seconds: None),
    "nothing of another life is settled": (SessionActor, "_host_died", lambda _self, _session: ResumeSession()),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_noticed(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, *FLAWS[flaw])
    assert any(simulate(seed).findings for seed in range(1, 200))


def test_the_command_line_replays_a_seed_and_tells_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SessionActor, "_was_written", _never_written)
    seed = next(seed for seed in range(1, 200) if simulate(seed).findings)
    findings = simulate(seed).findings
    monkeypatch.setattr(sys, "argv", ["simulation", "--seed", str(seed), "--trace"])
    assert main() == 1
    told = capsys.readouterr()
    assert all(f"seed {seed}: {finding}" in told.err for finding in findings)
    assert "host starts" in told.out
    monkeypatch.setattr(sys, "argv", ["simulation", "--from", str(seed), "--seeds", "1"])
    assert main() == 1
    assert f"1 with findings: {seed}" in capsys.readouterr().out
