"""`antiphon permission …`: what agents ask, and a person's answers."""

from typing import Literal

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given
from antiphon.cli.listing import ago, clock, table
from antiphon.client.documents import Permission


def list_(context: Context, given: Given) -> int:
    """List what agents ask."""
    state = given.optional("state") or "pending"
    with context.client() as client:
        found = list(client.permissions(state=None if state == "all" else state, ref=given.optional("session")))
    if context.out.as_json:
        context.out.document({"items": [permission.document for permission in found]})
    elif found:
        heads = ("PERMISSION", "STATE", "SESSION", "ASKED", "BY", "TOOL", "QUESTION")
        table(context.out, heads, map(_row, found), coloured=1)
    else:
        context.out.note("Nobody asks anything.")
    return DONE


def _row(asked: Permission) -> tuple[str, ...]:
    """One request: by whom it was answered, or when policy will, if nobody does before."""
    waits = asked.state == "pending" and asked.deadline_at
    by = f"policy at {clock(asked.deadline_at)[:8]}" if waits else asked.by or ""
    session = asked.session_key or asked.session_id
    return asked.id, asked.state, session, ago(asked.requested_at), by, asked.tool or "", asked.question


def allow(context: Context, given: Given) -> int:
    """Allow what an agent asks."""
    return _answer(context, given, "allow")


def deny(context: Context, given: Given) -> int:
    """Deny what an agent asks."""
    return _answer(context, given, "deny")


def _answer(context: Context, given: Given, decision: Literal["allow", "deny"]) -> int:
    with context.client() as client:
        permission = client.permission_answer(
            given.text("id"), decision, option_id=given.optional("option"), note=given.optional("note")
        )
    if context.out.as_json:
        context.out.document(permission.document)
    context.out.note(f"{permission.id} is {permission.state}.")
    return DONE
