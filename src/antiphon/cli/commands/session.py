"""`antiphon session …`, but for sending and watching."""

import json
from collections.abc import Iterable
from typing import Any, cast

from antiphon.cli.attention import first, needing
from antiphon.cli.context import DEFAULT_LIMIT, Context, read_stdin
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import ago, at, fields, lasting, table
from antiphon.client.documents import Receipt, Session
from antiphon.client.exchanges import given as only_given


def start(context: Context, given: Given) -> int:
    """Start a session and print what names it."""
    agent = given.optional("agent")
    if agent is None:
        raise UsageError("say which agent: --agent NAME (`antiphon agent list` shows them)")
    with context.client() as client:
        session = client.session_start(
            agent,
            given.optional("key"),
            cwd=context.directory(given),
            model=given.optional("model"),
            title=given.optional("title"),
            labels=given.pairs("label") or None,
            when_busy=cast("Any", given.optional("when_busy")),
            settings=_settings(given) or None,
            if_exists="return" if given.optional("if_exists") == "return" else None,
        )
    return _named(context, session)


def list_(context: Context, given: Given) -> int:
    """List sessions."""
    limit = None if given.flag("all") else given.whole("limit") or DEFAULT_LIMIT
    which: dict[str, Any] = {
        "agent": given.optional("agent"),
        "labels": given.pairs("label"),
        "text": given.optional("search"),
    }
    for_people = not (context.out.as_json or given.flag("refs") or given.many("status"))
    with context.client() as client:
        urgent = needing(client, **which) if for_people else []
        found = client.sessions(status=given.many("status"), limit=None if limit is None else limit + 1, **which)
        sessions = first(urgent, found)
    more = limit is not None and len(sessions) > limit
    shown = sessions[:limit]
    if context.out.as_json:
        context.out.document({"items": [session.document for session in shown], "more": more})
    elif given.flag("refs"):
        for session in shown:
            context.out.line(session.ref)
    elif shown:
        _table(context, shown)
    else:
        context.out.note("No sessions. `antiphon session start KEY --agent NAME` starts one.")
    if more:
        context.out.note(f"The first {limit} of more: --all shows all of them.")
    return DONE


def show(context: Context, given: Given) -> int:
    """Show a session."""
    with context.client() as client:
        _show(context, client.session(given.text("ref")))
    return DONE


def transcript(context: Context, given: Given) -> int:
    """Print a conversation."""
    out = context.out
    with context.client() as client:
        lines = client.transcript(given.text("ref"), generation=given.whole("generation"))
        if out.as_json:
            out.document({"items": [line.document for line in lines]})
            return DONE
        for line in lines:
            state = "" if line.state in ("answered", "completed", None) else f" ({line.state})"
            out.finished(f"{out.bold(f'{line.role}{state}')}  {ago(line.at)}".rstrip())
            out.answer(f"{line.text}\n\n")
    return DONE


def queue(context: Context, given: Given) -> int:
    """Show what waits, after putting it into a new order if one is given; or cancel it, and show what was."""
    ref, order = given.text("ref"), given.many("id")
    if order and given.flag("cancel"):
        raise UsageError("--cancel cancels all that waits; `antiphon message withdraw` takes back one")
    with context.client() as client:
        if given.flag("cancel"):
            receipts = client.queue_cancel(ref)
        else:
            receipts = client.reorder(ref, order) if order else client.queue(ref)
    if context.out.as_json:
        context.out.document({"items": [receipt.document for receipt in receipts]})
    elif receipts:
        _queue(context, receipts)
    else:
        context.out.note("Nothing waits.")
    return DONE


def turns(context: Context, given: Given) -> int:
    """List a session's turns."""
    with context.client() as client:
        found = list(client.turns(given.text("ref")))
    if context.out.as_json:
        context.out.document({"items": [turn.document for turn in found]})
    elif found:
        rows = [
            (turn.id, turn.state, ago(turn.started_at), lasting(turn.started_at, turn.ended_at), turn.reply or "")
            for turn in found
        ]
        table(context.out, ("TURN", "STATE", "BEGAN", "TOOK", "REPLY"), rows, coloured=1)
    else:
        context.out.note("No turns yet.")
    return DONE


def pause(context: Context, given: Given) -> int:
    """Pause a session's queue."""
    with context.client() as client:
        return _done(context, client.queue_pause(given.text("ref")), "paused")


def continue_(context: Context, given: Given) -> int:
    """Let a paused queue go on."""
    with context.client() as client:
        return _done(context, client.queue_continue(given.text("ref")), "going on")


def stop(context: Context, given: Given) -> int:
    """Stop a session."""
    with context.client() as client:
        return _done(context, client.session_stop(given.text("ref")), "stopped")


def resume(context: Context, given: Given) -> int:
    """Resume a session."""
    with context.client() as client:
        return _done(context, client.session_resume(given.text("ref")), "resumed")


