"""Help texts, made from the table."""

import textwrap
from collections.abc import Iterable, Sequence

from antiphon.cli.grammar import Argument, Command, Option
from antiphon.cli.output import terminal_width
from antiphon.cli.table import COMMANDS, EXIT_CODES, GLOBALS, GROUPS

ABOUT = """\
Talk to agents in sessions that never lose, mix up or double an answer. A command finds the host of this machine by
itself, and starts one in the background when none runs."""
ENVIRONMENT = (
    ("ANTIPHON_URL", "the host's address; then no host is ever started here"),
    ("ANTIPHON_TOKEN", "the token to show it"),
    ("ANTIPHON_DATA_DIR", "the data directory of the host of this machine"),
    ("ANTIPHON_CONFIG", "the configuration of the host of this machine"),
    ("ANTIPHON_STORE", "where the host of this machine keeps sessions, as `serve --store` takes it"),
    ("ANTIPHON__TABLE__NAME", "a setting of it, such as ANTIPHON__HOST__MAX_AGENTS=16"),
    ("NO_COLOR", "print without colour"),
)


def help_for(path: tuple[str, ...], command: Command | None) -> str:
    """The help text for a command, for the commands under a word, or for all."""
    if command is not None:
        return _command(command)
    return _group(path[0]) if path else _everything()


def usage(command: Command) -> str:
    """A command's form in one line."""
    words = [command.name, *map(_argument, command.arguments), *map(_option, command.options)]
    return " ".join(words)


def _everything() -> str:
    commands = [(" ".join(command.path), command.summary) for command in COMMANDS]
    return _joined(
        "usage: antiphon COMMAND [ARGUMENT]... [OPTION]...",
        ABOUT,
        _table("commands", commands),
        _table("options, before or after the command", map(_option_row, GLOBALS)),
        _table("environment", ENVIRONMENT),
        _table("exit codes", ((str(code), meaning) for code, meaning in EXIT_CODES)),
        "`antiphon COMMAND --help` shows what a command takes, with examples.",
    )


def _group(word: str) -> str:
    group = next(group for group in GROUPS if group.word == word)
    commands = [(command.path[1], command.summary) for command in COMMANDS if command.path[0] == word]
    return _joined(
        f"usage: antiphon {word} COMMAND [ARGUMENT]... [OPTION]...",
        group.summary,
        _table("commands", commands),
        f"`antiphon {word} COMMAND --help` shows what a command takes, with examples.",
    )


def _command(command: Command) -> str:
    return _joined(
        _wrapped(f"usage: {usage(command)}", "         "),
        command.summary,
        _wrapped(" ".join(command.about.split()), ""),
        _table("arguments", ((argument.name, argument.help) for argument in command.arguments)),
        _table("options", map(_option_row, command.options)),
        _table("global options", map(_option_row, GLOBALS)),
        "\n".join(["examples:", *(f"  {example}" for example in command.examples)]),
    )


def _argument(argument: Argument) -> str:
    name = f"{argument.name}..." if argument.many else argument.name
    return f"[{name}]" if argument.optional else name


def _option(option: Option) -> str:
    form = f"[{option.short or option.name}{f' {option.value}' if option.value else ''}]"
    return f"{form}..." if option.many else form


def _option_row(option: Option) -> tuple[str, str]:
    names = ", ".join(name for name in (option.short, option.name) if name)
    choices = f" One of {', '.join(option.choices)}." if option.choices else ""
    return f"{names} {option.value}".strip(), option.help + choices


def _table(title: str, rows: Iterable[Sequence[str]]) -> str:
    """Rows of a name and what it means, the meaning wrapped beside the name."""
    listed = list(rows)
    if not listed:
        return ""
    column = min(max(len(name) for name, _ in listed), 28) + 4
    lines = [f"{title}:"]
    for name, meaning in listed:
        head = f"  {name}"
        if len(head) + 2 > column:
            lines.append(head)
            head = ""
        lines.append(_wrapped(head.ljust(column) + meaning, " " * column))
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> str:
    width = max(60, min(terminal_width(), 120))
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
