"""`evolve`: what an event makes of a session, and of the records that outlive it in the store."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.core import events as e
from antiphon.core.merge import merged
from antiphon.core.session import AgentRun, Branch, Message, Permission, Running, Session, Turn, Usage
from antiphon.core.table import NEW, ImpossibleEvent, move
from antiphon.core.words import Substitute

EDITABLE = ("title", "labels", "model", "settings", "when_busy", "cwd")
"""What a person can edit. The two objects among them merge; the others are replaced."""

Record = Message | Turn | Permission


class Change(msgspec.Struct, frozen=True):
    """A session after an event, and the records that the event made or changed."""

    session: Session
    records: tuple[Record, ...] = ()


def evolve(session: Session | None, event: e.Event, *, at: int, session_id: str) -> Change:
    """What `event` makes of `session` (None before `session.created`). Gives the event the next sequence.

    Args:
        session: The session before.
        event: What happened.
        at: When, in ms since the epoch.
        session_id: The id of the session, for its creation.

    Raises:
        ImpossibleEvent: The event cannot happen in this state.
    """
    if session is None:
        if not isinstance(event, e.SessionCreated):
            raise ImpossibleEvent(f"no session yet: {event.TYPE} cannot happen")
        return Change(_created(event, at, session_id))
    evolver = _EVOLVERS.get(type(event))
    if evolver is None or session.lifecycle == "deleted":
        raise ImpossibleEvent(f"{session.id} is {session.lifecycle}: {event.TYPE} cannot happen")
    change = evolver(session, event, at)
    return Change(replace(change.session, sequence=session.sequence + 1), change.records)


def fold(session: Session | None, entries: Iterable[e.Entry]) -> Session | None:
    """The session after further entries of its journal.

    Raises:
        ImpossibleEvent, msgspec.ValidationError: The journal is damaged.
    """
    for entry in entries:
        session = evolve(session, e.event(entry), at=entry.at, session_id=entry.session_id).session
    return session


def _created(event: e.SessionCreated, at: int, session_id: str) -> Session:
    move("session", NEW, event.TYPE)
    return Session(
        id=session_id,
        key=event.key,
        sequence=1,
        agent=event.agent,
        cwd=event.cwd,
        model=event.model,
        title=event.title,
        labels=event.labels,
        when_busy=event.when_busy,
        settings=event.settings,
        created_at=at,
        active_at=at,
    )


# The session


def _updated(session: Session, event: e.SessionUpdated, _at: int) -> Change:
    now = merged({name: getattr(session, name) for name in EDITABLE}, event.changes)
    now = {name: now.get(name, {} if name in ("labels", "settings") else None) for name in EDITABLE}
    return Change(replace(session, revision=event.revision, **now))


def _status(session: Session, _event: e.SessionStatusChanged, _at: int) -> Change:
    return Change(session)


def _cleared(session: Session, event: e.SessionCleared, at: int) -> Change:
    move("session", session.lifecycle, event.TYPE)
    after = replace(
        session,
        generation=event.generation,
        resume_token=None,
        branch=session.branch and replace(session.branch, mark=None),
        last_turn=None,
        active_at=at,
        message_at=session.message_at if session.inbox else None,
    )
    return Change(after)


def _lifecycle(session: Session, event: e.Event, at: int) -> Change:
    return Change(replace(session, lifecycle=move("session", session.lifecycle, event.TYPE), active_at=at))


def _forked(session: Session, event: e.SessionForked, at: int) -> Change:
    if session.running or session.inbox or session.agent_run:
        raise ImpossibleEvent(f"{session.id} is not at rest: {event.TYPE} cannot happen")
    branch = Branch(session_id=event.from_session_id, turn_id=event.from_turn_id, mark=event.mark)
    return Change(replace(session, branch=branch, resume_token=None, active_at=at))


def _deleted(session: Session, event: e.SessionDeleted, at: int) -> Change:
    if session.running or session.inbox:
        raise ImpossibleEvent(f"{session.id} has messages without an end: {event.TYPE} cannot happen")
    return _lifecycle(session, event, at)


# Messages


def _accepted(session: Session, event: e.MessageAccepted, at: int) -> Change:
    move("message", NEW, event.TYPE)
    _unknown((*session.inbox, *(session.running.messages if session.running else ())), event.message_id, event)
    message = Message(
        id=event.message_id,
        session_id=session.id,
        session_key=session.key,
        generation=session.generation,
        sequence=session.sequence + 1,
        when_busy=event.when_busy,
        accepted_at=at,
        sender=event.sender,
        deadline=event.deadline,
        substitute=event.substitute,
    )
    inbox = (*session.inbox[: event.place], message, *session.inbox[event.place :])
    return Change(replace(session, inbox=inbox, active_at=at, message_at=at), (message,))


def _edited(session: Session, event: e.MessageEdited, _at: int) -> Change:
    message = _waiting(session, event.message_id, event)
    resumed = message.resumed and event.text is None  # the agent has the old text only
    edited = replace(
        message,
        when_busy=event.when_busy or message.when_busy,
        resumed=resumed,
        substitute=None if event.when_busy else message.substitute,
    )
    return Change(replace(session, inbox=_swap(session.inbox, edited)), (edited,))


def _withdrawn(session: Session, event: e.MessageWithdrawn, _at: int) -> Change:
    _waiting(session, event.message_id, event)
    return Change(session)


def _requeued(session: Session, event: e.MessageRequeued, _at: int) -> Change:
    message = _named(session.ending, event.message_id, event)
    move("message", message.state, event.TYPE)
    again = replace(
        message, state="queued", turn_id=None, started_at=None, delivered_as=None, usage=None, resumed=event.resumed
    )
    return Change(replace(session, ending=_without(session.ending, again.id), inbox=(again, *session.inbox)), (again,))


def _message_ended(session: Session, event: e.MessageEnded, at: int) -> Change:
    running = session.running
    in_turn = running.messages if running else ()
    message = _named((*session.ending, *session.inbox, *in_turn), event.message_id, event)
    if message.turn_id != event.turn_id:
        raise ImpossibleEvent(f"{message.id} is of {message.turn_id}: no end by {event.turn_id} can happen")
    state = move("message", message.state, f"{event.TYPE}:{event.state}")
    ended = replace(message, state=state, error=event.error, ended_at=at, steering=False)
    if running and message in in_turn:
        if running.cancelling or event.state not in ("failed", "cancelled"):
            raise ImpossibleEvent(f"{message.id} is in a turn: {event.TYPE}:{event.state} cannot happen before its end")
        ended = replace(ended, left_at=session.sequence + 1, usage=running.turn.usage or Usage())
        left = replace(running, messages=_without(in_turn, ended.id))
        return Change(replace(session, running=left), (ended,))
    return Change(
        replace(session, ending=_without(session.ending, ended.id), inbox=_without(session.inbox, ended.id)), (ended,)
    )


def _paused(session: Session, event: e.QueuePaused, at: int) -> Change:
    if session.paused_at:
        raise ImpossibleEvent(f"{session.id} is paused already: {event.TYPE} cannot happen")
    return Change(replace(session, paused_at=at))


def _continued(session: Session, event: e.QueueContinued, _at: int) -> Change:
    if not session.paused_at:
        raise ImpossibleEvent(f"{session.id} is not paused: {event.TYPE} cannot happen")
    return Change(replace(session, paused_at=None))


def _reordered(session: Session, event: e.QueueReordered, _at: int) -> Change:
    if sorted(event.order) != sorted(message.id for message in session.inbox):
        raise ImpossibleEvent(f"not the order of what waits: {event.TYPE} cannot happen")
    return Change(replace(session, inbox=tuple(_named(session.inbox, id, event) for id in event.order)))


# Turns


def _turn_started(session: Session, event: e.TurnStarted, at: int) -> Change:
    if session.running:
        raise ImpossibleEvent(f"{session.running.turn.id} runs: {event.TYPE} cannot happen")
    move("turn", NEW, event.TYPE)
    messages = tuple(
        replace(
            message,
            state=move("message", message.state, event.TYPE),
            turn_id=event.turn_id,
            generation=session.generation,
            delivered_as=event.delivered_as,
            started_at=at,
            attempts=message.attempts + 1,
            resumed=message.resumed and message.generation == session.generation,
            substitute=_at_start(message, event),
        )
        for message in (_named(session.inbox, id, event) for id in event.message_ids)
    )
    turn = Turn(
        id=event.turn_id,
        session_id=session.id,
        generation=session.generation,
        origin=event.origin,
        message_ids=event.message_ids,
        started_at=at,
        first_sequence=session.sequence + 1,
    )
    inbox = tuple(message for message in session.inbox if message.id not in event.message_ids)
    running = Running(turn=turn, messages=messages, heard_at=at)
    after = replace(session, running=running, inbox=inbox, turns=session.turns + 1, active_at=at)
    return Change(after, (turn, *messages))


def _at_start(message: Message, event: e.TurnStarted) -> Substitute | None:
    if message.id in event.shortened:
        return "summary"
    return None if message.substitute == "summary" else message.substitute  # of a turn that a crash cut short


def _said(session: Session, event: Any, at: int) -> Change:
    running = _running(session, event)
    if running.touched and running.heard_at == at:
        return Change(session)
    return Change(replace(session, running=replace(running, touched=True, heard_at=at)))


def _tool_started(session: Session, event: e.TurnToolStarted, at: int) -> Change:
    running = _running(session, event)
    tools = (*running.open_tools, event.tool_id)
    return Change(replace(session, running=replace(running, touched=True, heard_at=at, open_tools=tools)))


def _tool_ended(session: Session, event: e.TurnToolEnded, at: int) -> Change:
    running = _running(session, event)
    tools = tuple(tool for tool in running.open_tools if tool != event.tool_id)
    return Change(replace(session, running=replace(running, touched=True, heard_at=at, open_tools=tools)))


def _used(session: Session, event: e.TurnUsage, at: int) -> Change:
    running = _running(session, event)
    turn = replace(running.turn, usage=event.usage)
    return Change(replace(session, running=replace(running, turn=turn, heard_at=at)), (turn,))


def _stalled(session: Session, event: e.TurnStalled, at: int) -> Change:
    return Change(replace(session, running=replace(_running(session, event), stalled_at=at)))


def _steer_requested(session: Session, event: e.TurnSteerRequested, _at: int) -> Change:
    _running(session, event)
    message = replace(_waiting(session, event.message_id, event), steering=True)
    return Change(replace(session, inbox=_swap(session.inbox, message)), (message,))


def _steered(session: Session, event: e.TurnSteered, at: int) -> Change:
    running = _running(session, event)
    message = _waiting(session, event.message_id, event)
    steered = replace(
        message,
        state=move("message", message.state, event.TYPE),
        turn_id=running.turn.id,
        generation=running.turn.generation,
        delivered_as="steer",
        started_at=at,
        steering=False,
        attempts=message.attempts + 1,
        substitute=None,
    )
    turn = replace(running.turn, message_ids=(*running.turn.message_ids, steered.id))
    running = replace(running, turn=turn, messages=(*running.messages, steered), touched=True, heard_at=at)
    return Change(replace(session, running=running, inbox=_without(session.inbox, steered.id)), (turn, steered))


def _steer_declined(session: Session, event: e.TurnSteerDeclined, _at: int) -> Change:
    _running(session, event)
    waiting = _waiting(session, event.message_id, event)
    message = replace(waiting, steering=False, declined_by=event.turn_id, substitute="queue")
    return Change(replace(session, inbox=_swap(session.inbox, message)), (message,))


def _cancel_requested(session: Session, event: e.TurnCancelRequested, _at: int) -> Change:
    running = _running(session, event)
    move("turn", _stage(running), f"{event.TYPE}:deadline" if event.reason == "deadline" else event.TYPE)
    running = replace(
        running,
        cancelling=running.cancelling or event.reason,
        rollback=running.rollback or event.rollback,
        again=event.again,
    )
    return Change(replace(session, running=running))


def _stage(running: Running) -> str:
    """Where a turn stands, in the words of the table."""
    if running.cancelling is None:
        return "running"
    return "overdue" if running.cancelling == "deadline" else "cancelling"


def _turn_ended(session: Session, event: e.TurnEnded, at: int) -> Change:
    running = _running(session, event)
    state = move("turn", _stage(running), f"{event.TYPE}:{event.state}")
    usage = event.usage or running.turn.usage
    turn = replace(
        running.turn,
        state=state,
        ended_at=at,
        last_sequence=session.sequence + 1,
        error=event.error,
        usage=usage,
        rolled_back=running.rollback,
        mark=event.mark,
    )
    ending = tuple(replace(message, usage=usage or Usage()) for message in running.messages)
    parked = tuple(
        replace(message, steering=False, substitute="queue")
        for message in session.inbox
        if message.when_busy == "steer" and (message.steering or not message.substitute)
    )
    inbox = session.inbox
    for message in parked:
        inbox = _swap(inbox, message)
    current = turn.generation == session.generation
    after = replace(
        session,
        running=None,
        ending=ending,
        inbox=inbox,
        last_turn=event.state if current else session.last_turn,
        active_at=at,
    )
    return Change(after, (turn, *parked))


# Permissions


def _requested(session: Session, event: e.PermissionRequested, at: int) -> Change:
    running = _running(session, event)
    move("permission", NEW, event.TYPE)
    _unknown(session.permissions, event.permission_id, event)
    permission = Permission(
        id=event.permission_id,
        session_id=session.id,
        turn_id=event.turn_id,
        question=event.question,
        tool=event.tool,
        options=event.options,
        requested_at=at,
        deadline_at=event.deadline_at,
    )
    running = replace(running, touched=True, heard_at=at)
    return Change(replace(session, running=running, permissions=(*session.permissions, permission)), (permission,))


def _answered(session: Session, event: e.PermissionAnswered, at: int) -> Change:
    permission = _named(session.permissions, event.permission_id, event)
    settled = replace(
        permission,
        state=move("permission", permission.state, f"{event.TYPE}:{event.decision}"),
        option_id=event.option_id,
        note=event.note,
        by=event.by,
        answered_at=at,
    )
    running = session.running and replace(session.running, heard_at=at)
    left = _without(session.permissions, settled.id)
    return Change(replace(session, running=running, permissions=left), (settled,))


def _expired(session: Session, event: e.PermissionExpired, at: int) -> Change:
    permission = _named(session.permissions, event.permission_id, event)
    settled = replace(
        permission, state=move("permission", permission.state, event.TYPE), note=event.reason, answered_at=at
    )
    return Change(replace(session, permissions=_without(session.permissions, settled.id)), (settled,))


# The agent


def _agent_started(session: Session, event: e.AgentStarted, at: int) -> Change:
    move("agent", "up" if session.agent_run else "away", event.TYPE)
    run = AgentRun(id=event.run_id, generation=event.generation, pid=event.pid, started_at=at)
    token = event.resume_token if run.generation == session.generation else None
    return Change(replace(session, agent_run=run, resume_token=token or session.resume_token))


def _agent_resumable(session: Session, event: e.AgentResumable, _at: int) -> Change:
    run = session.agent_run
    if run and run.id == event.run_id and run.generation == session.generation:
        return Change(replace(session, resume_token=event.resume_token))
    return Change(session)


def _agent_exited(session: Session, event: e.AgentExited, _at: int) -> Change:
    run = session.agent_run
    move("agent", "up" if run and run.id == event.run_id else "away", event.TYPE)
    return Change(replace(session, agent_run=None))


def _log(session: Session, _event: e.AgentLog, at: int) -> Change:
    running = session.running and replace(session.running, heard_at=at)
    return Change(replace(session, running=running))


_Named = TypeVar("_Named", Message, Permission)


def _named(values: tuple[_Named, ...], id: str, event: e.Event) -> _Named:
    found = next((value for value in values if value.id == id), None)
    if found is None:
        raise ImpossibleEvent(f"{id} is not here: {event.TYPE} cannot happen")
    return found


def _unknown(values: tuple[_Named, ...], id: str, event: e.Event) -> None:
    if any(value.id == id for value in values):
        raise ImpossibleEvent(f"{id} is here already: {event.TYPE} cannot happen")


def _without(values: tuple[_Named, ...], id: str) -> tuple[_Named, ...]:
    return tuple(value for value in values if value.id != id)


def _swap(inbox: tuple[Message, ...], message: Message) -> tuple[Message, ...]:
    return tuple(message if waiting.id == message.id else waiting for waiting in inbox)


def _waiting(session: Session, id: str, event: e.Event) -> Message:
    return _named(session.inbox, id, event)


def _running(session: Session, event: Any) -> Running:
    running = session.running
    if running is None or running.turn.id != event.turn_id:
        raise ImpossibleEvent(f"{event.turn_id} does not run: {event.TYPE} cannot happen")
    return running


_EVOLVERS: dict[type[e.Event], Callable[[Session, Any, int], Change]] = {
    e.SessionUpdated: _updated,
    e.SessionStatusChanged: _status,
    e.SessionCleared: _cleared,
    e.SessionStopped: _lifecycle,
    e.SessionResumed: _lifecycle,
    e.SessionDeleted: _deleted,
    e.SessionForked: _forked,
    e.QueueReordered: _reordered,
    e.QueuePaused: _paused,
    e.QueueContinued: _continued,
    e.MessageAccepted: _accepted,
    e.MessageEdited: _edited,
    e.MessageWithdrawn: _withdrawn,
    e.MessageRequeued: _requeued,
    e.MessageEnded: _message_ended,
    e.TurnStarted: _turn_started,
    e.TurnText: _said,
    e.TurnThought: _said,
    e.TurnToolStarted: _tool_started,
    e.TurnToolEnded: _tool_ended,
    e.TurnUsage: _used,
    e.TurnStalled: _stalled,
    e.TurnSteerRequested: _steer_requested,
    e.TurnSteered: _steered,
    e.TurnSteerDeclined: _steer_declined,
    e.TurnCancelRequested: _cancel_requested,
    e.TurnEnded: _turn_ended,
    e.PermissionRequested: _requested,
    e.PermissionAnswered: _answered,
    e.PermissionExpired: _expired,
    e.AgentStarted: _agent_started,
    e.AgentResumable: _agent_resumable,
    e.AgentExited: _agent_exited,
    e.AgentLog: _log,
}
