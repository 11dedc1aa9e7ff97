"""The table of transitions: each is taken in some story, and nothing that is not in it can happen."""

from collections.abc import Callable

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core import evolve as evolving
from antiphon.core.evolve import evolve
from antiphon.core.session import Deadline, Problem, Usage
from antiphon.core.table import NEW, TRANSITIONS, ImpossibleEvent, Transition, move
from antiphon.core.words import CancelReason, MessageState, OnCrash
from models.scene import Scene

Story = Callable[[], object]


def waiting() -> Scene:
    scene = Scene()
    scene.send("msg_1")
    return scene


def running(reason: CancelReason | None = None) -> Scene:
    scene = waiting()
    scene.start("turn_1")
    if reason:
        scene.take(c.CancelTurn(turn_id="turn_1", reason=reason))
    return scene


def late(**limits: int) -> Scene:
    """A message whose deadline has passed, while it waited or, if that is what is limited, while it ran."""
    scene = Scene()
    scene.send("msg_1", deadline=Deadline(**limits))
    if "running_ms" in limits:
        scene.start("turn_1")
    scene.now += 1
    scene.take(c.TimePassed())
    return scene


def asking() -> Scene:
    scene = running()
    scene.ask("perm_1", "turn_1")
    return scene


def paused() -> Scene:
    scene = waiting()
    scene.take(c.PauseQueue())
    return scene


def stopped() -> Scene:
    scene = Scene()
    scene.take(c.StopSession())
    return scene


def steered() -> None:
    scene = running()
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    scene.take(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True))


def crashed(on_crash: OnCrash = "interrupt") -> None:
    running().crash(on_crash)


def failed() -> None:
    running().take(c.AgentEnded(turn_id="turn_1", error=Problem(code="agent_failed", detail="x")))


def superseded() -> None:
    scene = Scene()
    scene.send("msg_1", "rollback")
    scene.send("msg_2", "rollback")


def rolled_back() -> None:
    running("cancel").send("msg_2", "rollback")


def answered(decision: str) -> None:
    asking().take(c.AnswerPermission(permission_id="perm_1", decision=decision))


def opened() -> Scene:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    return scene


STORIES: dict[tuple[str, str, str], Story] = {
    ("session", NEW, "session.created"): Scene,
    ("session", "active", "session.stopped"): stopped,
    ("session", "stopped", "session.resumed"): lambda: stopped().take(c.ResumeSession()),
    ("session", "active", "session.cleared"): lambda: Scene().take(c.ClearSession()),
    ("session", "stopped", "session.cleared"): lambda: stopped().take(c.ClearSession()),
    ("session", "active", "session.deleted"): lambda: Scene().take(c.DeleteSession()),
    ("session", "stopped", "session.deleted"): lambda: stopped().take(c.DeleteSession()),
    ("message", NEW, "message.accepted"): waiting,
    ("message", "queued", "turn.started"): running,
    ("message", "queued", "turn.steered"): steered,
    ("message", "queued", "message.ended:withdrawn"): lambda: waiting().take(c.WithdrawMessage(message_id="msg_1")),
    ("message", "queued", "message.ended:cancelled"): superseded,
    ("message", "running", "message.requeued"): lambda: crashed("retry_if_untouched"),
    ("message", "running", "message.ended:answered"): lambda: running().complete("turn_1"),
    ("message", "running", "message.ended:failed"): failed,
    ("message", "running", "message.ended:cancelled"): lambda: running("cancel").complete("turn_1"),
    ("message", "running", "message.ended:interrupted"): crashed,
    ("turn", NEW, "turn.started"): running,
    ("turn", "running", "turn.cancel_requested"): lambda: running("cancel"),
    ("turn", "cancelling", "turn.cancel_requested"): rolled_back,
    ("turn", "running", "turn.ended:completed"): lambda: running().complete("turn_1"),
    ("turn", "running", "turn.ended:failed"): failed,
    ("turn", "running", "turn.ended:cancelled"): lambda: running().take(c.DeleteSession()),
    ("turn", "running", "turn.ended:interrupted"): crashed,
    ("turn", "cancelling", "turn.ended:cancelled"): lambda: running("cancel").complete("turn_1"),
    ("turn", "cancelling", "turn.ended:interrupted"): lambda: running("shutdown").complete("turn_1"),
    ("message", "queued", "message.ended:failed"): lambda: late(waiting_ms=1),
    ("turn", "running", "turn.cancel_requested:deadline"): lambda: late(running_ms=1),
    ("turn", "overdue", "turn.cancel_requested"): lambda: late(running_ms=1).send("msg_2", "rollback"),
    ("turn", "overdue", "turn.ended:failed"): lambda: late(running_ms=1).complete("turn_1"),
    ("turn", "overdue", "turn.ended:cancelled"): lambda: late(running_ms=1).take(c.DeleteSession()),
    ("permission", NEW, "permission.requested"): asking,
    ("permission", "pending", "permission.answered:allow"): lambda: answered("allow"),
    ("permission", "pending", "permission.answered:deny"): lambda: answered("deny"),
    ("permission", "pending", "permission.expired"): lambda: asking().take(c.CancelTurn(turn_id="turn_1")),
    ("agent", "away", "agent.started"): opened,
    ("agent", "up", "agent.exited"): lambda: opened().take(c.AgentExited(run_id="run_1", reason="x")),
}


