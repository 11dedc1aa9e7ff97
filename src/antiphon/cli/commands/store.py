"""`antiphon store copy`."""

import asyncio
from importlib import import_module
from typing import Any

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, REFUSED
from antiphon.cli.garbage import collect_as_usual
from antiphon.cli.grammar import Given
from antiphon.cli.listing import fields, table
from antiphon.core.errors import AntiphonError


def copy(context: Context, given: Given) -> int:
    """Copy a whole store, and say what came of it. Exit code 3 when nothing was done, 1 when something is not right."""
    # The stores and their engines, which no other command needs.
    copying: Any = import_module("antiphon.store.copy")
    shown = import_module("antiphon.store.address").shown
    collect_as_usual()
    source, target = given.text("from"), given.text("to")
    try:
        outcome = asyncio.run(copying.copied(source, target, context.out.note))
    except copying.CannotCopy as error:
        return _refused(context, "cannot_copy", str(error), REFUSED)
    except AntiphonError as error:
        return _refused(context, error.code, str(error), FAILED)
    found = {"from": shown(source), "to": shown(target), **_document(outcome)}
    if context.out.as_json:
        context.out.document(found)
    else:
        _print(context, found)
    return DONE if found["complete"] and not outcome.damaged else FAILED


def _document(outcome: Any) -> dict[str, Any]:
    return {
        "complete": not outcome.differences,
        "resumed": outcome.resumed,
        "already": outcome.already,
        "epoch": outcome.epoch,
        "rows": outcome.rows,
        "digests": outcome.digests,
        "damaged": outcome.damaged,
        "damage": list(outcome.damage),
        "differences": list(outcome.differences),
    }


def _refused(context: Context, code: str, detail: str, exit_code: int) -> int:
    if context.out.as_json:
        context.out.problem({"code": code, "detail": detail})
    else:
        context.out.error(f"antiphon: {detail}")
    return exit_code


def _print(context: Context, found: dict[str, Any]) -> None:
    rows = [(name, str(count), found["digests"][name]) for name, count in found["rows"].items()]
    table(context.out, ("TABLE", "ROWS", "DIGEST"), rows)
    context.out.line()
    if found["complete"]:
        verdict = "whole, and equal to the source" + (" (it was before)" if found["already"] else "")
    else:
        verdict = "not whole: run the command again"
    fields(context.out, (("from", found["from"]), ("to", found["to"]), ("the copy is", verdict)))
    for line in found["differences"]:
        context.out.error(f"differs: {line}")
    if found["damaged"]:
        context.out.error(f"antiphon: {found['damaged']} rows of the source can't be read; they are named above.")
