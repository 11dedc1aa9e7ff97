"""One run of the command line: read the line, run the command, turn whatever comes of it into an exit code."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from antiphon.cli.grammar import Command, Given, Incomplete, UsageError
from antiphon.cli.output import CannotPrint, Output, visible
from antiphon.cli.reading import Line, read

FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
LOG_TAIL_BYTES = 2000


def run(argv: Sequence[str]) -> int:
    """Run a line and return the exit code. Every error that is foreseen becomes a message and a code."""
    _open_what_is_closed()
    try:
        code = _run(argv)
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except Incomplete as error:
        from antiphon.cli.helping import help_for  # noqa: PLC0415

        sys.stderr.write(help_for(error.path, None))
        return USAGE
    except UsageError as error:
        sys.stderr.write(visible(f"{error.command}: {error}\nTry `{error.command} --help`.\n"))
        return USAGE
    except CannotPrint as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # only ours: what breaks between us and the host is a ClientError
        _let_go_of_stdout()
        return BROKEN_PIPE


def _run(argv: Sequence[str]) -> int:
    if argv[:1] == ["__complete"]:
        return _complete(argv[1:])
    line = read(argv)
    if line.given.flag("version"):
        return _version()
    if line.given.flag("help"):
        return _help(line)
    assert line.command, "a line that was read has a command, or asks for help"
    return _perform(line.command, line.given)


def _perform(command: Command, given: Given) -> int:
    from antiphon.cli.context import Context  # noqa: PLC0415  help and usage errors need no client
    from antiphon.cli.exits import exit_code, problem, told  # noqa: PLC0415
    from antiphon.client.errors import ClientError  # noqa: PLC0415
    from antiphon.client.local import StartFailed  # noqa: PLC0415

    context = Context(given)
    module, _, function = command.runs.partition(":")
    try:
        return getattr(import_module(f"antiphon.cli.commands.{module}"), function)(context, given)
    except UsageError as error:
        raise UsageError(str(error), command.name) from None
    except ClientError as error:
        if context.out.as_json:
            context.out.problem(problem(error))
        else:
            context.out.error(f"antiphon: {told(error)}")
        if isinstance(error, StartFailed):
            context.out.error(context.local.log_tail(LOG_TAIL_BYTES).rstrip())
        return exit_code(error)


def _complete(words: Sequence[str]) -> int:
    from antiphon.cli.commands.completion import complete  # noqa: PLC0415
    from antiphon.cli.completing import which_host  # noqa: PLC0415
    from antiphon.cli.context import Context  # noqa: PLC0415

    return complete(Context(Given({"no_start": True, **which_host(words)})), words)


def _version() -> int:
    from antiphon import __version__  # noqa: PLC0415

    Output().line(f"antiphon {__version__}")
    return 0


def _help(line: Line) -> int:
    from antiphon.cli.helping import help_for  # noqa: PLC0415

    Output().line(help_for(line.path, line.command).rstrip("\n"))
    return 0


def _open_what_is_closed() -> None:
    """Give a process that was started without stdin, stdout or stderr ones that lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _let_go_of_stdout() -> None:
    """Point stdout elsewhere, so that the interpreter's last flush does not meet the broken pipe again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
