"""Look for a seed that breaks a promise, or replay one."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from antiphon.testing.simulation.run import Outcome, simulate


def main() -> int:
    """Run the simulations that the command line asks for; 1 when one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to try")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first of them")
    parser.add_argument("--seed", type=int, help="try this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happened")
    parser.add_argument("--jobs", type=int, default=1, help="in how many processes")
    parser.add_argument("--seconds", type=float, help="stop after so much real time, however many seeds were tried")
    parser.add_argument("--hosts", type=int, default=1, help="how many hosts share the store (1)")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _replay(asked.seed, hosts=asked.hosts, trace=asked.trace)
    return _search(
        range(asked.first, asked.first + asked.seeds), hosts=asked.hosts, jobs=asked.jobs, seconds=asked.seconds
    )


def _replay(seed: int, *, hosts: int, trace: bool) -> int:
    outcome = simulate(seed, hosts=hosts, trace=trace)
    if trace:
        print("\n".join(outcome.trace))  # noqa: T201
    _tell(outcome)
    print(f"seed {seed}: {len(outcome.findings)} findings, trace {outcome.digest}")  # noqa: T201
    return bool(outcome.findings)


def _search(seeds: range, *, hosts: int, jobs: int, seconds: float | None) -> int:
    began, tried, found, commits, messages, deaths = time.perf_counter(), 0, list[int](), 0, 0, 0
    for outcome in _outcomes(seeds, partial(simulate, hosts=hosts), jobs):
        tried += 1
        commits, messages, deaths = commits + outcome.commits, messages + outcome.messages, deaths + outcome.deaths
        if outcome.findings:
            found.append(outcome.seed)
            _tell(outcome)
        if seconds is not None and time.perf_counter() - began > seconds:
            break
    took = time.perf_counter() - began
    print(  # noqa: T201
        f"{tried} seeds, {messages} messages, {commits} commits, {deaths} deaths in {took:.1f} s "
        f"({tried / took:.0f} seeds/s); {len(found)} with findings{': ' if found else ''}{' '.join(map(str, found))}"
    )
    return bool(found)


def _outcomes(seeds: range, play: Callable[[int], Outcome], jobs: int) -> Iterator[Outcome]:
    if jobs < 2:
        yield from map(play, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play, seeds, chunksize=20)


def _tell(outcome: Outcome) -> None:
    for finding in outcome.findings:
        print(f"seed {outcome.seed}: {finding}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
