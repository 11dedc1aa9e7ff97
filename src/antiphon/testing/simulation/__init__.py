"""A deterministic simulation of hosts: virtual time, seeded faults, scripted agents, many clients, and a checker.

    outcome = simulate(4711)
    assert not outcome.findings, outcome.findings

`python -m antiphon.testing.simulation --seeds 1000` looks for a seed that breaks a promise, `--seed N --trace` replays
one. With `--hosts 3` (`simulate(4711, hosts=3)`) three hosts share one store, and clients call any of them. Then hosts
freeze for longer than their lease while their agents talk on, lose the store, are taken for dead while they work, are
drained and restarted, and hear late of each other.
"""

from antiphon.testing.simulation.run import Outcome, simulate

__all__ = ["Outcome", "simulate"]
