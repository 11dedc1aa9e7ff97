"""`antiphon token …`: tokens for other clients."""

from typing import Any, cast

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given
from antiphon.cli.listing import ago, table


def create(context: Context, given: Given) -> int:
    """Make a token and print it, this once."""
    scope = cast("Any", given.optional("scope") or "full")
    with context.client() as client:
        token = client.token_create(given.text("name"), scope=scope)
    if context.out.as_json:
        context.out.document(token.document)
        return DONE
    context.out.line(token.token or "")
    context.out.note(f"{token.id} ({token.scope}). It is not shown again; `antiphon token revoke {token.id}` ends it.")
    return DONE


def list_(context: Context, given: Given) -> int:
    """List the tokens, without their secrets."""
    del given
    with context.client() as client:
        tokens = client.tokens()
    if context.out.as_json:
        context.out.document({"items": [token.document for token in tokens]})
    elif tokens:
        rows = [(token.id, token.scope, ago(token.created_at), token.name) for token in tokens]
        table(context.out, ("TOKEN", "SCOPE", "CREATED", "NAME"), rows)
    else:
        context.out.note("No tokens were given out. `antiphon token create NAME` makes one.")
    return DONE


def revoke(context: Context, given: Given) -> int:
    """Revoke a token."""
    token_id = given.text("id")
    with context.client() as client:
        client.token_revoke(token_id)
    if context.out.as_json:
        context.out.document({"revoked": token_id})
    context.out.note(f"{token_id} is revoked.")
    return DONE
