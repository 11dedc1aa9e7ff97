"""Deadlines of messages: when they pass, and what that makes of a message and its turn."""

from antiphon.core import events as e
from antiphon.core.session import Message, Problem, Running, Session
from antiphon.core.times import rfc3339

CODE = "deadline_exceeded"
RUNNING = Problem(code=CODE, detail="Its deadline passed while it ran; the agent was stopped.")


def next_deadline(session: Session) -> int | None:
    """When (ms) the next deadline passes that something can be done about; None when there is none."""
    return min((at for message in _open(session) if (at := message.deadline_at) is not None), default=None)


def passed(session: Session, now: int) -> list[Message]:
    """The messages whose deadline has passed."""
    return [message for message in _open(session) if (at := message.deadline_at) is not None and at <= now]


def _open(session: Session) -> list[Message]:
    """Those that a deadline can still end: not one that was just handed to the agent, nor one whose turn is stopping.

    What becomes of these is known soon: the agent says so, or its turn's end does.
    """
    running = session.running
    runs = running.messages if running and not running.cancelling else ()
    return [*(message for message in session.inbox if not message.steering), *runs]


def end_late(session: Session, now: int) -> tuple[e.Event, ...]:
    """End what is too late. A turn is stopped when nobody whom it answers has time left; else it goes on for them."""
    running, late = session.running, passed(session, now)
    in_turn = [message for message in late if message.state == "running"]
    ends = [_end(message) for message in late if message.state == "queued"]
    if running is None or not in_turn:
        return tuple(ends)
    if alone(running, in_turn):
        expired = [
            e.PermissionExpired(permission_id=asked.id, turn_id=asked.turn_id, reason="deadline")
            for asked in session.permissions
        ]
        return (*ends, e.TurnCancelRequested(turn_id=running.turn.id, reason="deadline"), *expired)
    return (*ends, *(_end(message) for message in in_turn))


def alone(running: Running, messages: list[Message]) -> bool:
    """Whether the turn is for these only. One that the agent began by itself is the agent's."""
    return running.turn.origin == "message" and len(messages) == len(running.messages)


def _end(message: Message) -> e.MessageEnded:
    if message.state == "running":
        detail = "Its deadline passed while it ran; its turn goes on for the other messages that it answers."
        problem = Problem(code=CODE, detail=detail)
    else:
        at = message.deadline_at or 0
        problem = Problem(code=CODE, detail=f"Its deadline, {rfc3339(at)}, passed while it waited; it never ran.")
    return e.MessageEnded(message_id=message.id, turn_id=message.turn_id, state="failed", error=problem)
