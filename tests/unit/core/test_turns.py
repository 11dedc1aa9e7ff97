"""Starting, steering, cancelling and ending turns."""

from typing import Any

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Rules
from antiphon.core.session import Problem, Usage
from antiphon.core.words import CancelReason
from models.scene import Scene

USAGE = Usage(input_tokens=12, output_tokens=5, cost_usd=0.5)


# Start


def test_a_turn_starts_with_the_message_at_the_front() -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.send("msg_2")
    scene.start("turn_1")
    message, turn = scene.message("msg_1"), scene.turn("turn_1")
    assert (message.state, message.turn_id, message.delivered_as, message.attempts) == ("running", "turn_1", "turn", 1)
    assert (turn.state, turn.message_ids, turn.origin, turn.started_at) == ("running", ("msg_1",), "message", scene.now)
    assert scene.waiting == ["msg_2"]
    assert scene.session.status() == "running"


def test_no_turn_starts_while_one_runs_or_when_nothing_waits_or_in_a_stopped_session() -> None:
    scene = Scene()
    scene.nothing(c.StartTurn(turn_id="turn_1"))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.complete("turn_1")
    scene.take(c.StopSession())
    scene.nothing(c.StartTurn(turn_id="turn_2"))


def test_waiting_collect_messages_are_answered_by_one_turn_and_each_keeps_its_receipt() -> None:
    scene = Scene(rules=Rules(collect_max=3, collect_quiet_s=0))
    scene.send("msg_1", "collect")
    scene.send("msg_2")
    for id in ("msg_3", "msg_4"):
        scene.send(id, "collect")
    scene.send("msg_5")
    scene.take(c.EditMessage(message_id="msg_5", when_busy="collect"))
    scene.start("turn_1")
    assert scene.running == ["msg_1", "msg_3", "msg_4"], "as many as may be collected, in their order"
    assert scene.waiting == ["msg_2", "msg_5"]
    scene.complete("turn_1", USAGE)
    for id in ("msg_1", "msg_3", "msg_4"):
        message = scene.message(id)
        assert (message.state, message.turn_id, message.delivered_as) == ("answered", "turn_1", "collect")
        assert message.usage == USAGE


def test_a_message_that_is_not_to_be_collected_runs_alone() -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.send("msg_2", "collect")
    scene.start("turn_1")
    assert scene.running == ["msg_1"]
    assert scene.message("msg_1").delivered_as == "turn"


# Steer


def test_a_steer_that_the_agent_takes_ends_with_the_turn() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.send("msg_3", "steer")
    scene.hand_over("msg_3", "turn_1")
    assert scene.message("msg_3").state == "queued"
    scene.take(c.AgentSteered(turn_id="turn_1", message_id="msg_3", taken=True))
    assert scene.turn("turn_1").message_ids == ("msg_1", "msg_3")
    steered = scene.message("msg_3")
    assert (steered.state, steered.turn_id, steered.delivered_as) == ("running", "turn_1", "steer")
    scene.complete("turn_1")
    assert scene.message("msg_3").state == "answered"
    assert scene.waiting == ["msg_2"]


def test_a_steer_that_the_agent_does_not_take_keeps_its_place_and_can_be_withdrawn() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.send("msg_3")
    scene.hand_over("msg_2", "turn_1")
    scene.take(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=False))
    assert scene.waiting == ["msg_2", "msg_3"]
    assert not scene.message("msg_2").steering
    scene.nothing(c.SteerTurn(turn_id="turn_1", message_id="msg_2"))
    scene.take(c.WithdrawMessage(message_id="msg_2"))
    assert scene.message("msg_2").state == "withdrawn"


def test_a_declined_steer_can_join_a_later_turn() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.send("msg_3", "steer")
    scene.hand_over("msg_3", "turn_1")
    scene.take(c.AgentSteered(turn_id="turn_1", message_id="msg_3", taken=False))
    scene.complete("turn_1")
    scene.start("turn_2")
    assert [message.id for message in scene.session.steerable] == ["msg_3"]
    scene.hand_over("msg_3", "turn_2")


