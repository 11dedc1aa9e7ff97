"""Every command, in any order, with right and stale names, against a plain model that was written from the contract."""

import os
import random
from collections.abc import Callable

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from models.life import AGENT, CLIENTS, OWNER, Act, Life

LIVES = 5000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 150
COMMANDS = 250


@pytest.mark.parametrize("seed", range(LIVES))
def test_whatever_happens_in_a_long_life_is_as_the_model_says(seed: int) -> None:
    """More than Hypothesis could try. The commands of a life that went wrong are in the failure's output."""
    fate = random.Random(seed)
    life = Life(fate.randrange, print)
    for _ in range(COMMANDS):
        fate.choice(fate.choice((CLIENTS, OWNER, AGENT)))(life)
        life.check()
        if life.model.gone and not fate.randrange(20):
            break
    life.end()


def _drawn(data: st.DataObject) -> Callable[[int], int]:
    def choose(n: int) -> int:
        return data.draw(st.integers(0, n - 1))

    return choose


class CoreMachine(RuleBasedStateMachine):
    """A life whose every turn of fate is Hypothesis's to choose, and to shorten when it ends badly."""

    life: Life

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.life = Life(_drawn(data), note)

    def _happens(self, act: Act, data: st.DataObject) -> None:
        self.life.choose = _drawn(data)
        act(self.life)

    @rule(act=st.sampled_from(CLIENTS), data=st.data())
    def a_client(self, act: Act, data: st.DataObject) -> None:
        self._happens(act, data)

    @rule(act=st.sampled_from(OWNER), data=st.data())
    def the_owner(self, act: Act, data: st.DataObject) -> None:
        self._happens(act, data)

    @rule(act=st.sampled_from(AGENT), data=st.data())
    def the_agent(self, act: Act, data: st.DataObject) -> None:
        self._happens(act, data)

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        self.life.check()

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.life.end()


TestCoreMachine = CoreMachine.TestCase
