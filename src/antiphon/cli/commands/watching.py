"""`antiphon session watch`: a session's events, as they happen."""

import json

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import clock
from antiphon.cli.output import in_a_row
from antiphon.client.documents import Event
from antiphon.client.sync import Client


def watch(context: Context, given: Given) -> int:
    """Print events until the session is deleted or the person has seen enough."""
    ref, after = given.text("ref"), given.optional("after")
    types = [kind.strip() for line in given.many("types") for kind in line.split(",") if kind.strip()]
    if after is not None and given.flag("from_now"):
        raise UsageError("--after and --from-now exclude each other")
    with context.client() as client:
        if given.flag("from_now"):
            after = _now(client, ref)
        for event in client.events(ref, after=after, types=types):
            if context.out.as_json:
                context.out.document(event.document)
            else:
                context.out.finished(_line(event))
    return DONE


def _now(client: Client, ref: str) -> str | None:
    """The cursor of the session's last event: the journal's epoch, and the session's sequence."""
    first = next(iter(client.journal(ref, limit=1)), None)
    return None if first is None else f"{first.cursor.rpartition(':')[0]}:{client.session(ref).sequence}"


def _line(event: Event) -> str:
    """An event on one line: when, what, whose, and what it says."""
    data = dict(event.data or {})
    words = data.pop("text", None) or data.pop("question", None) or data.pop("name", None) or ""
    rest = {name: value for name, value in data.items() if value not in (None, "", [], {})}
    whose = event.turn_id or event.message_id or ""
    parts = (clock(event.at), event.type, whose, str(words), json.dumps(rest, ensure_ascii=False) if rest else "")
    return "  ".join(in_a_row(part) for part in parts if part)