def test_a_steer_is_handed_over_once() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    scene.nothing(c.SteerTurn(turn_id="turn_1", message_id="msg_2"))
    assert scene.session.steerable == ()


def test_a_steer_in_the_agents_hands_waits_on_when_the_turn_ends_and_its_record_says_so() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    assert scene.message("msg_2").steering
    scene.complete("turn_1")
    assert not scene.message("msg_2").steering
    assert scene.message("msg_2") == scene.session.inbox[0]
    scene.nothing(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True))
    scene.start("turn_2")
    assert scene.message("msg_2").delivered_as == "turn"


@pytest.mark.parametrize("mode", ["queue", "collect"])
def test_only_a_steer_is_handed_to_a_running_turn(mode: Any) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", mode)
    scene.nothing(c.SteerTurn(turn_id="turn_1", message_id="msg_2"))
    scene.nothing(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True))


def test_no_steer_joins_a_turn_that_is_cancelled_or_another_than_it_was_meant_for() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.nothing(c.SteerTurn(turn_id="turn_2", message_id="msg_2"))
    scene.hand_over("msg_2", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True))
    scene.complete("turn_1")
    assert scene.waiting == ["msg_2"]


# Cancel


def test_a_cancel_names_its_turn_and_can_hit_no_other() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.run("msg_2", "turn_2")
    error = scene.refusal(c.CancelTurn(turn_id="turn_1"))
    assert (error.code, error.ids["turn_id"]) == ("turn_ended", "turn_1")
    assert scene.session.running is not None
    assert scene.session.running.cancelling is None


def test_a_cancel_is_one_event_however_often_it_is_asked_for() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    assert scene.last == ["turn.cancel_requested"]
    scene.nothing(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(c.ShutDown())


@pytest.mark.parametrize(
    "end",
    [
        c.AgentEnded(turn_id="turn_1"),
        c.AgentEnded(turn_id="turn_1", error=Problem(code="agent_failed", detail="x")),
        c.AgentEnded(turn_id="turn_1", cancelled=True),
        c.AgentUnavailable(turn_id="turn_1", detail="x"),
        c.AgentExited(run_id="run_1", turn_id="turn_1", reason="killed"),
        c.HostDied(on_crash="resume", can_resume=True),
    ],
)
@pytest.mark.parametrize(
    ("reason", "state"), [("cancel", "cancelled"), ("stop", "cancelled"), ("shutdown", "interrupted")]
)
def test_a_cancel_on_disk_outweighs_whatever_ends_the_turn(end: c.Command, reason: CancelReason, state: str) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1", reason=reason))
    scene.take(end)
    turn, message = scene.turn("turn_1"), scene.message("msg_1")
    assert (turn.state, turn.error, message.state, message.error) == (state, None, state, None)


def test_a_cancelled_turn_keeps_its_usage_and_what_was_said_before() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "a part")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(c.AgentSaid(turn_id="turn_1", said=e.TurnText(turn_id="turn_1", text=" and a late one")))
    scene.complete("turn_1", USAGE)
    assert scene.reply("turn_1") == "a part"
    assert scene.message("msg_1").usage == USAGE


# End


def test_a_completed_turn_answers_its_message_and_tells_what_it_cost() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "hello")
    scene.now += 5
    scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnUsage(turn_id="turn_1", usage=USAGE)))
    scene.complete("turn_1")
    assert scene.last == ["turn.ended", "message.ended", "session.status"]
    message, turn = scene.message("msg_1"), scene.turn("turn_1")
    assert (message.state, message.usage, message.ended_at) == ("answered", USAGE, scene.now)
    assert (turn.state, turn.usage, turn.ended_at) == ("completed", USAGE, scene.now)
    assert [event.TYPE for event in scene.events[turn.first_sequence - 1 : turn.last_sequence]] == [
        "turn.started",
        "session.status",
        "turn.text",
        "turn.usage",
        "turn.ended",
    ]


