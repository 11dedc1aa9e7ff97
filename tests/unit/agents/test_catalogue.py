"""An agent's adapter is found by its name, or as `module:class`."""

import pytest

from antiphon.agents.catalogue import UnknownAdapter, build
from antiphon.agents.echo import EchoAgent


@pytest.mark.parametrize("adapter", ["echo", "antiphon.agents.echo:EchoAgent"])
def test_an_adapter_is_built_in_or_named_by_its_module_and_class(adapter: str) -> None:
    agent = build(adapter, "parrot", {})

    assert isinstance(agent, EchoAgent)
    assert agent.name == "parrot"


@pytest.mark.parametrize("adapter", ["nonsense", "no.such.module:Agent", "antiphon.agents.echo:Nobody"])
def test_an_adapter_that_is_not_there_is_told_with_the_agents_name(adapter: str) -> None:
    with pytest.raises(UnknownAdapter, match="parrot") as told:
        build(adapter, "parrot", {})

    assert adapter in str(told.value)


def test_options_that_an_adapter_does_not_take_are_told() -> None:
    with pytest.raises(UnknownAdapter, match="parrot"):
        build("command", "parrot", {"nonsense": 1})
