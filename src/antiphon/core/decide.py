"""`decide`: which events a command makes of a session, or why not. The same input always gives the same answer."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from antiphon.core import commands as c
from antiphon.core import deadlines, errors
from antiphon.core import events as e
from antiphon.core.collecting import collecting, gathered, may_start_at, next_batch
from antiphon.core.evolve import EDITABLE
from antiphon.core.merge import merged
from antiphon.core.reset import reset_due
from antiphon.core.rules import Given, Rules
from antiphon.core.session import Message, Problem, Running, Session, Usage
from antiphon.core.settings import unusable
from antiphon.core.times import rfc3339
from antiphon.core.words import Again, CancelReason, MessageState, Substitute, TurnState, WhenBusy


class Refused(msgspec.Struct, frozen=True):
    """The command changes nothing; the error says why."""

    error: errors.AntiphonError


class Repeated(msgspec.Struct, frozen=True):
    """The command was carried out before, under the same idempotency key, as this message. Nothing changes."""

    message_id: str


Events = tuple[e.Event, ...]
Decision = Events | Refused | Repeated

POLICY = "policy"
"""Who answered, where no person did."""
UNANSWERED = "Nobody answered before the deadline."
INTERRUPTING = ("interrupt", "rollback")
ENDS: dict[TurnState, MessageState] = {
    "completed": "answered",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
}
"""The end of a message by the end of its turn."""


def decide(session: Session | None, command: c.Command, given: Given) -> Decision:
    """The events that `command` makes of `session`, none when there is nothing to do, or why not.

    Args:
        session: The session; None when there is none, which only `CreateSession` takes.
        command: What is wanted.
        given: The time and the rules.
    """
    if session is None or session.lifecycle == "deleted":
        if session is None and isinstance(command, c.CreateSession):
            return _create(command)
        return Refused(errors.NotFound("session", session.id if session else "?"))
    return _DECIDERS[type(command)](session, command, given)


def _create(command: c.CreateSession) -> Decision:
    flaw = unusable(command.settings)
    if flaw:
        return Refused(errors.InvalidRequest(flaw))
    fields = {name: getattr(command, name) for name in command.__struct_fields__ if name != "session_id"}
    return (e.SessionCreated(**fields),)


def _exists(session: Session, _command: c.CreateSession, _given: Given) -> Decision:
    return Refused(errors.Exists(f"Session {session.id} exists already.", session_id=session.id))


# Messages


def _send(session: Session, command: c.SendMessage, given: Given) -> Decision:
    if command.prior:
        return _spent(command, *command.prior)
    if session.holds(command.message_id):
        return Repeated(command.message_id)
    refusal = _unwelcome(session, command, given)
    if refusal:
        return refusal
    when_busy = command.when_busy or session.when_busy or given.rules.when_busy
    interrupts = when_busy in INTERRUPTING
    accepted = e.MessageAccepted(
        message_id=command.message_id,
        text=command.text,
        files=command.files,
        when_busy=when_busy,
        place=0 if interrupts else len(session.inbox),
        idempotency_key=command.idempotency_key,
        digest=command.digest,
        sender=command.sender,
        deadline=command.deadline,
        substitute=_substitute(session, when_busy, given),
    )
    before = _reset(session, given) if command.expected_generation is None else ()
    after = (*_supersede(session.inbox, when_busy), *_interrupt(session, when_busy, given))
    return (*before, accepted, *after)


def _spent(command: c.SendMessage, message_id: str, digest: str | None) -> Decision:
    if digest == command.digest:
        return Repeated(message_id)
    detail = "This idempotency key was used for another message. Send the same body, or use a new key."
    return Refused(errors.KeyReused(detail, message_id=message_id))


def _unwelcome(session: Session, command: c.SendMessage, given: Given) -> Refused | None:
    if session.lifecycle == "stopped":
        detail = f"Session {_name(session)} was stopped. Resume it, then send again."
        return Refused(errors.Stopped(detail, session_id=session.id))
    if command.expected_generation not in (None, session.generation):
        detail = f"Session {_name(session)} was cleared meanwhile: it is now generation {session.generation}."
        return Refused(errors.Conflict(detail, session_id=session.id, generation=session.generation))
    when_busy = command.when_busy or session.when_busy or given.rules.when_busy
    if when_busy == "refuse" and (session.running or (session.inbox and not session.paused_at)):
        return Refused(_busy(session))
    if when_busy == "collect" and (refusal := _too_many(session, command, given)):
        return refusal
    if len(session.inbox) >= given.rules.queue_max:
        detail = f"{len(session.inbox)} messages wait in session {_name(session)}. Try again when some have run."
        return Refused(errors.QueueFull(detail, session_id=session.id, retry_after_s=5))
    return None


def _too_many(session: Session, command: c.SendMessage, given: Given) -> Refused | None:
    """A refusal where as many wait to be collected as one turn answers, and no more may."""
    how = collecting(session, given.rules)
    if how.overflow != "refuse" or len(gathered(session, command.sender, how)) < how.max:
        return None
    detail = f"{how.max} messages wait in session {_name(session)} to be collected. Try again when they have run."
    return Refused(errors.QueueFull(detail, session_id=session.id, retry_after_s=5))


def _substitute(session: Session, when_busy: WhenBusy, given: Given) -> Substitute | None:
    """What is done instead of what was asked for, where the agent can't do that to the turn that runs."""
    if session.running is None:
        return None
    if when_busy == "steer" and not given.can_steer:
        return "queue"
    return "interrupt" if when_busy == "rollback" and not given.can_roll_back else None


