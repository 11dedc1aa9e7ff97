"""What a shell can offer for the word that is being typed, from the table and from a host that runs.

The shells' scripts (`antiphon completion`) call `antiphon __complete WORD...` with the words up to the cursor. The
answer is one offer a line, its meaning behind a tab; or `:files` or `:dirs`, which the shell knows best.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from antiphon.cli.grammar import Command, Option
from antiphon.cli.table import COMMANDS, GLOBALS, GROUPS

Offer = tuple[str, str]
Asked = Callable[[str], Iterable[str]]
"""The names of the `session`s, `agent`s, `webhook`s or `schedule`s that a running host knows."""


class _Typed(NamedTuple):
    """What the words before the current one say: the command so far, its arguments, an option that wants its value."""

    path: tuple[str, ...]
    command: Command | None
    arguments: int
    wanting: Option | None


def offers(words: Sequence[str], asked: Asked) -> list[Offer]:
    """What fits as the last word; it may be empty."""
    current = words[-1] if words else ""
    typed = _typed(words[:-1])
    return [offer for offer in _offers(typed, current, asked) if offer[0].startswith(current) or offer[0][:1] == ":"]


def which_host(words: Sequence[str]) -> dict[str, str]:
    """What the words say of the host: the values of `--url`, `--data-dir` and `--token`."""
    said: dict[str, str] = {}
    for place, word in enumerate(words[:-1]):
        name, equals, value = word.partition("=")
        if name in ("--url", "--data-dir", "--token"):
            said[name.lstrip("-").replace("-", "_")] = value if equals else words[place + 1]
    return said


def _typed(words: Sequence[str]) -> _Typed:
    path: tuple[str, ...] = ()
    command: Command | None = None
    arguments, wanting = 0, None
    for word in words:
        if wanting:
            wanting = None
        elif word.startswith("-") and word != "-":
            option = _options(command).get(word)
            wanting = option if option and option.kind != "flag" else None
        elif command:
            arguments += 1
        else:
            path = (*path, word)
            command = next((each for each in COMMANDS if each.path == path), None)
    return _Typed(path, command, arguments, wanting)


def _offers(typed: _Typed, current: str, asked: Asked) -> Iterable[Offer]:
    options = _options(typed.command)
    if typed.wanting:
        return _values(typed.wanting.completes, typed.wanting.choices, asked)
    name, equals, _ = current.partition("=")
    if equals and name in options:
        option = options[name]
        return [(f"{name}={value}", meaning) for value, meaning in _values(option.completes, option.choices, asked)]
    if current.startswith("-"):
        return [(option.name, option.help) for option in dict.fromkeys(options.values())]
    if typed.command is None:
        return _names(typed.path)
    arguments = typed.command.arguments
    if not arguments or (typed.arguments >= len(arguments) and not arguments[-1].many):
        return []
    argument = arguments[min(typed.arguments, len(arguments) - 1)]
    return _values(argument.completes, argument.choices, asked)


def _names(path: tuple[str, ...]) -> list[Offer]:
    """The words that can come next in a command's name."""
    groups = {group.word: group.summary for group in GROUPS}
    if not path:
        alone = {command.path[0]: command.summary for command in COMMANDS if len(command.path) == 1}
        return list((groups | alone).items())
    return [(command.path[1], command.summary) for command in COMMANDS if command.path[:-1] == path]


def _values(completes: str, choices: Sequence[str], asked: Asked) -> list[Offer]:
    if completes in ("file", "dir"):
        return [(f":{completes}s", "")]
    return [(value, "") for value in (asked(completes) if completes else choices)]


def _options(command: Command | None) -> dict[str, Option]:
    options = [*(command.options if command else ()), *GLOBALS]
    return {name: option for option in options for name in (option.name, option.short) if name}
