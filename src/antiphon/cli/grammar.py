"""What a command line is made of, as values: commands, their arguments and options.

The table of commands (`antiphon.cli.table`) is written in these words. Reading a line, help, completion and the
reference are made from it, so that none of them can say something else than another.
"""

from collections.abc import Sequence
from typing import NamedTuple

KINDS = ("text", "seconds", "whole", "flag")


class Option(NamedTuple):
    """An option such as `--title T`.

    `kind` is `flag` for one without a value, else what its value must be. `many` may be given again. `completes` says
    what a shell can offer for the value: `file`, `dir`, `session`, `agent`, `webhook` or `schedule`.
    """

    name: str
    help: str
    value: str = ""
    kind: str = "text"
    short: str = ""
    choices: Sequence[str] = ()
    many: bool = False
    completes: str = ""

    @property
    def dest(self) -> str:
        """The name under which a handler finds the value."""
        return self.name.lstrip("-").replace("-", "_")


class Argument(NamedTuple):
    """A word that stands for itself, such as `REF`. Only the last of a command may be optional or many."""

    name: str
    help: str
    optional: bool = False
    many: bool = False
    choices: Sequence[str] = ()
    completes: str = ""

    @property
    def dest(self) -> str:
        """The name under which a handler finds the value."""
        return self.name.lower()


class Command(NamedTuple):
    """A command: the words that name it, what it takes, and `module:function` of what runs it.

    The function takes a `Context` and a `Given` and returns the exit code. Its module is imported when it runs.
    """

    path: tuple[str, ...]
    summary: str
    runs: str
    arguments: Sequence[Argument] = ()
    options: Sequence[Option] = ()
    about: str = ""
    examples: Sequence[str] = ()

    @property
    def name(self) -> str:
        """How it is called on a line."""
        return " ".join(("antiphon", *self.path))


class Group(NamedTuple):
    """Commands under one word."""

    word: str
    summary: str


class UsageError(Exception):
    """The line can't be read. `command` is what it would have been, as far as that is known."""

    def __init__(self, message: str, command: str = "antiphon") -> None:
        super().__init__(message)
        self.command = command


class Incomplete(UsageError):
    """The line ends before it names a command; help for `path` says which there are."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__("which command?", " ".join(("antiphon", *path)))
        self.path = path


class Given:
    """What a line gave: the values of a command's arguments and options, by their names."""

    def __init__(self, values: dict[str, str | float | bool | list[str]]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """A value that must be there: that of a required argument."""
        return str(self._values[name])

    def optional(self, name: str) -> str | None:
        """A value, or None."""
        value = self._values.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> float | None:
        """A number, or None."""
        value = self._values.get(name)
        return float(value) if isinstance(value, int | float) else None

    def whole(self, name: str) -> int | None:
        """A whole number, or None."""
        value = self.number(name)
        return None if value is None else int(value)

    def many(self, name: str) -> list[str]:
        """The values of something that may be given again."""
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def flag(self, name: str) -> bool:
        """Whether a flag was given."""
        return bool(self._values.get(name))

    def pairs(self, name: str) -> dict[str, str]:
        """Values of the form `NAME=VALUE`.

        Raises:
            UsageError: One has no `=`.
        """
        pairs: dict[str, str] = {}
        for each in self.many(name):
            key, equals, value = each.partition("=")
            if not equals or not key:
                raise UsageError(f"--{name.replace('_', '-')} takes NAME=VALUE, not {each!r}")
            pairs[key] = value
        return pairs
