"""Creating, patching, stopping, resuming, clearing and deleting sessions, and what they look like meanwhile."""

from typing import Any

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given, Refused, decide
from antiphon.core.errors import AntiphonError
from antiphon.core.evolve import evolve, fold
from antiphon.core.session import Session
from antiphon.core.step import Step
from models.scene import Scene

GIVEN = Given(now=1)
COMMANDS: tuple[c.Command, ...] = (
    c.CreateSession(session_id="ses_1", agent="echo"),
    c.SendMessage(message_id="msg_9", text="x", prior=("msg_1", None)),
    c.EditMessage(message_id="msg_1"),
    c.WithdrawMessage(message_id="msg_1"),
    c.ReorderQueue(order=()),
    c.PatchSession(changes={}),
    c.StopSession(),
    c.ResumeSession(),
    c.ClearSession(),
    c.DeleteSession(),
    c.CancelTurn(turn_id="turn_1"),
    c.AnswerPermission(permission_id="perm_1", decision="allow"),
    c.StartTurn(turn_id="turn_2"),
    c.SteerTurn(turn_id="turn_1", message_id="msg_1"),
    c.HostDied(),
    c.ShutDown(),
    c.AgentOpened(run_id="run_1"),
    c.AgentCanResume(run_id="run_1", resume_token="t"),
    c.AgentUnavailable(turn_id="turn_1", detail="x"),
    c.AgentSaid(turn_id="turn_1", said=e.TurnText(turn_id="turn_1", text="late")),
    c.AgentSpoke(turn_id="turn_1", texts=("late",)),
    c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="?"),
    c.AgentSteered(turn_id="turn_1", message_id="msg_1", taken=True),
    c.AgentBegan(turn_id="turn_1"),
    c.AgentEnded(turn_id="turn_1"),
    c.AgentExited(run_id="run_1", turn_id="turn_1", reason="x"),
    c.AgentWrote(text="x"),
    c.ExpirePermission(permission_id="perm_1"),
    c.CancelMessage(message_id="msg_1"),
    c.CancelQueue(),
    c.PauseQueue(),
    c.ContinueQueue(),
    c.TimePassed(),
    c.Fork(from_session_id="ses_2", from_turn_id="turn_2", mark="m"),
    c.TurnStalls(turn_id="turn_1", heard_at=1, detail="d"),
)


def error_of(session: Session | None, command: c.Command) -> AntiphonError:
    decision = decide(session, command, GIVEN)
    assert isinstance(decision, Refused)
    return decision.error


# Create


def test_a_session_begins_with_what_it_was_created_from() -> None:
    scene = Scene(key="k", cwd="/w", model="m", title="T", labels={"a": "1"}, when_busy="steer", settings={"x": [1]})
    session = scene.session
    assert (session.id, session.key, session.agent, session.cwd, session.model) == ("ses_1", "k", "echo", "/w", "m")
    assert (session.title, session.labels, session.when_busy, session.settings) == (
        "T",
        {"a": "1"},
        "steer",
        {"x": [1]},
    )
    assert (session.generation, session.revision, session.status()) == (1, 1, "dormant")
    assert scene.last == ["session.created", "session.status"]


def test_a_session_is_created_once() -> None:
    error = Scene().refusal(COMMANDS[0])
    assert (error.code, error.ids) == ("session_exists", {"session_id": "ses_1"})


def test_every_command_has_its_place_here() -> None:
    assert {type(command) for command in COMMANDS} == set(c.Command.__subclasses__())


@pytest.mark.parametrize("command", COMMANDS[1:], ids=lambda command: type(command).__name__)
def test_nothing_is_possible_before_a_session_is_created(command: c.Command) -> None:
    assert error_of(None, command).code == "session_not_found"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_nothing_is_possible_once_a_session_is_deleted(command: c.Command) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.DeleteSession())
    assert scene.refusal(command).code == "session_not_found"


# Patch


def test_a_patch_raises_the_revision_by_one_and_tells_what_it_changed() -> None:
    scene = Scene(labels={"a": "1", "b": "2"}, settings={"x": {"y": 1, "z": 2}})
    changes: dict[str, Any] = {"title": "T", "labels": {"a": None, "c": "3"}, "settings": {"x": {"z": None}}}
    scene.take(c.PatchSession(changes=changes))
    session = scene.session
    assert (session.title, session.labels, session.settings) == ("T", {"b": "2", "c": "3"}, {"x": {"y": 1}})
    assert session.revision == 2
    assert scene.last == ["session.updated"]


