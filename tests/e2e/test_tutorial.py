"""The tutorial and the how-tos work as they are written: every block is carried out against a real host."""

from pathlib import Path

import pytest

from e2e.console import carry_out, dialogue, matches
from e2e.driver import Host

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    "tutorial/first-session.md",
    "how-to/bots-and-cron.md",
    "how-to/follow-a-session.md",
    "reference/python-client.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_goes_as_it_is_written(page: str, quiet_host: Host) -> None:
    home = quiet_host.home / "home"
    home.mkdir()
    path = f"{Path(quiet_host.command).parent}:{quiet_host.environment['PATH']}"
    environment = quiet_host.environment | {"HOME": str(home), "PATH": path, "NO_COLOR": "1"}

    assert carry_out(DOCS / page, quiet_host.work, environment) > 0


def test_output_is_compared_line_by_line_and_an_ellipsis_stands_for_anything() -> None:
    assert matches("a … c\n…\nend", "a b c\nmore\nand more\nend\n")
    assert matches("", "\n")
    assert not matches("a", "a\nb\n")
    assert not matches("a\nb", "a\n")
    assert not matches("a …", "b c\n")


def test_a_dialogue_is_commands_with_what_they_print() -> None:
    (first, second) = dialogue("$ one \\\n> two\nsaid\n$ three\n")
    assert (first.what, first.body) == ("one \\\ntwo", "said")
    assert (second.what, second.body) == ("three", "")
