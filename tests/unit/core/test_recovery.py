"""What a host settles that another left, and how a host goes down."""

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Rules
from antiphon.core.session import Deadline
from antiphon.core.words import OnCrash
from models.scene import Scene


def test_after_a_crash_nothing_runs_nothing_is_asked_and_the_queue_is_kept() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1", resume_token="t"))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh")))
    scene.ask("perm_1", "turn_1")
    scene.crash()
    assert scene.last == [
        "agent.exited",
        "permission.expired",
        "turn.tool_ended",
        "turn.ended",
        "message.ended",
        "session.status",
    ]
    assert (scene.message("msg_1").state, scene.turn("turn_1").state) == ("interrupted", "interrupted")
    assert scene.waiting == ["msg_2"]
    assert scene.session.resume_token == "t"
    assert scene.session.status() == "starting"


def test_a_settled_session_needs_no_settling() -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.nothing(c.HostDied())
    scene.start("turn_1")
    scene.crash()
    scene.nothing(c.HostDied())


@pytest.mark.parametrize("on_crash", ["retry_if_untouched", "resume"])
def test_a_turn_of_which_nothing_was_heard_runs_again_where_that_is_wanted(on_crash: OnCrash) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.crash(on_crash)
    assert scene.waiting == ["msg_1", "msg_2"]
    message = scene.message("msg_1")
    assert (message.state, message.turn_id, message.resumed, message.attempts) == ("queued", None, False, 1)
    assert (message.started_at, message.delivered_as, message.usage) == (None, None, None)
    assert scene.turn("turn_1").state == "interrupted"
    scene.start("turn_2")
    assert (scene.message("msg_1").turn_id, scene.message("msg_1").attempts) == ("turn_2", 2)


def test_a_turn_of_which_something_was_heard_runs_again_only_as_a_resumed_one() -> None:
    cases: list[tuple[OnCrash, bool]] = [("interrupt", True), ("retry_if_untouched", True), ("resume", False)]
    cases.append(("resume", True))
    for on_crash, can_resume in cases:
        scene = Scene()
        scene.run("msg_1", "turn_1")
        scene.say("turn_1", "x")
        scene.crash(on_crash, can_resume=can_resume)
        resumed = (on_crash, can_resume) == ("resume", True)
        assert scene.message("msg_1").state == ("queued" if resumed else "interrupted")
        assert scene.message("msg_1").resumed == resumed
        assert scene.reply("turn_1") == "x"


@pytest.mark.parametrize("touch", ["thought", "tool", "question", "steer"])
def test_whatever_was_heard_keeps_a_turn_from_being_sent_anew(touch: str) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    if touch == "thought":
        scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnThought(turn_id="turn_1", text="hm")))
    elif touch == "tool":
        scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh")))
    elif touch == "question":
        scene.ask("perm_1", "turn_1")
    else:
        scene.send("msg_2", "steer")
        scene.hand_over("msg_2", "turn_1")
        scene.take(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True))
    scene.crash("retry_if_untouched")
    assert scene.message("msg_1").state == "interrupted"


def test_collected_messages_that_run_again_keep_their_order_before_what_waits() -> None:
    scene = Scene()
    for id in ("msg_1", "msg_2", "msg_3"):
        scene.send(id, "collect")
    scene.start("turn_1")
    scene.send("msg_4", "collect")
    scene.crash("retry_if_untouched")
    assert scene.waiting == ["msg_1", "msg_2", "msg_3", "msg_4"]
    scene.start("turn_2")
    assert scene.running == ["msg_1", "msg_2", "msg_3", "msg_4"]


def test_a_steer_in_the_agents_hands_waits_on_behind_the_message_that_runs_again() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    scene.crash("retry_if_untouched")
    assert scene.waiting == ["msg_1", "msg_2"]
    assert not scene.message("msg_2").steering


def test_a_message_that_met_too_many_crashes_is_interrupted() -> None:
    scene = Scene(rules=Rules(attempts_max=2))
    scene.run("msg_1", "turn_1")
    scene.crash("retry_if_untouched")
    scene.start("turn_2")
    scene.crash("retry_if_untouched")
    assert scene.message("msg_1").state == "interrupted"
    assert scene.message("msg_1").attempts == 2


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (c.CancelTurn(turn_id="turn_1"), "cancelled"),
        (c.StopSession(), "cancelled"),
        (c.ClearSession(), "cancelled"),
        (c.SendMessage(message_id="msg_2", text="x", when_busy="interrupt"), "cancelled"),
        (c.ShutDown(), "interrupted"),
    ],
)
def test_a_turn_that_was_being_stopped_when_the_host_died_does_not_run_again(cause: c.Command, state: str) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(cause)
    scene.crash("resume", can_resume=True)
    assert scene.message("msg_1").state == state
    assert "msg_1" not in scene.waiting


def test_a_turn_that_the_agent_began_by_itself_ends_with_the_host() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"), c.AgentBegan(turn_id="turn_1"))
    scene.crash("resume", can_resume=True)
    assert scene.turn("turn_1").state == "interrupted"
    assert scene.session.running is None


def test_a_message_that_the_agent_of_another_generation_has_is_not_resumed_but_sent_anew() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "x")
    scene.crash("resume", can_resume=True)
    scene.take(c.ClearSession())
    scene.start("turn_2")
    assert not scene.message("msg_1").resumed


def test_a_message_whose_text_was_edited_is_not_resumed_but_sent_anew() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "x")
    scene.crash("resume", can_resume=True)
    scene.take(c.EditMessage(message_id="msg_1", when_busy="collect"))
    assert scene.message("msg_1").resumed
    scene.take(c.EditMessage(message_id="msg_1", text="new"))
    assert not scene.message("msg_1").resumed


def test_a_host_that_goes_down_interrupts_what_runs_and_keeps_what_waits() -> None:
    scene = Scene()
    scene.nothing(c.ShutDown())
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.ask("perm_1", "turn_1")
    scene.take(c.ShutDown())
    assert scene.last == ["turn.cancel_requested", "permission.expired", "session.status"]
    scene.take(c.AgentExited(run_id="run_1", turn_id="turn_1", reason="closed"))
    assert (scene.message("msg_1").state, scene.waiting) == ("interrupted", ["msg_2"])


def test_a_cancel_by_a_person_stays_a_cancel_when_the_host_goes_down() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(c.ShutDown())
    scene.complete("turn_1")
    assert scene.message("msg_1").state == "cancelled"


def test_a_message_that_runs_again_has_not_waited_too_long() -> None:
    scene = Scene()
    scene.send("msg_1", deadline=Deadline(waiting_ms=1000, running_ms=1000))
    scene.start("turn_1")
    scene.crash("retry_if_untouched")
    scene.now += 5000
    scene.nothing(c.TimePassed())
    scene.start("turn_2")
    scene.now += 999
    scene.nothing(c.TimePassed())
    scene.now += 1
    scene.take(c.TimePassed())
    assert scene.session.running
    assert scene.session.running.cancelling == "deadline", "it has as much time to run as the first time"
