"""Ten thousand simulations of one host, and some hundred of several: no promise is broken in any, each can be played
again, and mistakes would be noticed."""

import asyncio
import contextlib
import os
import subprocess
import sys
from typing import Any

import pytest

from antiphon.core.commands import ResumeSession
from antiphon.host import at_hand
from antiphon.host.actor import SessionActor
from antiphon.host.driver import Driver
from antiphon.host.fanout import Fanout
from antiphon.host.neighbours import Neighbours
from antiphon.host.places import Places
from antiphon.testing.simulation import simulate
from antiphon.testing.simulation.__main__ import main
from antiphon.testing.simulation.freezing import FreezingLoop
from antiphon.testing.simulation.wire import Life, own_tasks

SEEDS = 10_000
CHUNK = 500
TOGETHER = ((2, 100), (3, 100))
"""How many seeds are tried with how many hosts over one store."""
SHOWN = (
    (1, 2332),
    (1, 4050),
    (3, 27),
    (3, 36),
    (3, 42),
    (3, 76),
    (3, 115),
    (3, 154),
    (3, 159),
    (3, 162),
    (3, 171),
    (3, 213),
    (3, 2045),
    (3, 2083),
    (3, 5029),
    (3, 5150),
    (2, 7186),
    (3, 8039),
    (3, 8331),
)
"""Numbers of hosts and seeds that have shown a flaw."""
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("hosts", "seeds"), TOGETHER)
def test_no_promise_is_broken_by_several_hosts_over_one_store(hosts: int, seeds: int) -> None:
    done = run("--hosts", str(hosts), "--seeds", str(seeds), "--jobs", "2")
    assert done.returncode == 0, f"replay with --hosts {hosts} --seed N --trace\n{done.stderr}\n{done.stdout}"
    assert f"{seeds} seeds" in done.stdout


@pytest.mark.parametrize(("hosts", "seed"), SHOWN)
def test_what_a_seed_once_showed_is_mended(hosts: int, seed: int) -> None:
    assert not simulate(seed, hosts=hosts).findings


@pytest.mark.parametrize("hosts", ["1", "3"])
def test_a_seed_goes_the_same_way_in_every_process(hosts: str) -> None:
    seeds = ["3", "14", "159"]
    ways = [
        [run("--hosts", hosts, "--seed", seed, PYTHONHASHSEED=hash_seed).stdout for seed in seeds]
        for hash_seed in ("1", "2", "random")
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


def spoil(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, replacement: Any) -> None:
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


async def _never_looks(_neighbours: Any, _take_up: Any) -> None:
    await asyncio.Event().wait()


FLAWS_TOGETHER: dict[str, tuple[Any, str, Any]] = {
    "what was edited at another door is not heard": (at_hand, "_REWRITES", set()),
    "a host that lost a session keeps its agent": (SessionActor, "_lose", lambda self: self._ownership.lose()),
    "nobody takes up what a dead host left": (Neighbours, "keep_looking", _never_looks),
    "what other hosts write is not heard": (Fanout, "moved", lambda _self, _session_id: None),
}


@pytest.mark.parametrize("flaw", FLAWS_TOGETHER)
def test_a_flaw_of_hosts_that_share_a_store_is_noticed(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, *FLAWS_TOGETHER[flaw])
    assert any(simulate(seed, hosts=3).findings for seed in range(1, 200))


def test_a_life_that_stands_still_goes_on_where_it_stood_and_late_while_others_do_not_wait_for_it() -> None:
    loop = FreezingLoop()
    own_tasks(loop)
    life, done, others = Life(loop, 1), list[tuple[int, float]](), list[float]()

    async def work() -> None:
        for number in range(3):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.sleep(60)
            done.append((number, loop.time()))

    async def world() -> None:
        task = life.spawn(work())
        await asyncio.sleep(1.5)
        life.freeze()
        for _ in range(3):
            await asyncio.sleep(3)
            others.append(loop.time())
        assert done == [(0, 1.0)]
        life.thaw()
        await task

    loop.run_until_complete(world())
    loop.close()
    assert others == [4.5, 7.5, 10.5]
    assert done == [(0, 1.0), (1, 10.5), (2, 11.5)]


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
