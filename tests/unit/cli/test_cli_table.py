"""The table of commands, and what is made of it."""

import inspect
from importlib import import_module

import pytest

from antiphon.cli.grammar import KINDS, Command
from antiphon.cli.helping import help_for, usage
from antiphon.cli.reading import read
from antiphon.cli.table import COMMANDS, EXIT_CODES, GLOBALS, GROUPS, STATUSES, WHEN_BUSY
from antiphon.core import words

CONTRACT = """serve; session start message list show watch transcript stop resume clear rename delete export import;
message show wait edit withdraw; turn show wait cancel; permission list allow deny; agent list check; status; doctor;
token create list revoke"""

EACH = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command.path))


def test_every_command_of_the_contract_is_there() -> None:
    paths = {command.path for command in COMMANDS}
    for entry in CONTRACT.split(";"):
        group, *names = entry.split()
        assert {(group, name) for name in names} <= paths if names else (group,) in paths


def test_the_closed_sets_of_words_are_those_of_the_core() -> None:
    assert words.WhenBusy.__args__ == WHEN_BUSY  # pyright: ignore[reportAttributeAccessIssue]
    assert words.SessionStatus.__args__ == STATUSES  # pyright: ignore[reportAttributeAccessIssue]


@EACH
def test_what_runs_a_command_is_there(command: Command) -> None:
    module, _, name = command.runs.partition(":")
    function = getattr(import_module(f"antiphon.cli.commands.{module}"), name)

    assert list(inspect.signature(function).parameters) == ["context", "given"]


@EACH
def test_a_command_can_be_read_and_explained(command: Command) -> None:
    options = [*command.options, *GLOBALS]
    names = [name for option in options for name in (option.name, option.short) if name]
    assert len(names) == len(set(names))
    for option in options:
        assert option.kind in KINDS
        assert (option.kind == "flag") is not bool(option.value)
        assert option.help.endswith(".")
    for argument in command.arguments[:-1]:
        assert not argument.optional
    text = help_for(command.path, command)
    assert usage(command).split()[0] in text
    assert all(word in text for word in (*names, *(argument.name for argument in command.arguments)))
    assert max(map(len, text.splitlines())) <= 120


@EACH
def test_the_examples_in_its_help_are_lines_that_can_be_read(command: Command) -> None:
    import shlex

    assert command.examples
    for example in command.examples:
        line = example.replace('eval "$(', "").replace(')"', "").rpartition("| ")[2].partition(" > ")[0]
        first, *rest = shlex.split(line)
        assert (first, read(rest).command) == ("antiphon", command)


def test_help_for_all_and_for_groups_names_every_command() -> None:
    everything = help_for((), None)
    for group in GROUPS:
        part = help_for((group.word,), None)
        assert all(command.path[1] in part for command in COMMANDS if command.path[0] == group.word)
    assert all(" ".join(command.path) in everything for command in COMMANDS)
    assert all(f"{code}  {meaning}"[:40] in everything for code, meaning in EXIT_CODES)
