"""`antiphon turn …`."""

from antiphon.cli.commands.answers import give
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, INTERRUPTED
from antiphon.cli.grammar import Given
from antiphon.cli.listing import at, fields, lasting


def show(context: Context, given: Given) -> int:
    """Show a turn."""
    with context.client() as client:
        turn = client.turn(given.text("id"))
    if context.out.as_json:
        context.out.document(turn.document)
        return DONE
    error = turn.error
    fields(
        context.out,
        (
            ("turn", turn.id),
            ("session", turn.session_id),
            ("state", turn.state),
            ("begun by", "the agent" if turn.origin == "agent" else None),
            ("answers", ", ".join(turn.message_ids or ())),
            ("started", at(turn.started_at)),
            ("ended", at(turn.ended_at)),
            ("took", lasting(turn.started_at, turn.ended_at)),
            ("taken back", "yes" if turn.rolled_back else None),
            ("error", f"{error.detail} ({error.code})" if error else None),
            ("reply", turn.reply),
        ),
    )
    return DONE


def wait(context: Context, given: Given) -> int:
    """Wait for a turn's end and give its answer."""
    turn_id = given.text("id")
    try:
        with context.client() as client:
            return give(context.out, client.turn_wait(turn_id, given.number("timeout")))
    except KeyboardInterrupt:
        context.out.error(f"{turn_id} goes on.")
        return INTERRUPTED


def cancel(context: Context, given: Given) -> int:
    """Cancel a turn and no other."""
    with context.client() as client:
        cancelled = client.turn_cancel(given.text("id"), queue=given.flag("queue"))
    if context.out.as_json:
        context.out.document(cancelled.document)
    if not cancelled.confirmed:
        context.out.error(f"{given.text('id')} is to stop, but its agent has not confirmed it.")
        return FAILED
    context.out.note(f"{given.text('id')} is {cancelled.state}.")
    if cancelled.message_ids:
        context.out.note(f"What waited is cancelled: {', '.join(cancelled.message_ids)}.")
    return DONE
