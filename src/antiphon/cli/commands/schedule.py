"""`antiphon schedule …`: messages that are sent again and again."""

import os
from typing import Any, cast

from antiphon.cli.commands.sending import text
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import ago, at, fields, table
from antiphon.client.documents import Json, Schedule
from antiphon.client.exchanges import given as only_given

ZONES = "/zoneinfo/"


def add(context: Context, given: Given) -> int:
    """Add a schedule."""
    cron = given.optional("cron")
    if cron is None:
        raise UsageError("a schedule needs --cron EXPR, such as --cron '0 7 * * 1-5'")
    message = text(given)
    with context.client() as client:
        schedule = client.schedule_add(
            given.text("ref"),
            message,
            cron,
            time_zone=given.optional("time_zone") or local_zone(),
            missed=cast("Any", given.optional("missed")),
            overlap=cast("Any", given.optional("overlap")),
            when_busy=cast("Any", given.optional("when_busy")),
            create=_create(context, given),
        )
    if context.out.as_json:
        context.out.document(schedule.document)
        return DONE
    context.out.line(schedule.id)
    first = f"its first run: {_upcoming(schedule.next_runs[0])}" if schedule.next_runs else "it never runs"
    context.out.note(f"In the time of {schedule.time_zone}; {first}.")
    return DONE


def _create(context: Context, given: Given) -> Json | None:
    agent = given.optional("agent")
    if agent is None:
        return None
    return only_given(agent=agent, cwd=context.directory(given), model=given.optional("model"))


def local_zone() -> str:
    """The name of this machine's time zone: `$TZ`, else where /etc/localtime leads to, else UTC."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    _, found, name = os.path.realpath("/etc/localtime").partition(ZONES)
    return name.removeprefix("posix/") if found and name else "UTC"


def list_(context: Context, given: Given) -> int:
    """List schedules."""
    with context.client() as client:
        found = list(client.schedules(ref=given.optional("session")))
    if context.out.as_json:
        context.out.document({"items": [schedule.document for schedule in found]})
    elif found:
        rows = [
            (
                each.id,
                each.state,
                each.session,
                each.cron,
                _upcoming(each.next_runs[0]) if each.next_runs else "",
                _last(each),
                each.text,
            )
            for each in found
        ]
        table(context.out, ("SCHEDULE", "STATE", "SESSION", "CRON", "NEXT", "LAST", "TEXT"), rows, coloured=1)
    else:
        context.out.note("No schedules. `antiphon schedule add REF --cron EXPR TEXT` adds one.")
    return DONE


def show(context: Context, given: Given) -> int:
    """Show a schedule."""
    with context.client() as client:
        schedule = client.schedule(given.text("id"))
    if context.out.as_json:
        context.out.document(schedule.document)
        return DONE
    last = schedule.last_run
    pairs = (
        ("schedule", schedule.id),
        ("session", schedule.session),
        ("state", schedule.state),
        ("cron", schedule.cron),
        ("time zone", schedule.time_zone),
        ("missed", schedule.missed),
        ("overlap", schedule.overlap),
        ("when busy", schedule.when_busy),
        ("agent", schedule.agent),
        ("next", "\n".join(_upcoming(run) for run in schedule.next_runs)),
        ("last", f"{at(last.due_at)}: {last.outcome}" if last else None),
        ("message", last.message_id if last else None),
        ("why", last.detail if last else None),
        ("sent", str(schedule.sent)),
        ("skipped", str(schedule.skipped)),
        ("added", at(schedule.created_at)),
        ("text", schedule.text),
    )
    fields(context.out, pairs)
    return DONE


def pause(context: Context, given: Given) -> int:
    """Pause a schedule."""
    with context.client() as client:
        return _done(context, client.schedule_pause(given.text("id")))


def resume(context: Context, given: Given) -> int:
    """Resume a schedule."""
    with context.client() as client:
        return _done(context, client.schedule_resume(given.text("id")))


def remove(context: Context, given: Given) -> int:
    """Remove a schedule."""
    schedule_id = given.text("id")
    with context.client() as client:
        client.schedule_remove(schedule_id)
    if context.out.as_json:
        context.out.document({"removed": schedule_id})
    context.out.note(f"{schedule_id} is removed.")
    return DONE


def _done(context: Context, schedule: Schedule) -> int:
    if context.out.as_json:
        context.out.document(schedule.document)
    context.out.note(f"{schedule.id} is {schedule.state}.")
    return DONE


def _last(schedule: Schedule) -> str:
    last = schedule.last_run
    return f"{last.outcome} {ago(last.due_at)}" if last else ""


def _upcoming(time: str) -> str:
    """A time to come, in this machine's time zone."""
    return at(time).partition(" (")[0]
