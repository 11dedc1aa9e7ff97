"""Events of one life in the middle of another: each is impossible there, or leaves a session that holds together."""

import os
import random

import msgspec
import pytest

from antiphon.core import events as e
from antiphon.core.evolve import Change, evolve
from antiphon.core.session import Session
from antiphon.core.table import ImpossibleEvent
from models.life import AGENT, CLIENTS, OWNER, Life

PAIRS = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 12


def lived(fate: random.Random) -> tuple[list[Session], list[e.Event]]:
    """The sessions that a life went through, and its events. Ids of all lives are alike."""
    life = Life(fate.randrange, lambda _: None)
    sessions: list[Session] = []
    for _ in range(80):
        fate.choice(fate.choice((CLIENTS, OWNER, AGENT)))(life)
        life.commit()
        if life.session is not None:
            sessions.append(life.session)
    return sessions, [e.event(entry) for entry in life.entries]


def holds_together(before: Session, event: e.Event, change: Change) -> None:
    session = change.session
    running = session.running.messages if session.running else ()
    ids = [message.id for message in (*session.inbox, *running, *session.ending)]
    assert len(set(ids)) == len(ids), "a message is in two places"
    was = {message.id for message in (*before.inbox, *(before.running.messages if before.running else ()))}
    new = {event.message_id} if isinstance(event, e.MessageAccepted) else set[str]()
    over = {event.message_id} if isinstance(event, e.MessageEnded) else set[str]()
    assert set(ids) == (was | new) - over, "a message is lost, or came from nowhere"
    assert before.running is None or session.running is None or session.running.turn.id == before.running.turn.id
    assert session.sequence == before.sequence + 1
    assert all(message.turn_id is None and message.state == "queued" for message in session.inbox)
    assert all(message.turn_id is not None and message.state == "running" for message in running)
    assert msgspec.json.decode(msgspec.json.encode(session), type=Session) == session


@pytest.mark.parametrize("seed", range(PAIRS))
def test_an_event_of_another_life_is_impossible_or_leaves_a_session_that_holds_together(seed: int) -> None:
    fate = random.Random(seed)
    (sessions, _), (_, events) = lived(fate), lived(fate)
    taken = 0
    for session in fate.sample(sessions, 20):
        for event in events:
            try:
                change = evolve(session, event, at=1, session_id=session.id)
            except ImpossibleEvent:
                continue
            holds_together(session, event, change)
            taken += 1
    assert taken