def test_null_takes_a_field_away() -> None:
    scene = Scene(title="T", model="m", cwd="/w", when_busy="steer", labels={"a": "1"}, settings={"x": 1})
    fields = ("title", "model", "cwd", "when_busy", "labels", "settings")
    scene.take(c.PatchSession(changes=dict.fromkeys(fields)))
    assert [getattr(scene.session, field) for field in fields] == [None, None, None, None, {}, {}]


def test_a_patch_that_changes_nothing_leaves_the_revision() -> None:
    scene = Scene(title="T", labels={"a": "1"})
    patches: list[dict[str, Any]] = [{}, {"title": "T"}, {"labels": {}}, {"labels": {"b": None}}, {"agent": "other"}]
    for changes in [*patches, {"model": None}]:
        scene.nothing(c.PatchSession(changes=changes))


def test_if_match_takes_the_current_revision_and_no_other() -> None:
    scene = Scene()
    scene.take(c.PatchSession(changes={"title": "A"}, if_match=1))
    error = scene.refusal(c.PatchSession(changes={"title": "B"}, if_match=1))
    assert (error.code, error.ids["revision"]) == ("precondition_failed", 2)
    assert scene.refusal(c.PatchSession(changes={}, if_match=1)).code == "precondition_failed"


def test_a_running_turn_never_makes_an_edit_stale() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1", resume_token="t"))
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "x")
    scene.ask("perm_1", "turn_1")
    scene.send("msg_2", "interrupt")
    scene.take(c.ClearSession())
    scene.complete("turn_1")
    scene.take(c.StopSession())
    scene.take(c.PatchSession(changes={"title": "A"}, if_match=1))
    assert scene.session.title == "A"


@pytest.mark.parametrize(
    "settings",
    [
        {"stall_after_s": "soon"},
        {"stall_after_s": True},
        {"stall_after_s": 0},
        {"on_crash": "hope"},
        {"on_crash": ["interrupt"]},
        {"reset": "always"},
        {"reset": {"idle_minutes": -1}},
        {"reset": {"daily_at": "25:00"}},
    ],
)
def test_settings_that_could_not_be_used_are_refused_before_anything_depends_on_them(settings: dict[str, Any]) -> None:
    scene = Scene()
    assert scene.refusal(c.PatchSession(changes={"settings": settings})).code == "invalid_request"
    error = error_of(None, c.CreateSession(session_id="ses_1", agent="echo", settings=settings))
    assert error.code == "invalid_request"


def test_a_setting_of_null_is_no_setting() -> None:
    scene = Scene(settings={"stall_after_s": None, "reset": None, "on_crash": None})
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.now += 10**10
    scene.send("msg_2")
    assert scene.session.generation == 1


def test_a_setting_that_the_journal_cannot_hold_is_in_the_session_as_the_journal_has_it() -> None:
    scene = Scene()
    scene.take(c.PatchSession(changes={"settings": {"x": float("inf"), "y": "\ud83d"}}))
    assert scene.session == fold(None, scene.entries)
    assert scene.session.settings == {"y": "\ufffd"}


def test_a_setting_from_elsewhere_that_cannot_be_used_does_not_hide_the_session() -> None:
    settings = {"stall_after_s": "soon", "reset": {"daily_at": "soon"}}
    session = evolve(None, e.SessionCreated(agent="echo", settings=settings), at=1, session_id="ses_1").session
    session = evolve(session, e.TurnStarted(turn_id="turn_1", message_ids=()), at=1, session_id="ses_1").session
    assert session.status() == "running"
    assert isinstance(decide(session, c.SendMessage(message_id="msg_1", text="x"), GIVEN), tuple)


def test_two_reset_policies_merged_into_one_are_refused_and_the_way_out_is_told() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 5}})
    error = scene.refusal(c.PatchSession(changes={"settings": {"reset": {"daily_at": "04:00"}}}))
    assert "null takes a field away" in error.detail
    scene.take(c.PatchSession(changes={"settings": {"reset": {"idle_minutes": None, "daily_at": "04:00"}}}))
    assert scene.session.settings == {"reset": {"daily_at": "04:00"}}


