"""`antiphon message …`."""

from typing import Any, cast

from antiphon.cli.commands.answers import give
from antiphon.cli.commands.sending import text
from antiphon.cli.commands.waiting import Progress
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, INTERRUPTED
from antiphon.cli.grammar import Given
from antiphon.cli.listing import at, fields
from antiphon.client.documents import Receipt


def show(context: Context, given: Given) -> int:
    """Show a receipt."""
    with context.client() as client:
        receipt = client.message(given.text("id"))
    if context.out.as_json:
        context.out.document(receipt.document)
    else:
        fields(context.out, _pairs(receipt))
    return DONE


def wait(context: Context, given: Given) -> int:
    """Wait for a message's end and give its answer."""
    message_id = given.text("id")
    progress = Progress(context, message_id)
    try:
        with context.client() as client:
            receipts = client.waiting(message_id, given.number("timeout"))
            return give(context.out, progress.last(client, receipts))
    except KeyboardInterrupt:
        context.out.error(f"{message_id} goes on.")
        return INTERRUPTED


def edit(context: Context, given: Given) -> int:
    """Change a message that waits."""
    when_busy = given.optional("when_busy")
    new_text = None if when_busy and given.optional("text") is None else text(given)
    with context.client() as client:
        receipt = client.message_edit(given.text("id"), text=new_text, when_busy=cast("Any", when_busy))
    return _done(context, receipt, "changed")


def withdraw(context: Context, given: Given) -> int:
    """Take back a message that waits."""
    with context.client() as client:
        receipt = client.message_withdraw(given.text("id"))
    return _done(context, receipt, "withdrawn")


def cancel(context: Context, given: Given) -> int:
    """Cancel a message that waits or runs."""
    message_id = given.text("id")
    with context.client() as client:
        cancelled = client.message_cancel(message_id)
    if context.out.as_json:
        context.out.document(cancelled.document)
    if cancelled.confirmed:
        context.out.note(f"{message_id} is {cancelled.state}.")
        return DONE
    if message_id in (cancelled.message_ids or ()):
        context.out.note(f"{message_id} is {cancelled.state}; {cancelled.turn_id} goes on for others.")
        return DONE
    context.out.error(f"{message_id} is to stop, but its agent has not confirmed it.")
    return FAILED


def _done(context: Context, receipt: Receipt, what: str) -> int:
    if context.out.as_json:
        context.out.document(receipt.document)
    context.out.note(f"{receipt.id} is {what}.")
    return DONE


_INSTEAD = {
    "queue": "a turn of its own: the running one did not take it",
    "interrupt": "the cancelled turn is remembered by the agent, which can't forget it",
    "summary": "the agent got its beginning only, as too many came at once",
}


def _pairs(receipt: Receipt) -> list[tuple[str, str | None]]:
    error, usage = receipt.error, receipt.usage
    return [
        ("message", receipt.id),
        ("session", receipt.session_key or receipt.session_id),
        ("state", receipt.state),
        ("place", str(receipt.position) if receipt.position else None),
        ("waits for", receipt.waiting_for),
        ("turn", receipt.turn_id),
        ("when busy", receipt.when_busy),
        ("delivered as", receipt.delivered_as),
        ("instead", _INSTEAD.get(receipt.substitute or "", receipt.substitute)),
        ("sender", receipt.sender),
        ("deadline", at(receipt.deadline_at)),
        ("accepted", at(receipt.accepted_at)),
        ("started", at(receipt.started_at)),
        ("ended", at(receipt.ended_at)),
        ("usage", f"{usage.input_tokens} in, {usage.output_tokens} out, ${usage.cost_usd:.4f}" if usage else None),
        ("error", f"{error.detail} ({error.code})" if error else None),
        ("reply", receipt.reply),
    ]
