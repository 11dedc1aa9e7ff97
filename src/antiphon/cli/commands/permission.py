"""`antiphon permission …`: what agents ask, and a person's answers."""

from typing import Literal

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given
from antiphon.cli.listing import ago, table


def list_(context: Context, given: Given) -> int:
    """List what agents ask."""
    state = given.optional("state") or "pending"
    with context.client() as client:
        found = list(client.permissions(state=None if state == "all" else state, ref=given.optional("session")))
    if context.out.as_json:
        context.out.document({"items": [permission.document for permission in found]})
    elif found:
        rows = [
            (each.id, each.state, each.session_key or each.session_id, ago(each.requested_at), each.question)
            for each in found
        ]
        table(context.out, ("PERMISSION", "STATE", "SESSION", "ASKED", "QUESTION"), rows, coloured=1)
    else:
        context.out.note("Nobody asks anything.")
    return DONE


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
