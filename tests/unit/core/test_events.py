"""Events and their entries in the journal."""

from typing import Any

import msgspec
import pytest

from antiphon.core import events as e
from antiphon.core.session import Deadline, Problem, Usage

PROBLEM = Problem(code="agent_failed", detail="boom")
FULL: tuple[e.Event, ...] = (
    e.SessionCreated(
        key="k", agent="echo", cwd="/w", model="m", title="T", labels={"a": "1"}, when_busy="steer", settings={"x": [1]}
    ),
    e.SessionUpdated(changes={"title": None, "settings": {"x": {"y": [1, {"z": 2.5}], "a": None}}}, revision=2),
    e.SessionStatusChanged(status="idle"),
    e.SessionCleared(generation=2, reason="reset"),
    e.SessionStopped(),
    e.SessionResumed(),
    e.SessionDeleted(),
    e.QueueReordered(order=("msg_2", "msg_1")),
    e.SessionForked(from_session_id="ses_2", from_turn_id="turn_2", mark="m"),
    e.QueuePaused(),
    e.QueueContinued(),
    e.MessageAccepted(
        message_id="msg_1",
        text="ключ 😀 \x00 \u2028",
        files=({"path": "/a", "media_type": "text/plain"},),
        when_busy="collect",
        place=3,
        idempotency_key="k",
        digest="d",
        sender="ann",
        deadline=Deadline(waiting_ms=1, running_ms=2, total_ms=3),
        substitute="queue",
    ),
    e.MessageEdited(message_id="msg_1", text="", when_busy="queue"),
    e.MessageWithdrawn(message_id="msg_1"),
    e.MessageRequeued(message_id="msg_1", resumed=True),
    e.MessageEnded(message_id="msg_1", turn_id="turn_1", state="failed", error=PROBLEM),
    e.TurnStarted(turn_id="turn_1", message_ids=("msg_1", "msg_2"), delivered_as="collect", shortened=("msg_1",)),
    e.TurnText(turn_id="turn_1", text="x"),
    e.TurnThought(turn_id="turn_1", text="x"),
    e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh", input={"turn_id": "theirs", "a": [None, True]}),
    e.TurnToolEnded(turn_id="turn_1", tool_id="t", outcome="completed", output=["a", {"b": 1}]),
    e.TurnUsage(turn_id="turn_1", usage=Usage(input_tokens=1, output_tokens=2, cost_usd=0.25)),
    e.TurnStalled(turn_id="turn_1", detail="d"),
    e.TurnSteerRequested(turn_id="turn_1", message_id="msg_1"),
    e.TurnSteered(turn_id="turn_1", message_id="msg_1"),
    e.TurnSteerDeclined(turn_id="turn_1", message_id="msg_1"),
    e.TurnCancelRequested(turn_id="turn_1", reason="interrupt", rollback=True),
    e.TurnCancelRequested(turn_id="turn_1", reason="shutdown", again="resumed"),
    e.TurnEnded(turn_id="turn_1", state="failed", error=PROBLEM, usage=Usage()),
    e.TurnEnded(turn_id="turn_1", state="completed", mark="m"),
    e.PermissionRequested(
        permission_id="perm_1", turn_id="turn_1", question="?", tool="sh", options=({"id": "o"},), deadline_at=5
    ),
    e.PermissionAnswered(
        permission_id="perm_1", turn_id="turn_1", decision="allow", option_id="o", note="n", by="ann"
    ),
    e.PermissionExpired(permission_id="perm_1", turn_id="turn_1", reason="cancel"),
    e.AgentStarted(run_id="run_1", agent="echo", generation=2, pid=7, resume_token="t"),
    e.AgentResumable(run_id="run_1", resume_token="t"),
    e.AgentExited(run_id="run_1", exit_code=-9, reason="killed"),
    e.AgentLog(text="x"),
)  # fmt: skip
BARE: tuple[e.Event, ...] = (
    e.SessionCreated(agent="echo"),
    e.MessageAccepted(message_id="msg_1", text="x", when_busy="queue", place=0),
    e.MessageEdited(message_id="msg_1"),
    e.MessageEnded(message_id="msg_1", state="withdrawn"),
    e.TurnStarted(turn_id="turn_1", message_ids=(), origin="agent"),
    e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh"),
    e.TurnEnded(turn_id="turn_1", state="completed"),
    e.AgentExited(run_id="run_1", reason="killed"),
)
CONTRACT = """
    session.created session.updated session.status session.cleared session.stopped session.resumed session.deleted
    message.accepted message.edited message.withdrawn message.ended turn.started turn.text turn.thought
    turn.tool_started turn.tool_ended turn.usage turn.steered turn.ended permission.requested permission.answered
    permission.expired agent.started agent.exited agent.log
""".split()


