"""What can have happened to a session: the journal's entries, one class a type of the contract.

Events are facts: `evolve` takes every one that `decide` made. Their wire form is an `Entry`, whose `data` holds the
fields of the event but for `turn_id` and `message_id`, which stand beside it.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from antiphon.core.session import Deadline, Problem, Usage, Value
from antiphon.core.words import (
    Again,
    CancelReason,
    Delivery,
    MessageState,
    Origin,
    SessionStatus,
    Substitute,
    TurnState,
    WhenBusy,
)


class Event(Value, frozen=True, kw_only=True):
    """Something that happened. `TYPE` is its name in the contract."""

    TYPE: ClassVar[str]


class SessionCreated(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "session.created"
    key: str | None = None
    agent: str
    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    labels: dict[str, str] = {}
    when_busy: WhenBusy | None = None
    settings: dict[str, Any] = {}


class SessionUpdated(Event, frozen=True, kw_only=True):
    """`changes` is a JSON merge patch (RFC 7396) over the session's metadata; `revision` is the one it made."""

    TYPE: ClassVar[str] = "session.updated"
    changes: dict[str, Any]
    revision: int


class SessionStatusChanged(Event, frozen=True, kw_only=True):
    """Told for viewers; it follows from the events beside it."""

    TYPE: ClassVar[str] = "session.status"
    status: SessionStatus


class SessionCleared(Event, frozen=True, kw_only=True):
    """From here on the transcript is a new one; `generation` is the new one."""

    TYPE: ClassVar[str] = "session.cleared"
    generation: int
    reason: str = "asked"