def clear(context: Context, given: Given) -> int:
    """Begin a new transcript."""
    with context.client() as client:
        session = client.session_clear(given.text("ref"))
    return _done(context, session, f"cleared; its generation is {session.generation}")


def rename(context: Context, given: Given) -> int:
    """Give a session a title."""
    with context.client() as client:
        session = client.session_patch(given.text("ref"), {"title": given.text("title") or None})
    return _done(context, session, f"renamed to {session.title!r}" if session.title else "without a title now")


def set_(context: Context, given: Given) -> int:
    """Change what a person may change of a session."""
    changes: dict[str, Any] = only_given(
        model=given.optional("model"),
        title=given.optional("title"),
        when_busy=given.optional("when_busy"),
        cwd=context.directory(given) if given.optional("cwd") else None,
        labels={name: value or None for name, value in given.pairs("label").items()} or None,
        settings=_settings(given) or None,
    )
    if not changes:
        raise UsageError("say what to change, such as --model M")
    with context.client() as client:
        session = client.session_patch(given.text("ref"), changes, if_match=given.whole("if_match"))
    return _done(context, session, f"changed; its revision is {session.revision}")


def delete(context: Context, given: Given) -> int:
    """Delete a session."""
    with context.client() as client:
        client.session_delete(given.text("ref"))
    context.out.note(f"{given.text('ref')} is deleted.")
    if context.out.as_json:
        context.out.document({"deleted": given.text("ref")})
    return DONE


def fork(context: Context, given: Given) -> int:
    """Begin a session where a turn of another one ended."""
    with context.client() as client:
        session = client.session_fork(
            given.text("ref"),
            turn_id=given.optional("turn"),
            key=given.optional("key"),
            title=given.optional("title"),
        )
    return _named(context, session)


def export(context: Context, given: Given) -> int:
    """Write an export to a file or to stdout."""
    path = given.optional("output")
    with context.client() as client:
        exported = client.session_export(given.text("ref"))
    if path is None or path == "-":
        context.out.document(exported)
        return DONE
    text = json.dumps(exported, ensure_ascii=False)
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123  see client.local
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
    if context.out.as_json:
        context.out.document({"file": path})
    context.out.note(f"{given.text('ref')} is in {path}.")
    return DONE


def import_(context: Context, given: Given) -> int:
    """Make a session from an export."""
    path = given.text("file")
    try:
        if path == "-":
            text = read_stdin()
        else:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  see antiphon.client.local
                text = file.read()
        exported: Any = json.loads(text)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not an export: it is not JSON") from None
    if not isinstance(exported, dict):
        raise UsageError(f"{path} is not an export: it is not a JSON object")
    with context.client() as client:
        return _named(context, client.session_import(cast("dict[str, Any]", exported)))


def _settings(given: Given) -> dict[str, Any]:
    """Settings with their values as JSON; what is not JSON is text."""
    settings: dict[str, Any] = {}
    for name, value in given.pairs("setting").items():
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _named(context: Context, session: Session) -> int:
    if context.out.as_json:
        context.out.document(session.document)
    else:
        context.out.line(session.ref)
    return DONE


def _done(context: Context, session: Session, what: str) -> int:
    if context.out.as_json:
        context.out.document(session.document)
    context.out.note(f"{session.ref} is {what}.")
    return DONE


def _table(context: Context, sessions: Iterable[Session]) -> None:
    rows = [
        (each.ref, each.status, each.agent, str(each.queued or ""), ago(each.active_at), each.title or "")
        for each in sessions
    ]
    table(context.out, ("SESSION", "STATUS", "AGENT", "WAITING", "ACTIVE", "TITLE"), rows, coloured=1)


def _show(context: Context, session: Session) -> None:
    if context.out.as_json:
        context.out.document(session.document)
        return
    labels = ", ".join(f"{name}={value}" for name, value in (session.labels or {}).items())
    pairs = (
        ("session", session.key),
        ("id", session.id),
        ("status", session.status),
        ("title", session.title),
        ("agent", session.agent),
        ("model", session.model),
        ("directory", session.cwd),
        ("labels", labels),
        ("when busy", session.when_busy),
        ("settings", json.dumps(session.settings, ensure_ascii=False) if session.settings else None),
        ("running", session.turn_id),
        ("waiting", str(session.queued) if session.queued else None),
        ("paused", at(session.paused_at)),
        ("host", session.host),
        ("turns", str(session.turns)),
        ("generation", str(session.generation)),
        ("revision", str(session.revision)),
        ("created", at(session.created_at)),
        ("active", at(session.active_at)),
    )
    fields(context.out, pairs)


def _queue(context: Context, receipts: Iterable[Receipt]) -> None:
    rows = [
        (str(each.position or ""), each.id, each.when_busy, ago(each.accepted_at), each.waiting_for or "")
        for each in receipts
    ]
    table(context.out, ("PLACE", "MESSAGE", "WHEN BUSY", "ACCEPTED", "WAITS FOR"), rows)
