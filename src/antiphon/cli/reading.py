"""Reading a command line by the table: options anywhere, globals before and after the command, `--` before a text.

The standard library's reader can't take an optional argument behind an option (`message REF --agent A TEXT`), and
building its parsers would be the larger part of a command's start; see docs/decisions/010.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antiphon.cli.grammar import Argument, Command, Given, Incomplete, Option, UsageError
from antiphon.cli.table import COMMANDS, GLOBALS, GROUPS

_DASH = "; write -- before a text that begins with a dash"
GROUP_WORDS = frozenset(group.word for group in GROUPS)


class Line(NamedTuple):
    """A line that was read. When it asks for help or the version, `command` may be None and arguments missing."""

    path: tuple[str, ...]
    command: Command | None
    given: Given


def read(argv: Sequence[str]) -> Line:
    """Read a line.

    Raises:
        UsageError: It can't be read; the error says what is wrong and which command it was about.
    """
    return _Reader(argv).line()


class _Reader:
    def __init__(self, argv: Sequence[str]) -> None:
        self._left = deque(argv)
        self._path: tuple[str, ...] = ()
        self._command: Command | None = None
        self._options = _by_name(GLOBALS)
        self._arguments: list[str] = []
        self._values: dict[str, str | float | bool | list[str]] = {}

    def line(self) -> Line:
        """Take the words one after another, then see whether they are enough."""
        while self._left:
            word = self._left.popleft()
            if word == "--" and self._command:
                self._arguments += self._left
                break
            if self._is_option(word):
                self._take_option(word)
            elif self._command is None and not self._path and word == "help":
                self._values["help"] = True
            elif self._command is None:
                self._take_name(word)
            else:
                self._arguments.append(word)
        if not self._values.keys() & {"help", "version"}:
            if self._command is None:
                raise Incomplete(self._path)
            self._bind(self._command.arguments)
        return Line(self._path, self._command, Given(self._values))

    def _is_option(self, word: str) -> bool:
        """Whether a word is an option. A dash with a space behind it somewhere is prose, unless an option begins it."""
        if not word.startswith("-") or word == "-":
            return False
        return " " not in word or word.partition("=")[0] in self._options

    def _take_name(self, word: str) -> None:
        """A word of the command's name."""
        path = (*self._path, word)
        self._command = next((command for command in COMMANDS if command.path == path), None)
        if (self._command is None and path[0] not in GROUP_WORDS) or (self._command is None and len(path) > 1):
            place = len(self._path)
            known = {command.path[place] for command in COMMANDS if command.path[:place] == self._path}
            raise self._error(f"no command {word!r}{_perhaps(word, known)}")
        self._path = path
        if self._command:
            self._options |= _by_name(self._command.options)

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if option is None and not word.startswith("--"):  # -oFILE
            option, equals, value = self._options.get(word[:2]), word[2:], word[2:]
        if option is None:
            hint = _perhaps(name, self._options) or (
                "; write -- before a text that begins with a dash" if self._command else ""
            )
            raise self._error(f"no option {name!r}{hint}")
        if option.kind == "flag":
            if equals:
                raise self._error(f"{option.name} takes no value")
            self._values[option.dest] = True
            return
        if not equals:
            if not self._left or self._is_option(self._left[0]):
                raise self._error(f"{option.name} takes a value: {option.name} {option.value}")
            value = self._left.popleft()
        self._keep(option, value)

    def _keep(self, option: Option, text: str) -> None:
        self._require_text(option, text)
        if option.choices and text not in option.choices:
            raise self._error(f"{option.name} is one of {', '.join(option.choices)}, not {text!r}")
        if option.many:
            values = self._values.setdefault(option.dest, [])
            assert isinstance(values, list), "an option has one kind of value"
            values.append(text)
        elif option.kind == "text":
            self._values[option.dest] = text
        else:
            self._values[option.dest] = self._number(option, text)

    def _number(self, option: Option, text: str) -> float:
        try:
            number = float(text) if option.kind == "seconds" else int(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            kind = "a number of seconds" if option.kind == "seconds" else "a whole number"
            raise self._error(f"{option.name} takes {kind}, not {text!r}")
        return number

    def _bind(self, arguments: Sequence[Argument]) -> None:
        """Give the words that stand for themselves to the arguments, in their order."""
        left = deque(self._arguments)
        for argument in arguments:
            if argument.many:
                self._values[argument.dest] = list(left)
                left.clear()
            elif left:
                self._values[argument.dest] = self._chosen(argument, left.popleft())
            elif not argument.optional:
                raise self._error(f"{argument.name} is missing: {argument.help}")
        if left:
            raise self._error(f"{left[0]!r} is one word too many; quote a text that has spaces")

    def _chosen(self, argument: Argument, word: str) -> str:
        self._require_text(argument, word)
        if argument.choices and word not in argument.choices:
            raise self._error(f"{argument.name} is one of {', '.join(argument.choices)}, not {word!r}")
        return word

    def _require_text(self, place: Option | Argument, word: str) -> None:
        """Refuse bytes that are no text, which Python hands over as lone surrogates. A path may hold any."""
        if place.completes not in ("file", "dir") and not word.isascii():
            try:
                word.encode()
            except UnicodeEncodeError:
                raise self._error(f"{place.name} is not UTF-8 text") from None

    def _error(self, message: str) -> UsageError:
        return UsageError(message, " ".join(("antiphon", *self._path)))


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {name: option for option in options for name in (option.name, option.short) if name}


def _perhaps(word: str, words: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415  only who has mistyped pays for it

    near = difflib.get_close_matches(word, list(words), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