def test_the_usage_at_the_end_is_the_turns_usage() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    spent = e.TurnUsage(turn_id="turn_1", usage=Usage(input_tokens=1))
    scene.take(c.AgentSaid(turn_id="turn_1", said=spent))
    scene.complete("turn_1", USAGE)
    assert scene.turn("turn_1").usage == USAGE


def test_a_turn_that_told_no_usage_leaves_zeros_on_the_receipt() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    assert scene.message("msg_1").usage == Usage()


@pytest.mark.parametrize(
    "usage",
    [
        Usage(cost_usd=float("inf")),
        Usage(cost_usd=float("nan")),
        Usage(cost_usd=-1),
        Usage(input_tokens=-1),
        Usage(output_tokens=1.5),  # pyright: ignore[reportArgumentType]
        Usage(output_tokens=True),
    ],
)
def test_a_usage_that_makes_no_sense_is_left_out_and_the_turn_ends_all_the_same(usage: Usage) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.nothing(c.AgentSaid(turn_id="turn_1", said=e.TurnUsage(turn_id="turn_1", usage=usage)))
    scene.complete("turn_1", usage)
    assert (scene.message("msg_1").state, scene.message("msg_1").usage) == ("answered", Usage())


def test_an_agent_that_cuts_an_emoji_in_two_is_heard_and_its_turn_ends() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "half \ud83d")
    scene.take(c.AgentEnded(turn_id="turn_1", error=Problem(code="agent_failed", detail="cut \ud83d")))
    error = scene.message("msg_1").error
    assert error is not None
    assert (scene.reply("turn_1"), error.detail) == ("half \ufffd", "cut \ufffd")


def test_a_failed_turn_fails_its_message_with_the_same_reason() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    problem = Problem(code="agent_failed", detail="boom")
    scene.take(c.AgentEnded(turn_id="turn_1", error=problem))
    assert (scene.message("msg_1").state, scene.message("msg_1").error) == ("failed", problem)
    assert scene.session.status() == "errored"
    scene.run("msg_2", "turn_2")
    scene.complete("turn_2")
    assert scene.session.status() == "dormant", "an error is over when the next turn is"


def test_a_turn_that_the_agent_cut_short_by_itself_has_failed() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentEnded(turn_id="turn_1", cancelled=True))
    message = scene.message("msg_1")
    assert message.error is not None
    assert (message.state, message.error.code) == ("failed", "agent_failed")


def test_tools_and_questions_that_are_open_end_before_their_turn() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh")))
    scene.ask("perm_1", "turn_1")
    scene.complete("turn_1")
    assert scene.last == ["permission.expired", "turn.tool_ended", "turn.ended", "message.ended", "session.status"]
    assert scene.step.events[1] == e.TurnToolEnded(turn_id="turn_1", tool_id="t", outcome="aborted")
    assert (scene.permission("perm_1").state, scene.permission("perm_1").note) == ("expired", "turn_completed")


@pytest.mark.parametrize(
    "late",
    [
        c.AgentEnded(turn_id="turn_1", usage=USAGE),
        c.AgentEnded(turn_id="turn_1", error=Problem(code="agent_failed", detail="x")),
        c.AgentUnavailable(turn_id="turn_1", detail="x"),
        c.AgentExited(run_id="run_1", turn_id="turn_1", reason="killed"),
        c.AgentSaid(turn_id="turn_1", said=e.TurnText(turn_id="turn_1", text="late")),
        c.AgentSaid(turn_id="turn_2", said=e.TurnText(turn_id="turn_1", text="late")),
        c.AgentSaid(turn_id="turn_1", said=e.TurnText(turn_id="turn_2", text="late")),
        c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="?"),
        c.AgentSteered(turn_id="turn_1", message_id="msg_3", taken=True),
        c.SteerTurn(turn_id="turn_1", message_id="msg_3"),
        c.AgentBegan(turn_id="turn_3"),
    ],
)
def test_what_comes_late_for_one_turn_does_nothing_to_the_next(late: c.Command) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.run("msg_2", "turn_2")
    scene.send("msg_3", "steer")
    scene.nothing(late)
