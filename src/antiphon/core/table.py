"""The one table of every transition: which event moves what from which state to which.

`evolve` looks every move up here and takes no other; the state diagram of the documentation is drawn from it. A cause
is an event type, with the outcome that the event carries behind a colon where that decides.
"""

from typing import NamedTuple

NEW = "(new)"


class Transition(NamedTuple):
    """In `machine`, `cause` leads from `source` to `target`."""

    machine: str
    source: str
    cause: str
    target: str


class ImpossibleEvent(Exception):
    """An event met a state in which it cannot happen: the journal is damaged, or `decide` has a flaw."""


TRANSITIONS: tuple[Transition, ...] = (
    # A session: who may speak in it.
    Transition("session", NEW, "session.created", "active"),
    Transition("session", "active", "session.stopped", "stopped"),
    Transition("session", "stopped", "session.resumed", "active"),
    Transition("session", "active", "session.cleared", "active"),
    Transition("session", "stopped", "session.cleared", "stopped"),
    Transition("session", "active", "session.deleted", "deleted"),
    Transition("session", "stopped", "session.deleted", "deleted"),
    # A message: exactly one end.
    Transition("message", NEW, "message.accepted", "queued"),
    Transition("message", "queued", "turn.started", "running"),
    Transition("message", "queued", "turn.steered", "running"),
    Transition("message", "queued", "message.ended:withdrawn", "withdrawn"),
    Transition("message", "queued", "message.ended:cancelled", "cancelled"),
    Transition("message", "queued", "message.ended:failed", "failed"),
    Transition("message", "running", "message.requeued", "queued"),
    Transition("message", "running", "message.ended:answered", "answered"),
    Transition("message", "running", "message.ended:failed", "failed"),
    Transition("message", "running", "message.ended:cancelled", "cancelled"),
    Transition("message", "running", "message.ended:interrupted", "interrupted"),
    # A turn: once its cancel is on disk it can no longer complete.
    Transition("turn", NEW, "turn.started", "running"),
    Transition("turn", "running", "turn.cancel_requested", "cancelling"),
    Transition("turn", "cancelling", "turn.cancel_requested", "cancelling"),
    Transition("turn", "running", "turn.ended:completed", "completed"),
    Transition("turn", "running", "turn.ended:failed", "failed"),
    Transition("turn", "running", "turn.ended:cancelled", "cancelled"),
    Transition("turn", "running", "turn.ended:interrupted", "interrupted"),
    Transition("turn", "cancelling", "turn.ended:cancelled", "cancelled"),
    Transition("turn", "cancelling", "turn.ended:interrupted", "interrupted"),
    # One whose messages have all run out of time is stopped likewise, and has failed.
    Transition("turn", "running", "turn.cancel_requested:deadline", "overdue"),
    Transition("turn", "overdue", "turn.cancel_requested", "overdue"),
    Transition("turn", "overdue", "turn.ended:failed", "failed"),
    Transition("turn", "overdue", "turn.ended:cancelled", "cancelled"),
    # A question to a person: answered once, or it falls away with its turn.
    Transition("permission", NEW, "permission.requested", "pending"),
    Transition("permission", "pending", "permission.answered:allow", "allowed"),
    Transition("permission", "pending", "permission.answered:deny", "denied"),
    Transition("permission", "pending", "permission.expired", "expired"),
    # The agent's process.
    Transition("agent", "away", "agent.started", "up"),
    Transition("agent", "up", "agent.exited", "away"),
)

_MOVES = {(machine, source, cause): target for machine, source, cause, target in TRANSITIONS}


def move(machine: str, source: str, cause: str) -> str:
    """The state that `cause` leads to.

    Raises:
        ImpossibleEvent: The table has no such transition.
    """
    target = _MOVES.get((machine, source, cause))
    if target is None:
        raise ImpossibleEvent(f"{machine} is {source}: {cause} cannot happen")
    return target
