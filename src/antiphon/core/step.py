"""One step of a session: a command decided, its events folded in, and all that must be written for it."""

import msgspec

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Decision, Given, Refused, Repeated, decide
from antiphon.core.evolve import Record, evolve
from antiphon.core.session import Session


class Step(msgspec.Struct, frozen=True):
    """What a command came to: the session after it, the journal's new entries, and the records they changed, whole."""

    session: Session
    entries: tuple[e.Entry, ...]
    events: tuple[e.Event, ...]
    records: tuple[Record, ...]


def step(session: Session | None, command: c.Command, given: Given, *, session_id: str) -> Step | Refused | Repeated:
    """Decide `command` and carry its events through. A step without entries changes nothing.

    A change of status is told by a `session.status` event at the end of the step.
    """
    decision: Decision = decide(session, command, given)
    if isinstance(decision, Refused | Repeated):
        return decision
    return carry(session, decision, at=given.now, session_id=session_id)


def carry(session: Session | None, events: tuple[e.Event, ...], *, at: int, session_id: str) -> Step:
    """Fold decided events in, telling a change of status behind them."""
    before, entries, told, records = session, list[e.Entry](), list[e.Event](), dict[str, Record]()

    def tell(event: e.Event) -> None:
        nonlocal session
        generation = _generation(session, event)
        change = evolve(session, event, at=at, session_id=session_id)
        session = change.session
        records.update({record.id: record for record in change.records})
        entries.append(
            e.entry(
                event,
                session_id=session_id,
                sequence=session.sequence,
                generation=generation or session.generation,
                at=at,
            )
        )
        told.append(event)

    for event in events:
        tell(event)
    assert session is not None, "a session comes before its events"
    if events and session.lifecycle != "deleted" and (before is None or before.status() != session.status()):
        tell(e.SessionStatusChanged(status=session.status()))
    return Step(session, tuple(entries), tuple(told), tuple(records.values()))


def _generation(session: Session | None, event: e.Event) -> int | None:
    """The generation that an event belongs to, where that is not simply the session's: a turn stays in its own."""
    running = session.running if session else None
    if running and getattr(event, "turn_id", None) == running.turn.id:
        return running.turn.generation
    ending = session.ending if session else ()
    return next((message.generation for message in ending if message.id == getattr(event, "message_id", None)), None)