def _busy(session: Session) -> errors.Busy:
    running, waits = session.running, session.inbox[:1]
    first = running.messages[:1] if running else waits
    since = running.turn.started_at if running else waits[0].accepted_at
    holder = {
        "turn_id": running.turn.id if running else None,
        "message_id": first[0].id if first else None,
        "since": rfc3339(since),
    }
    detail = f"Session {_name(session)} is busy with another message. Wait for it, or send with another when_busy."
    return errors.Busy(detail, session_id=session.id, holder=holder, retry_after_s=1)


def _reset(session: Session, given: Given) -> Events:
    """A new generation, when the session's reset policy wants one before the next message; never over a turn."""
    if session.running or session.inbox or not reset_due(session, given.now):
        return ()
    return (e.SessionCleared(generation=session.generation + 1, reason="reset"),)


def _supersede(waiting: Iterable[Message], when_busy: WhenBusy) -> Events:
    """The end of the rollbacks that wait when another one comes."""
    if when_busy != "rollback":
        return ()
    problem = Problem(code="superseded", detail="A later rollback message took its place before it ran.")
    superseded = [message for message in waiting if message.when_busy == "rollback"]
    return tuple(e.MessageEnded(message_id=message.id, state="cancelled", error=problem) for message in superseded)


def _interrupt(session: Session, when_busy: WhenBusy, given: Given) -> Events:
    if when_busy not in INTERRUPTING:
        return ()
    return _cancel(session, "interrupt", rollback=when_busy == "rollback" and given.can_roll_back)


def _edit(session: Session, command: c.EditMessage, given: Given) -> Decision:
    message = session.waiting(command.message_id)
    if message is None or message.steering:
        return Refused(_not_editable(command.message_id))
    if command.text is None and command.when_busy is None:
        return ()
    edited = e.MessageEdited(message_id=message.id, text=command.text, when_busy=command.when_busy)
    if command.when_busy not in INTERRUPTING:
        return (edited,)
    others = [waiting for waiting in session.inbox if waiting.id != message.id]
    first = e.QueueReordered(order=(message.id, *[waiting.id for waiting in others]))
    superseded = _supersede(others, command.when_busy)
    return (edited, first, *superseded, *_interrupt(session, command.when_busy, given))


def _withdraw(session: Session, command: c.WithdrawMessage, _given: Given) -> Decision:
    message = session.waiting(command.message_id)
    if message is None or message.steering:
        return Refused(_not_editable(command.message_id))
    ended = e.MessageEnded(message_id=message.id, state="withdrawn")
    return (e.MessageWithdrawn(message_id=message.id), ended)


def _not_editable(message_id: str) -> errors.NotEditable:
    detail = f"Message {message_id} is no longer queued: it runs, was handed to the agent, or has ended."
    return errors.NotEditable(detail, message_id=message_id)


