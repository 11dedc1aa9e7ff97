"""What a queued message waits for, told in words and ids."""

from antiphon.core.collecting import may_start_at
from antiphon.core.session import Message, Session
from antiphon.core.times import rfc3339
from antiphon.host.context import Context
from antiphon.ports.peers import HOST_LABEL


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
    home = session.labels.get(HOST_LABEL)
    if home and context.neighbours and (hindrance_there := context.neighbours.hindrance(home)):
        return f"host {home}, which has the files of session {session.id}: {hindrance_there}"
    if session.lifecycle == "stopped":
        return f"session {session.id} was stopped: resume it"
    if session.paused_at:
        return f"session {session.id} to go on: its queue was paused at {rfc3339(session.paused_at)}"
    ahead = position_of(session, message) - 1
    before = f", and {ahead} message{'s' if ahead > 1 else ''} ahead of it" if ahead else ""
    if session.running:
        takes_none = ": its agent takes no message into a running turn" if _cannot_join(session, message) else ""
        return _turn(session) + takes_none + before
    if ahead:
        return f"message {session.inbox[0].id} and what runs before it ({ahead} ahead)"
    if context.draining:
        return "the host to start again: it is shutting down"
    places, now = context.places, context.clock.now()
    start = may_start_at(session, context.settings.rules, now)
    if start is not None and start > now:
        return f"further messages to be collected with it, until {rfc3339(start)} at the latest"
    if hindrance or places.taken < places.limit:
        return hindrance or "its turn, which is about to start"
    return f"a place for its agent: {places.taken} of {places.limit} are in use"


def _cannot_join(session: Session, message: Message) -> bool:
    running = session.running
    declined = running is not None and message.declined_by == running.turn.id
    return message.when_busy == "steer" and (message.substitute == "queue" or declined)


def _turn(session: Session) -> str:
    running = session.running
    assert running is not None, "only called while a turn runs"
    if running.cancelling:
        return f"turn {running.turn.id} to stop"
    if session.permissions:
        return f"turn {running.turn.id}, which waits for an answer to permission {session.permissions[0].id}"
    stalled = ", which is stalled: nothing was heard of it for long" if running.stalled else ""
    return f"turn {running.turn.id} to end{stalled}"