class SessionStopped(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "session.stopped"


class SessionResumed(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "session.resumed"


class SessionDeleted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "session.deleted"


class SessionForked(Event, frozen=True, kw_only=True):
    """What stands before it was copied from another session, up to the end of that turn; from here on it is its own."""

    TYPE: ClassVar[str] = "session.forked"
    from_session_id: str
    from_turn_id: str
    mark: str


class QueueReordered(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "queue.reordered"
    order: tuple[str, ...]


class QueuePaused(Event, frozen=True, kw_only=True):
    """From here on messages are accepted and none is begun."""

    TYPE: ClassVar[str] = "queue.paused"


class QueueContinued(Event, frozen=True, kw_only=True):
    """From here on what waits runs again, in its order."""

    TYPE: ClassVar[str] = "queue.continued"


class MessageAccepted(Event, frozen=True, kw_only=True):
    """`digest` is of the body, for the idempotency key; `place` is the index in the inbox at which it waits."""

    TYPE: ClassVar[str] = "message.accepted"
    message_id: str
    text: str
    files: tuple[dict[str, Any], ...] = ()
    when_busy: WhenBusy
    place: int
    idempotency_key: str | None = None
    digest: str | None = None
    sender: str | None = None
    deadline: Deadline | None = None
    substitute: Substitute | None = None
    """What is done instead, where it is known already that the agent can't do what `when_busy` asks for."""


class MessageEdited(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "message.edited"
    message_id: str
    text: str | None = None
    when_busy: WhenBusy | None = None


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    """The message's end follows in the same commit."""

    TYPE: ClassVar[str] = "message.withdrawn"
    message_id: str


class MessageRequeued(Event, frozen=True, kw_only=True):
    """The host died in its turn and the session's `on_crash` lets it run again: it waits at the front once more."""

    TYPE: ClassVar[str] = "message.requeued"
    message_id: str
    resumed: bool = False


class MessageEnded(Event, frozen=True, kw_only=True):
    """The one end of a message. One that ends while its turn goes on for others leaves it: it alone ran out of time, or
    was cancelled."""

    TYPE: ClassVar[str] = "message.ended"
    message_id: str
    turn_id: str | None = None
    state: MessageState
    error: Problem | None = None


class TurnStarted(Event, frozen=True, kw_only=True):
    """The intent to prompt the agent with these messages (none when the agent began by itself)."""

    TYPE: ClassVar[str] = "turn.started"
    turn_id: str
    message_ids: tuple[str, ...]
    delivered_as: Delivery = "turn"
    origin: Origin = "message"
    shortened: tuple[str, ...] = ()
    """Of these the agent gets the beginning only: more were collected than one turn answers in full."""


class TurnText(Event, frozen=True, kw_only=True):
    """A piece of the answer. Joined, the texts of a turn are its reply."""

    TYPE: ClassVar[str] = "turn.text"
    turn_id: str
    text: str


class TurnThought(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "turn.thought"
    turn_id: str
    text: str


class TurnToolStarted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "turn.tool_started"
    turn_id: str
    tool_id: str
    name: str
    input: Any = None


class TurnToolEnded(Event, frozen=True, kw_only=True):
    """`outcome` is `completed`, `failed`, or `aborted` when the turn ended under it."""

    TYPE: ClassVar[str] = "turn.tool_ended"
    turn_id: str
    tool_id: str
    outcome: str
    output: Any = None


class TurnUsage(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "turn.usage"
    turn_id: str
    usage: Usage


class TurnStalled(Event, frozen=True, kw_only=True):
    """Nothing was heard of the turn for long, and its processes show no sign of life: a person should look."""

    TYPE: ClassVar[str] = "turn.stalled"
    turn_id: str
    detail: str


class TurnSteerRequested(Event, frozen=True, kw_only=True):
    """The intent to hand a waiting steer to the running turn."""

    TYPE: ClassVar[str] = "turn.steer_requested"
    turn_id: str
    message_id: str


class TurnSteered(Event, frozen=True, kw_only=True):
    """The agent took the steer into its turn; the turn's end is the message's end."""

    TYPE: ClassVar[str] = "turn.steered"
    turn_id: str
    message_id: str


class TurnSteerDeclined(Event, frozen=True, kw_only=True):
    """The agent did not take the steer into its turn; it waits on at its place, for a turn of its own or another's."""

    TYPE: ClassVar[str] = "turn.steer_declined"
    turn_id: str
    message_id: str


class TurnCancelRequested(Event, frozen=True, kw_only=True):
    """The intent to stop the agent's turn. What it says from here on is discarded."""

    TYPE: ClassVar[str] = "turn.cancel_requested"
    turn_id: str
    reason: CancelReason
    rollback: bool = False
    again: Again | None = None
    """What `on_crash` makes of its messages when a shutdown cuts it short; None where they end with it."""


class TurnEnded(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "turn.ended"
    turn_id: str
    state: TurnState
    error: Problem | None = None
    usage: Usage | None = None
    mark: str | None = None


class PermissionRequested(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "permission.requested"
    permission_id: str
    turn_id: str
    question: str
    tool: str | None = None
    options: tuple[dict[str, Any], ...] = ()
    deadline_at: int | None = None


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """The answer, by a person or by policy; the intent to tell the agent."""

    TYPE: ClassVar[str] = "permission.answered"
    permission_id: str
    turn_id: str
    decision: str
    option_id: str | None = None
    note: str | None = None
    by: str | None = None


class PermissionExpired(Event, frozen=True, kw_only=True):
    """The question fell away with its turn."""

    TYPE: ClassVar[str] = "permission.expired"
    permission_id: str
    turn_id: str
    reason: str


class AgentStarted(Event, frozen=True, kw_only=True):
    """`resume_token` is what a later process needs to go on with this conversation, which is that of `generation`."""

    TYPE: ClassVar[str] = "agent.started"
    run_id: str
    agent: str
    generation: int
    pid: int | None = None
    resume_token: str | None = None


class AgentResumable(Event, frozen=True, kw_only=True):
    """From now on this token leads a later process back to the conversation."""

    TYPE: ClassVar[str] = "agent.resumable"
    run_id: str
    resume_token: str


class AgentExited(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "agent.exited"
    run_id: str
    exit_code: int | None = None
    reason: str


class AgentLog(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "agent.log"
    text: str


EVENTS: dict[str, type[Event]] = {kind.TYPE: kind for kind in Event.__subclasses__()}
"""Every type of event by its name in the contract."""


class Entry(Value, frozen=True, kw_only=True, omit_defaults=False):
    """An event in the journal. `sequence` has no gaps inside a session; `at` is ms since the epoch."""

    session_id: str
    sequence: int
    generation: int
    type: str
    at: int
    turn_id: str | None = None
    message_id: str | None = None
    data: dict[str, Any] = {}


_Told = TypeVar("_Told", bound=Event)


def journaled(event: _Told) -> _Told:
    """The event as a journal can hold it, equal to what is read back from one.

    Agents that cut a text in the middle of an emoji send half of one (RFC 8259 section 8.2), which UTF-8 can't hold:
    it becomes a replacement character. Numbers that are not finite become null.

    Raises:
        msgspec.ValidationError: A field is not of its type.
    """
    if type(event) is TurnText and event.text.isascii():
        return event  # by far the most there are of any kind, and it can't be changed by what follows
    try:
        wire = msgspec.json.encode(event)
    except UnicodeEncodeError:
        wire = msgspec.json.encode(_whole(msgspec.to_builtins(event)))
    return msgspec.json.decode(wire, type=type(event))


def _whole(value: Any) -> Any:
    """A JSON value without halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_whole(name): _whole(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in cast("list[Any]", value)]
    return value


def entry(event: Event, *, session_id: str, sequence: int, generation: int, at: int) -> Entry:
    """The journal's form of an event, equal to what a store reads back."""
    if type(event) is TurnText:
        return Entry(
            session_id=session_id,
            sequence=sequence,
            generation=generation,
            type=TurnText.TYPE,
            at=at,
            turn_id=event.turn_id,
            data={"text": event.text},
        )
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return Entry(
        session_id=session_id,
        sequence=sequence,
        generation=generation,
        type=event.TYPE,
        at=at,
        turn_id=data.pop("turn_id", None),
        message_id=data.pop("message_id", None),
        data=data,
    )


def text_entries(texts: Iterable[TurnText], *, after: Entry) -> list[Entry]:
    """The entries of pieces of text that come right behind one of the same turn."""
    return [
        Entry(
            session_id=after.session_id,
            sequence=sequence,
            generation=after.generation,
            type=TurnText.TYPE,
            at=after.at,
            turn_id=after.turn_id,
            data={"text": text.text},
        )
        for sequence, text in enumerate(texts, after.sequence + 1)
    ]


def event(entry: Entry) -> Event:
    """The event that an entry of the journal holds.

    Raises:
        msgspec.ValidationError: The entry is not of a form that this version knows.
    """
    kind = EVENTS.get(entry.type)
    if kind is None:
        raise msgspec.ValidationError(f"unknown event type {entry.type!r}")
    known = {"turn_id": entry.turn_id, "message_id": entry.message_id}
    beside = {name: value for name, value in known.items() if name in kind.__struct_fields__ and value is not None}
    return msgspec.convert({**entry.data, **beside}, kind)