def _reorder(session: Session, command: c.ReorderQueue, _given: Given) -> Decision:
    waiting = [message.id for message in session.inbox]
    if sorted(command.order) != sorted(waiting):
        detail = "`order` must name every waiting message of the session exactly once. Read the queue, then try again."
        return Refused(errors.InvalidRequest(detail, session_id=session.id, waiting=waiting))
    return () if list(command.order) == waiting else (e.QueueReordered(order=command.order),)


def _pause(session: Session, _command: c.PauseQueue, _given: Given) -> Decision:
    return () if session.paused_at else (e.QueuePaused(),)


def _continue(session: Session, _command: c.ContinueQueue, _given: Given) -> Decision:
    return (e.QueueContinued(),) if session.paused_at else ()


def _cancel_message(session: Session, command: c.CancelMessage, _given: Given) -> Decision:
    running, waiting = session.running, session.waiting(command.message_id)
    if waiting and not waiting.steering:
        return (e.MessageEnded(message_id=waiting.id, state="cancelled"),)
    runs = [message for message in running.messages if message.id == command.message_id] if running else []
    if running is None or not runs:
        return Refused(_not_editable(command.message_id))
    if deadlines.alone(running, runs):
        return _cancel(session, "cancel")
    if running.cancelling:
        return ()
    return (e.MessageEnded(message_id=command.message_id, turn_id=running.turn.id, state="cancelled"),)


def _cancel_queue(session: Session, _command: c.CancelQueue, _given: Given) -> Decision:
    return tuple(_cancelled(message for message in session.inbox if not message.steering))


def _cancelled(waiting: Iterable[Message]) -> Iterable[e.MessageEnded]:
    return (e.MessageEnded(message_id=message.id, state="cancelled") for message in waiting)


def _time_passed(session: Session, _command: c.TimePassed, given: Given) -> Decision:
    return deadlines.end_late(session, given.now)


# The session


def _patch(session: Session, command: c.PatchSession, _given: Given) -> Decision:
    if command.if_match not in (None, session.revision):
        detail = f"The session is at revision {session.revision}, not {command.if_match}. Read it, then try again."
        return Refused(errors.PreconditionFailed(detail, session_id=session.id, revision=session.revision))
    before = {name: value for name in EDITABLE if (value := getattr(session, name)) is not None}
    changes = {name: value for name, value in command.changes.items() if name in EDITABLE}
    after = {"labels": {}, "settings": {}} | merged(before, changes)
    if after == before:
        return ()
    flaw = unusable(after["settings"])
    if flaw:
        return Refused(errors.InvalidRequest(flaw, session_id=session.id))
    return (e.SessionUpdated(changes=changes, revision=session.revision + 1),)


def _stop(session: Session, _command: c.StopSession, _given: Given) -> Decision:
    if session.lifecycle == "stopped":
        return ()
    return (e.SessionStopped(), *_cancel(session, "stop"))


def _resume(session: Session, _command: c.ResumeSession, _given: Given) -> Decision:
    return (e.SessionResumed(),) if session.lifecycle == "stopped" else ()


def _clear(session: Session, command: c.ClearSession, _given: Given) -> Decision:
    cleared = e.SessionCleared(generation=session.generation + 1, reason=command.reason)
    return (*_cancel(session, "clear"), cleared)


def _fork(session: Session, command: c.Fork, _given: Given) -> Decision:
    """Nothing runs in a copy. What waited in the original is taken back here, what a person had halted goes on."""
    taken_back: list[e.Event] = []
    for message in session.inbox:
        taken_back += [
            e.MessageWithdrawn(message_id=message.id),
            e.MessageEnded(message_id=message.id, state="withdrawn"),
        ]
    resumed = (e.SessionResumed(),) if session.lifecycle == "stopped" else ()
    continued = (e.QueueContinued(),) if session.paused_at else ()
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    return (*taken_back, *resumed, *continued, e.SessionForked(**fields))


def _delete(session: Session, _command: c.DeleteSession, _given: Given) -> Decision:
    waiting = [e.MessageEnded(message_id=message.id, state="cancelled") for message in session.inbox]
    running = _end_turn(session.running, session, "cancelled") if session.running else ()
    return (*running, *waiting, e.SessionDeleted())


# Turns