def stored(event: e.Event) -> e.Entry:
    """The entry of an event as a store reads it back."""
    entry = e.entry(event, session_id="ses_1", sequence=7, generation=2, at=5)
    found = msgspec.json.decode(msgspec.json.encode(entry), type=e.Entry)
    assert found == entry
    return found


def test_every_event_is_here() -> None:
    assert {type(event) for event in FULL} == set(e.EVENTS.values()) == set(e.Event.__subclasses__())


def test_every_type_of_the_contract_has_its_event_and_no_two_share_one() -> None:
    assert set(CONTRACT) <= set(e.EVENTS)
    assert len(e.EVENTS) == len(e.Event.__subclasses__())


@pytest.mark.parametrize("event", [*FULL, *BARE], ids=lambda event: event.TYPE)
def test_an_event_outlives_its_journal(event: e.Event) -> None:
    entry = stored(event)
    assert e.event(entry) == event
    assert (entry.session_id, entry.sequence, entry.generation, entry.at) == ("ses_1", 7, 2, 5)


@pytest.mark.parametrize("event", FULL, ids=lambda event: event.TYPE)
def test_the_ids_of_turn_and_message_stand_beside_the_data(event: e.Event) -> None:
    entry = stored(event)
    assert entry.turn_id == getattr(event, "turn_id", None)
    assert entry.message_id == getattr(event, "message_id", None)
    assert not {"turn_id", "message_id"} & set(entry.data)


@pytest.mark.parametrize("event", [*FULL, *BARE], ids=lambda event: event.TYPE)
def test_what_is_whole_is_journaled_as_it_is(event: e.Event) -> None:
    assert e.journaled(event) == event


def test_half_an_emoji_becomes_a_replacement_character_wherever_it_stands() -> None:
    cut = e.TurnText(turn_id="turn_1", text="a \ud83d b \ude00 c 😀 \ud83d\ude00")
    assert e.journaled(cut).text == "a \ufffd b \ufffd c 😀 😀"
    input = {"\ud83d": ["\ud83d", 1, None, {"a": "\ude00"}]}
    tool = e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh", input=input)
    assert e.journaled(tool).input == {"\ufffd": ["\ufffd", 1, None, {"a": "\ufffd"}]}


def test_a_number_that_is_not_finite_becomes_null() -> None:
    output = [float("inf"), float("nan"), 10**30]
    tool = e.TurnToolEnded(turn_id="turn_1", tool_id="t", outcome="completed", output=output)
    assert e.journaled(tool).output == [None, None, 10**30]


def test_the_data_of_text_is_its_text() -> None:
    assert stored(e.TurnText(turn_id="turn_1", text="hello")).data == {"text": "hello"}


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("turn.sang", {"text": "x"}),
        ("turn.text", {}),
        ("turn.text", {"text": 5}),
        ("session.status", {"status": "asleep"}),
        ("message.ended", {"state": "lost"}),
    ],
)
def test_an_entry_of_an_unknown_form_is_told(type: str, data: dict[str, Any]) -> None:
    entry = e.Entry(session_id="s", sequence=1, generation=1, type=type, at=1, turn_id="t", message_id="m", data=data)
    with pytest.raises(msgspec.ValidationError):
        e.event(entry)


def test_an_entry_of_a_later_version_with_more_fields_is_read() -> None:
    entry = e.Entry(
        session_id="s", sequence=1, generation=1, type="turn.text", at=1, turn_id="t", data={"text": "x", "new": 1}
    )
    assert e.event(entry) == e.TurnText(turn_id="t", text="x")