def test_every_transition_has_a_story() -> None:
    assert set(STORIES) == {transition[:3] for transition in TRANSITIONS}


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: f"{t.machine}:{t.source}:{t.cause}")
def test_a_transition_is_taken_in_its_story(transition: Transition, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[Transition] = set()

    def recording(machine: str, source: str, cause: str) -> str:
        target = move(machine, source, cause)
        taken.add(Transition(machine, source, cause, target))
        return target

    monkeypatch.setattr(evolving, "move", recording)
    STORIES[transition[:3]]()
    assert transition in taken


def test_a_state_is_left_by_a_cause_in_one_way_only() -> None:
    assert len({transition[:3] for transition in TRANSITIONS}) == len(TRANSITIONS)


def test_no_end_is_ever_left() -> None:
    ends = {"answered", "failed", "cancelled", "interrupted", "withdrawn", "completed"}
    ends |= {"deleted", "allowed", "denied", "expired"}
    assert not ends & {transition.source for transition in TRANSITIONS}


@pytest.mark.parametrize("machine", ["session", "message", "turn", "permission", "agent"])
def test_what_is_not_in_the_table_is_impossible(machine: str) -> None:
    mine = [transition for transition in TRANSITIONS if transition.machine == machine]
    states = {transition.source for transition in mine} | {transition.target for transition in mine} | {"strange"}
    known = {(transition.source, transition.cause) for transition in mine}
    causes = {transition.cause for transition in TRANSITIONS} | {"message.ended", "turn.ended:answered", ""}
    for state in states:
        for cause in causes:
            if (state, cause) not in known:
                with pytest.raises(ImpossibleEvent, match=r"cannot happen"):
                    move(machine, state, cause)


# Events that `decide` never makes: a damaged journal, or a flaw, is noticed at once.


def end_of(message: str, turn: str | None = None, state: MessageState = "answered") -> e.MessageEnded:
    return e.MessageEnded(message_id=message, turn_id=turn, state=state)


def deleted() -> Scene:
    scene = Scene()
    scene.take(c.DeleteSession())
    return scene


IMPOSSIBLE: list[tuple[Callable[[], Scene], e.Event]] = [
    (waiting, e.SessionCreated(agent="echo")),
    (waiting, e.SessionResumed()),
    (stopped, e.SessionStopped()),
    (waiting, e.SessionDeleted()),
    (running, e.SessionDeleted()),
    (deleted, e.SessionUpdated(changes={"title": "T"}, revision=2)),
    (deleted, e.SessionStatusChanged(status="idle")),
    (deleted, e.AgentLog(text="x")),
    (deleted, e.MessageAccepted(message_id="msg_1", text="x", when_busy="queue", place=0)),
    (waiting, e.MessageAccepted(message_id="msg_1", text="x", when_busy="queue", place=1)),
    (running, e.MessageAccepted(message_id="msg_1", text="x", when_busy="queue", place=0)),
    (waiting, e.MessageEdited(message_id="msg_2")),
    (running, e.MessageEdited(message_id="msg_1")),
    (running, e.MessageWithdrawn(message_id="msg_1")),
    (waiting, e.MessageRequeued(message_id="msg_1")),
    (running, e.MessageRequeued(message_id="msg_1")),
    (waiting, end_of("msg_1")),
    (waiting, end_of("msg_1", "turn_1", "cancelled")),
    (waiting, end_of("msg_1", state="interrupted")),
    (running, end_of("msg_1", "turn_1")),
    (running, end_of("msg_1", "turn_1", "interrupted")),
    (lambda: running("cancel"), end_of("msg_1", "turn_1", "cancelled")),
    (waiting, e.QueueContinued()),
    (waiting, e.SessionForked(from_session_id="ses_2", from_turn_id="turn_2", mark="m")),
    (paused, e.QueuePaused()),
    (lambda: late(running_ms=1), e.TurnEnded(turn_id="turn_1", state="completed")),
    (waiting, e.QueueReordered(order=())),
    (waiting, e.QueueReordered(order=("msg_1", "msg_1"))),
    (waiting, e.QueueReordered(order=("msg_1", "msg_2"))),
    (waiting, e.TurnStarted(turn_id="turn_1", message_ids=("msg_2",))),
    (running, e.TurnStarted(turn_id="turn_2", message_ids=())),
    (waiting, e.TurnText(turn_id="turn_1", text="x")),
    (running, e.TurnText(turn_id="turn_2", text="x")),
    (running, e.TurnThought(turn_id="turn_2", text="x")),
    (running, e.TurnToolStarted(turn_id="turn_2", tool_id="t", name="x")),
    (running, e.TurnToolEnded(turn_id="turn_2", tool_id="t", outcome="failed")),
    (running, e.TurnUsage(turn_id="turn_2", usage=Usage())),
    (running, e.TurnSteerRequested(turn_id="turn_1", message_id="msg_1")),
    (running, e.TurnSteered(turn_id="turn_1", message_id="msg_2")),
    (running, e.TurnSteerDeclined(turn_id="turn_1", message_id="msg_2")),
    (running, e.TurnCancelRequested(turn_id="turn_2", reason="cancel")),
    (running, e.TurnEnded(turn_id="turn_2", state="completed")),
    (running, e.TurnEnded(turn_id="turn_1", state="running")),
    (lambda: running("cancel"), e.TurnEnded(turn_id="turn_1", state="completed")),
    (lambda: running("cancel"), e.TurnEnded(turn_id="turn_1", state="failed")),
    (waiting, e.PermissionRequested(permission_id="perm_1", turn_id="turn_1", question="?")),
    (asking, e.PermissionRequested(permission_id="perm_1", turn_id="turn_1", question="?")),
    (running, e.PermissionAnswered(permission_id="perm_1", turn_id="turn_1", decision="allow")),
    (asking, e.PermissionAnswered(permission_id="perm_1", turn_id="turn_1", decision="perhaps")),
    (running, e.PermissionExpired(permission_id="perm_1", turn_id="turn_1", reason="x")),
    (opened, e.AgentStarted(run_id="run_2", agent="echo", generation=1)),
    (opened, e.AgentExited(run_id="run_2", reason="x")),
    (waiting, e.AgentExited(run_id="run_1", reason="x")),
]


@pytest.mark.parametrize(
    ("scene", "event"), IMPOSSIBLE, ids=lambda value: value.TYPE if isinstance(value, e.Event) else value.__name__
)
def test_an_event_that_cannot_have_happened_is_noticed(scene: Callable[[], Scene], event: e.Event) -> None:
    session = scene().session
    with pytest.raises(ImpossibleEvent, match=r"can happen|cannot happen"):
        evolve(session, event, at=1, session_id=session.id)


@pytest.mark.parametrize("event", [event for _, event in IMPOSSIBLE[1:]], ids=lambda event: event.TYPE)
def test_a_journal_begins_with_its_session(event: e.Event) -> None:
    with pytest.raises(ImpossibleEvent, match="no session yet"):
        evolve(None, event, at=1, session_id="ses_1")