def _start(session: Session, command: c.StartTurn, given: Given) -> Decision:
    due = None if session.running else may_start_at(session, given.rules, given.now)
    if due is None or due > given.now:
        return ()
    batch = next_batch(session, given.rules)
    started = e.TurnStarted(
        turn_id=command.turn_id,
        message_ids=tuple(message.id for message in batch.messages),
        delivered_as="collect" if batch.messages[0].when_busy == "collect" else "turn",
        shortened=tuple(message.id for message in batch.shortened),
    )
    return (started,)


def _steer(session: Session, command: c.SteerTurn, _given: Given) -> Decision:
    known = _of_running(session, command.turn_id) and any(m.id == command.message_id for m in session.steerable)
    return (e.TurnSteerRequested(turn_id=command.turn_id, message_id=command.message_id),) if known else ()


def _cancel_turn(session: Session, command: c.CancelTurn, _given: Given) -> Decision:
    if not session.running or session.running.turn.id != command.turn_id:
        detail = f"Turn {command.turn_id} has ended; there is nothing to cancel."
        return Refused(errors.TurnEnded(detail, turn_id=command.turn_id, session_id=session.id))
    waiting = _cancelled(session.inbox) if command.queue else ()
    return (*_cancel(session, command.reason), *waiting)


def _cancel(session: Session, reason: CancelReason, *, rollback: bool = False, again: Again | None = None) -> Events:
    """The intent to stop what runs, where something does and that is not under way already.

    What a shutdown would let run again does not, once somebody has cancelled it.
    """
    running = session.running
    if not running or (running.cancelling and not running.again and (running.rollback or not rollback)):
        return ()
    asked = _expire(session, reason)
    return (e.TurnCancelRequested(turn_id=running.turn.id, reason=reason, rollback=rollback, again=again), *asked)


def _expire(session: Session, reason: str) -> Events:
    return tuple(
        e.PermissionExpired(permission_id=permission.id, turn_id=permission.turn_id, reason=reason)
        for permission in session.permissions
    )


def _end_turn(
    running: Running,
    session: Session,
    state: TurnState,
    *,
    error: Problem | None = None,
    usage: Usage | None = None,
    mark: str | None = None,
    again: Events = (),
) -> Events:
    """The end of a turn and of all that hangs on it. `again`: what becomes of its messages instead of an end."""
    turn_id = running.turn.id
    tools = [e.TurnToolEnded(turn_id=turn_id, tool_id=tool, outcome="aborted") for tool in running.open_tools]
    ended = e.TurnEnded(turn_id=turn_id, state=state, error=error, usage=usage, mark=mark)
    ends = [
        e.MessageEnded(message_id=message.id, turn_id=turn_id, state=ENDS[state], error=error)
        for message in running.messages
    ]
    return (*_expire(session, f"turn_{state}"), *tools, ended, *(again or ends))


# What the agent says


def _of_running(session: Session, turn_id: str | None) -> Running | None:
    running = session.running
    return running if running and running.turn.id == turn_id else None


def _said(session: Session, command: c.AgentSaid, _given: Given) -> Decision:
    running, said = _of_running(session, command.turn_id), command.said
    if running is None or running.cancelling or said.turn_id != running.turn.id:
        return ()
    if isinstance(said, e.TurnUsage) and not said.usage.sound:
        return ()
    if isinstance(said, e.TurnToolStarted) and said.tool_id in running.open_tools:
        return ()
    if isinstance(said, e.TurnToolEnded) and said.tool_id not in running.open_tools:
        return ()
    return (said,)


def _spoke(session: Session, command: c.AgentSpoke, _given: Given) -> Decision:
    running = _of_running(session, command.turn_id)
    if running is None or running.cancelling:
        return ()
    return tuple([e.TurnText(turn_id=command.turn_id, text=text) for text in command.texts])


def _asked(session: Session, command: c.AgentAsked, _given: Given) -> Decision:
    running = _of_running(session, command.turn_id)
    if running is None or running.cancelling or any(p.id == command.permission_id for p in session.permissions):
        return ()
    fields = {name: getattr(command, name) for name in e.PermissionRequested.__struct_fields__}
    requested = e.PermissionRequested(**fields)
    if command.decision is None:
        return (requested,)
    answered = e.PermissionAnswered(
        permission_id=command.permission_id,
        turn_id=command.turn_id,
        decision=command.decision,
        note=command.note,
        by=POLICY,
    )
    return (requested, answered)


