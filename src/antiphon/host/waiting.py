"""What a queued message waits for, told in words and ids."""

from antiphon.core.session import Message, Session
from antiphon.host.context import Context


def position_of(session: Session, message: Message) -> int:
    """Its place among what waits, counted from 1."""
    return 1 + [waiting.id for waiting in session.inbox].index(message.id)


def waiting_for(session: Session, message: Message, context: Context, *, hindrance: str | None = None) -> str:
    """Why the message has not run yet: a sentence with the ids concerned.

    Args:
        session: The session.
        message: The one of its waiting messages that is asked about.
        context: The host's.
        hindrance: What keeps the session's next turn from starting, as far as its actor knows.
    """
    if session.lifecycle == "stopped":
        return f"session {session.id} was stopped: resume it"
    ahead = position_of(session, message) - 1
    before = f", and {ahead} message{'s' if ahead > 1 else ''} ahead of it" if ahead else ""
    if session.running:
        return _turn(session) + before
    if ahead:
        return f"message {session.inbox[0].id} and what runs before it ({ahead} ahead)"
    if context.draining:
        return "the host to start again: it is shutting down"
    places = context.places
    if hindrance or places.taken < places.limit:
        return hindrance or "its turn, which is about to start"
    return f"a place for its agent: {places.taken} of {places.limit} are in use"


def _turn(session: Session) -> str:
    running = session.running
    assert running is not None, "only called while a turn runs"
    if running.cancelling:
        return f"turn {running.turn.id} to stop"
    if session.permissions:
        return f"turn {running.turn.id}, which waits for an answer to permission {session.permissions[0].id}"
    return f"turn {running.turn.id} to end"
