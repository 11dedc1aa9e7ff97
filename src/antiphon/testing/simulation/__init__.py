"""A deterministic simulation of a host: virtual time, seeded faults, scripted agents, many clients, and a checker.

    outcome = simulate(4711)
    assert not outcome.findings, outcome.findings

`python -m antiphon.testing.simulation --seeds 1000` looks for a seed that breaks a promise, `--seed N --trace` replays
one.
"""

from antiphon.testing.simulation.run import Outcome, simulate

__all__ = ["Outcome", "simulate"]