def _answer(session: Session, command: c.AnswerPermission, _given: Given) -> Decision:
    permission = next((asked for asked in session.permissions if asked.id == command.permission_id), None)
    if permission is None:
        detail = f"Permission request {command.permission_id} was answered already, or its turn has ended."
        return Refused(errors.PermissionAnswered(detail, permission_id=command.permission_id, session_id=session.id))
    if command.decision not in ("allow", "deny"):
        return Refused(errors.InvalidRequest("`decision` must be allow or deny.", permission_id=permission.id))
    offered = [option.get("id") for option in permission.options]
    if command.option_id is not None and offered and command.option_id not in offered:
        detail = f"`option_id` must be one of {', '.join(map(str, offered))}, as the agent offers."
        return Refused(errors.InvalidRequest(detail, permission_id=permission.id))
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    return (e.PermissionAnswered(turn_id=permission.turn_id, **fields),)


def _expire_permission(session: Session, command: c.ExpirePermission, given: Given) -> Decision:
    answer = c.AnswerPermission(
        permission_id=command.permission_id, decision=command.decision, note=UNANSWERED, by=POLICY
    )
    decision = _answer(session, answer, given)
    return () if isinstance(decision, Refused) else decision


def _stalls(session: Session, command: c.TurnStalls, _given: Given) -> Decision:
    running = _of_running(session, command.turn_id)
    if running is None or running.cancelling or session.permissions or running.stalled:
        return ()
    if running.heard_at > command.heard_at:
        return ()
    return (e.TurnStalled(turn_id=command.turn_id, detail=command.detail),)


def _steered(session: Session, command: c.AgentSteered, _given: Given) -> Decision:
    running, message = _of_running(session, command.turn_id), session.waiting(command.message_id)
    if running is None or running.cancelling or message is None or not message.steering:
        return ()
    outcome = e.TurnSteered if command.taken else e.TurnSteerDeclined
    return (outcome(turn_id=command.turn_id, message_id=message.id),)


def _began(session: Session, command: c.AgentBegan, _given: Given) -> Decision:
    run = session.agent_run
    stale = run is None or run.generation != session.generation
    if session.running or stale or session.lifecycle != "active":
        return ()
    return (e.TurnStarted(turn_id=command.turn_id, message_ids=(), origin="agent"),)


def _ended(session: Session, command: c.AgentEnded, _given: Given) -> Decision:
    running = _of_running(session, command.turn_id)
    if running is None:
        return ()
    error = command.error
    if command.cancelled and not error:
        error = Problem(code="agent_failed", detail="The agent stopped its turn by itself.")
    usage = command.usage if command.usage and command.usage.sound else None
    return _settle(session, running, error=error, usage=usage, mark=command.mark)


def _settle(
    session: Session, running: Running, *, error: Problem | None, usage: Usage | None = None, mark: str | None = None
) -> Events:
    """End the turn as what it came to: a cancel that is on disk outweighs whatever the agent says after it."""
    if running.cancelling == "shutdown":
        return _end_turn(running, session, "interrupted", usage=usage, again=_requeued(running, running.again))
    if running.cancelling == "deadline":
        return _end_turn(running, session, "failed", error=deadlines.RUNNING, usage=usage)
    if running.cancelling:
        return _end_turn(running, session, "cancelled", usage=usage)
    if error:
        return _end_turn(running, session, "failed", error=error, usage=usage)
    return _end_turn(running, session, "completed", usage=usage, mark=mark)


def _opened(session: Session, command: c.AgentOpened, _given: Given) -> Decision:
    if session.agent_run and session.agent_run.id == command.run_id:
        return ()
    started = e.AgentStarted(
        run_id=command.run_id,
        agent=session.agent,
        generation=command.generation or (session.running.turn.generation if session.running else session.generation),
        pid=command.pid,
        resume_token=command.resume_token,
    )
    return (*_gone(session, reason="replaced"), started)


def _can_resume(session: Session, command: c.AgentCanResume, _given: Given) -> Decision:
    run = session.agent_run
    current = run and run.id == command.run_id and run.generation == session.generation
    if not current or session.resume_token == command.resume_token:
        return ()
    return (e.AgentResumable(run_id=command.run_id, resume_token=command.resume_token),)


