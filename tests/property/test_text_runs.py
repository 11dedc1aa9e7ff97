"""Pieces of text taken together, the short way, become what each becomes when it is taken alone."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.session import Session
from antiphon.core.step import Step

NOW = 1_700_000_000_000
GIVEN = Given(now=NOW)

runs = st.builds(
    lambda turn_id, texts: c.AgentSpoke(turn_id=turn_id, texts=tuple(texts)),
    st.sampled_from(["turn_1", "turn_1", "turn_1", "turn_2"]),
    st.lists(st.text(st.characters(codec=None), max_size=5), max_size=6),
)
others = st.sampled_from(
    [
        c.CancelTurn(turn_id="turn_1"),
        c.AgentSaid(turn_id="turn_1", said=e.TurnThought(turn_id="turn_1", text="hm")),
        c.AgentEnded(turn_id="turn_1"),
        c.ClearSession(),
        c.SendMessage(message_id="msg_9", text="more"),
        c.StopSession(),
        c.DeleteSession(),
    ]
)


def running() -> Session:
    step = Step(None, GIVEN, session_id="ses_1")
    step.take(c.CreateSession(session_id="ses_1", agent="echo"))
    step.take(c.SendMessage(message_id="msg_1", text="hello"))
    step.take(c.StartTurn(turn_id="turn_1"))
    assert step.session is not None
    return step.session


def each(command: c.Command) -> list[c.Command]:
    """The pieces of a run, each said by itself."""
    if not isinstance(command, c.AgentSpoke):
        return [command]
    turn_id = command.turn_id
    return [c.AgentSaid(turn_id=turn_id, said=e.TurnText(turn_id=turn_id, text=text)) for text in command.texts]


@given(st.lists(runs | runs | others, max_size=12))
def test_a_run_of_pieces_is_taken_as_each_would_be_alone(commands: list[c.Command]) -> None:
    together = Step(running(), GIVEN, session_id="ses_1")
    for command in commands:
        together.take(command)

    session: Session | None = running()
    alone: list[Step] = []
    for piece in itertools.chain.from_iterable(map(each, commands)):
        step = Step(session, GIVEN, session_id="ses_1")
        step.take(piece)
        session = step.session
        alone.append(step)

    assert together.session == session
    assert together.entries == [entry for step in alone for entry in step.entries]
    assert together.events == [event for step in alone for event in step.events]
    assert together.notable == [event for event in together.events if not isinstance(event, e.TurnText)]
    assert together.records == {id: record for step in alone for id, record in step.records.items()}
