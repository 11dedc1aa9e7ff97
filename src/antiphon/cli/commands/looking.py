"""`antiphon board` and `antiphon session attach`: views on the whole terminal."""

import os
import sys

from antiphon.cli.context import Context
from antiphon.cli.grammar import Given, UsageError


def board(context: Context, given: Given) -> int:
    """Show all sessions."""
    _check_terminal(context, "`antiphon session list` prints the sessions")
    words = [f"agent:{given.optional('agent')}"] if given.optional("agent") else []
    words += [f"label:{name}={value}" for name, value in given.pairs("label").items()]
    words += [given.optional("search") or ""]
    with context.client() as client:
        client.status()
    return _show(context, wanted=" ".join(words).strip())


def attach(context: Context, given: Given) -> int:
    """Show one session and write to it."""
    ref = given.text("ref")
    _check_terminal(context, f"`antiphon session watch {ref}` prints what happens")
    with context.client() as client:
        ref = client.session(ref).id  # what is wrong with it is said before anything is drawn
    return _show(context, ref=ref, mode=given.optional("when_busy"))


def _show(context: Context, *, ref: str | None = None, mode: str | None = None, wanted: str = "") -> int:
    if not context.out.coloured_at_all:
        os.environ["NO_COLOR"] = "1"
    import asyncio  # noqa: PLC0415  no other command pays for what draws

    from antiphon.cli.garbage import collect_as_usual  # noqa: PLC0415
    from antiphon.terminal.app import show  # noqa: PLC0415
    from antiphon.terminal.reading import PACE  # noqa: PLC0415

    collect_as_usual()

    async def looking() -> int:
        return await show(await context.async_client(PACE), ref=ref, mode=mode, wanted=wanted)

    return asyncio.run(looking())


def _check_terminal(context: Context, instead: str) -> None:
    """Refuse where nothing can be drawn.

    Raises:
        UsageError: Stdin or stdout is no terminal, or one that can't move its cursor, or JSON was asked for.
    """
    if context.out.as_json:
        raise UsageError(f"this draws on a terminal and prints no JSON; {instead}, also with --json")
    if not (sys.stdin.isatty() and context.out.to_terminal):
        raise UsageError(f"this draws on a terminal, and stdin or stdout is none; {instead}")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise UsageError(f"this terminal can't be drawn on (TERM={os.environ.get('TERM', '')}); {instead}")