def _unavailable(session: Session, command: c.AgentUnavailable, _given: Given) -> Decision:
    running = _of_running(session, command.turn_id)
    if running is None:
        return ()
    return _settle(session, running, error=Problem(code="agent_unavailable", detail=command.detail))


def _exited(session: Session, command: c.AgentExited, _given: Given) -> Decision:
    run = session.agent_run
    exited: Events = ()
    if run and run.id == command.run_id:
        exited = (e.AgentExited(run_id=run.id, exit_code=command.exit_code, reason=command.reason),)
    running = _of_running(session, command.turn_id)
    if running is None:
        return exited
    code = "" if command.exit_code is None else f" with code {command.exit_code}"
    detail = f"The agent exited{code} in the middle of the turn."
    error = Problem(code="agent_failed", detail=f"{detail} {command.detail}".strip())
    return (*exited, *_settle(session, running, error=error))


def _gone(session: Session, *, reason: str) -> Events:
    return (e.AgentExited(run_id=session.agent_run.id, reason=reason),) if session.agent_run else ()


def _wrote(_session: Session, command: c.AgentWrote, _given: Given) -> Decision:
    return (e.AgentLog(text=command.text),)


# What the host says of itself


def _host_died(session: Session, command: c.HostDied, given: Given) -> Decision:
    gone, running = _gone(session, reason="host_died"), session.running
    if running is None:
        return gone
    if running.cancelling:
        return (*gone, *_settle(session, running, error=None))
    again = _requeued(running, _again(running, command, given.rules))
    return (*gone, *_end_turn(running, session, "interrupted", again=again))


def _again(running: Running, command: c.HostDied | c.ShutDown, rules: Rules) -> Again | None:
    """What becomes of a turn's messages when the host's end cuts it short, where `on_crash` wants it and it is safe."""
    if any(message.attempts >= rules.attempts_max for message in running.messages):
        return None
    if not running.touched:
        return "anew" if command.on_crash in ("retry_if_untouched", "resume") else None
    return "resumed" if command.on_crash == "resume" and command.can_resume else None


def _requeued(running: Running, again: Again | None) -> Events:
    """The turn's messages back at the front of the queue, if they are to run again; else nothing."""
    if again is None:
        return ()
    return tuple(e.MessageRequeued(message_id=m.id, resumed=again == "resumed") for m in reversed(running.messages))


def _shut_down(session: Session, command: c.ShutDown, given: Given) -> Decision:
    running = session.running
    if running is None or running.cancelling:
        return ()
    return _cancel(session, "shutdown", again=_again(running, command, given.rules))


def _name(session: Session) -> str:
    return repr(session.key) if session.key else session.id


_DECIDERS: dict[type[c.Command], Callable[[Session, Any, Given], Decision]] = {
    c.CreateSession: _exists,
    c.SendMessage: _send,
    c.EditMessage: _edit,
    c.WithdrawMessage: _withdraw,
    c.ReorderQueue: _reorder,
    c.CancelMessage: _cancel_message,
    c.CancelQueue: _cancel_queue,
    c.PauseQueue: _pause,
    c.ContinueQueue: _continue,
    c.TimePassed: _time_passed,
    c.Fork: _fork,
    c.TurnStalls: _stalls,
    c.PatchSession: _patch,
    c.StopSession: _stop,
    c.ResumeSession: _resume,
    c.ClearSession: _clear,
    c.DeleteSession: _delete,
    c.CancelTurn: _cancel_turn,
    c.AnswerPermission: _answer,
    c.StartTurn: _start,
    c.SteerTurn: _steer,
    c.HostDied: _host_died,
    c.ShutDown: _shut_down,
    c.AgentOpened: _opened,
    c.AgentCanResume: _can_resume,
    c.AgentUnavailable: _unavailable,
    c.AgentSaid: _said,
    c.AgentSpoke: _spoke,
    c.AgentAsked: _asked,
    c.AgentSteered: _steered,
    c.AgentBegan: _began,
    c.AgentEnded: _ended,
    c.AgentExited: _exited,
    c.AgentWrote: _wrote,
    c.ExpirePermission: _expire_permission,
}