# Stop, resume


def test_stop_cancels_the_turn_keeps_the_queue_and_resume_goes_on() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.take(c.StopSession())
    assert scene.last == ["session.stopped", "turn.cancel_requested", "session.status"]
    assert scene.session.status() == "stopped"
    scene.complete("turn_1")
    assert (scene.message("msg_1").state, scene.waiting) == ("cancelled", ["msg_2"])
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.take(c.ResumeSession())
    assert scene.session.status() == "starting"
    scene.start("turn_2")
    assert scene.running == ["msg_2"]


def test_stop_and_resume_are_idempotent() -> None:
    scene = Scene()
    scene.nothing(c.ResumeSession())
    scene.take(c.StopSession())
    scene.nothing(c.StopSession())


# Clear


def test_clear_begins_a_new_generation_in_which_what_waits_runs() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1", resume_token="t"))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.take(c.ClearSession())
    assert scene.last == ["turn.cancel_requested", "session.cleared"]
    assert (scene.session.generation, scene.session.resume_token) == (2, None)
    assert scene.entries[-2].generation == 1, "the cancel is of the old turn's generation"
    scene.complete("turn_1")
    assert [entry.generation for entry in scene.entries[-3:]] == [1, 1, 2]
    scene.start("turn_2")
    assert [scene.message(id).generation for id in ("msg_1", "msg_2")] == [1, 2]
    assert [scene.turn(id).generation for id in ("turn_1", "turn_2")] == [1, 2]


def test_what_clear_reset_stays_reset() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1", resume_token="t"))
    scene.run("msg_1", "turn_1")
    scene.take(c.ClearSession())
    scene.take(c.AgentCanResume(run_id="run_1", resume_token="late"))
    scene.take(c.AgentUnavailable(turn_id="turn_1", detail="late"))
    assert (scene.session.resume_token, scene.session.last_turn) == (None, None)
    assert scene.session.status() == "idle"


def test_clear_leaves_metadata_lifecycle_and_revision() -> None:
    scene = Scene(title="T", labels={"a": "1"})
    scene.take(c.StopSession())
    scene.take(c.ClearSession())
    assert (scene.session.title, scene.session.labels, scene.session.revision) == ("T", {"a": "1"}, 1)
    assert scene.session.status() == "stopped"


# Delete


def test_delete_ends_all_as_cancelled_and_leaves_nobody_waiting() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    scene.send("msg_3")
    scene.ask("perm_1", "turn_1")
    scene.take(c.DeleteSession())
    assert [scene.message(id).state for id in ("msg_1", "msg_2", "msg_3")] == ["cancelled"] * 3
    assert [scene.message(id).steering for id in ("msg_1", "msg_2", "msg_3")] == [False] * 3
    assert (scene.turn("turn_1").state, scene.permission("perm_1").state) == ("cancelled", "expired")
    assert scene.last[-1] == "session.deleted"
    assert not scene.session.unsettled


# What it looks like


def test_a_session_is_unsettled_while_something_runs_waits_or_was_left_behind() -> None:
    scene = Scene()
    assert not scene.session.unsettled
    scene.send("msg_1")
    assert scene.session.unsettled
    scene.start("turn_1")
    assert scene.session.unsettled
    scene.complete("turn_1")
    assert not scene.session.unsettled
    scene.take(c.AgentOpened(run_id="run_1"))
    assert scene.session.unsettled


def test_a_status_is_told_when_it_changed_over_a_step_and_only_then() -> None:
    scene = Scene()
    scene.take(c.SendMessage(message_id="msg_1", text="x"), c.WithdrawMessage(message_id="msg_1"))
    assert "session.status" not in scene.last
    scene.take(c.SendMessage(message_id="msg_2", text="x"), c.StartTurn(turn_id="turn_1"))
    assert scene.last.count("session.status") == 1
    assert scene.entries[-1].data == {"status": "running"}


def test_a_step_that_changed_nothing_writes_nothing() -> None:
    session = Scene().session
    step = Step(session, GIVEN, session_id=session.id)
    step.take(c.ResumeSession())
    step.seal()
    assert (step.entries, step.events, step.records) == ([], [], {})
    assert step.session is session
