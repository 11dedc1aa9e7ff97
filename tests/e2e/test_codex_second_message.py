"""A second message to the real Codex: steer, interrupt, collect, with the receipts of all involved."""

from collections.abc import Callable

import pytest

from e2e import test_codex_from_outside as outside
from e2e.driver import Host
from e2e.model import Model
from e2e.second_message import STORIES
from e2e.stores import ON_BOTH

model = outside.model


@ON_BOTH
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_second_message_does_what_its_mode_says(
    quiet_host: Host, model: Model, story: Callable[[Host, Model, str], None]
) -> None:
    quiet_host.start(*outside.configure(quiet_host, model))
    story(quiet_host, model, "codex")
