"""`antiphon agent check --loopback` and `--fault-lab`: an agent of this machine's configuration, without the host."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, UNKNOWN, UNTRIED
from antiphon.cli.garbage import collect_as_usual
from antiphon.cli.grammar import Given
from antiphon.cli.output import in_a_row

Told = Callable[[Any], None]
PYTEST_MISSING = "The fault lab needs pytest. Get it with: pip install 'antiphon[testing]'"


def loopback(context: Context, given: Given, name: str) -> int:
    """Two turns, a cancel and a resume against the model server on this machine; no key, no network."""

    def check(table: Any, told: Told) -> bool:
        testing = import_module("antiphon.testing.agent_check.loopback")
        return asyncio.run(testing.check(name, table.adapter, table.options, told))

    return _try(context, given, name, check)


def fault_lab(context: Context, given: Given, name: str) -> int:
    """The contract suite of agents, with this one."""

    def check(table: Any, told: Told) -> bool | None:
        testing = import_module("antiphon.testing.agent_check.fault_lab")
        return testing.check(name, table.adapter, table.options, told, only=given.optional("only") or "")

    try:
        return _try(context, given, name, check)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pytest", "_pytest", "anyio"):
            raise
        context.out.error(f"antiphon: {PYTEST_MISSING}")
        return FAILED


def _try(context: Context, given: Given, name: str, check: Callable[[Any, Told], bool | None]) -> int:
    """Try an agent out and print what came of each step, as it comes. `check` answers None where it can't be tried."""
    configured = import_module("antiphon.configured")
    table = _table(context, given, name)
    if table is None:
        return UNKNOWN
    collect_as_usual()
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module of the current directory can be named, too
    steps: list[dict[str, str]] = []

    def told(outcome: Any) -> None:
        steps.append({"step": outcome.step, "state": outcome.state, "detail": outcome.detail})
        if not context.out.as_json:
            _print(context, outcome)

    try:
        fine = check(table, told)
    except configured.UnknownAdapter as error:
        context.out.error(f"antiphon: {error}")
        return UNKNOWN
    if context.out.as_json:
        context.out.document({"agent": name, "ok": fine, "steps": steps})
    else:
        context.out.note(_summary(name, steps, fine=fine))
    return UNTRIED if fine is None else DONE if fine else FAILED


def _print(context: Context, outcome: Any) -> None:
    detail = f": {in_a_row(outcome.detail)}" if outcome.detail and outcome.state != "failed" else ""
    context.out.finished(f"{context.out.coloured(outcome.state.ljust(8))} {outcome.step}{detail}")
    if outcome.state == "failed":
        context.out.line("".join(f"         {line}\n" for line in outcome.detail.splitlines()).rstrip("\n"))


def _summary(name: str, steps: Sequence[dict[str, str]], *, fine: bool | None) -> str:
    if fine is None:
        return f"{name} was not tried, so nothing is known about it."
    count = Counter(step["state"] for step in steps)
    what = ", ".join(f"{count[state]} {state}" for state in ("ok", "failed", "skipped") if count[state])
    return f"{name}: {what}." if fine else f"{name} is not right: {what}."


def _table(context: Context, given: Given, name: str) -> Any:
    """The agent as it is configured, or None when there is none, which is said."""
    # Composition stands above the command line, so it is named and not imported; and no other command pays for it.
    configured = import_module("antiphon.configured")
    config = given.optional("config")
    try:
        table = configured.agent_table(Path(context.local.data_dir), Path(config) if config else None, name)
    except configured.ConfigError as error:
        context.out.error(f"antiphon: {error}")
        return None
    if table is None:
        context.out.error(
            f"antiphon: No agent {name!r} in the configuration. `antiphon config` shows what there is; "
            "an adapter of yours is named as module:class."
        )
    return table
