"""Sending, editing, withdrawing and reordering messages."""

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given, Rules
from antiphon.core.session import Turn
from antiphon.core.step import Step
from antiphon.core.words import WhenBusy
from models.scene import Scene

WAITING: tuple[WhenBusy, ...] = ("queue", "steer", "collect")
INTERRUPTING: tuple[WhenBusy, ...] = ("interrupt", "rollback")
SECOND = c.SendMessage(message_id="msg_2", text="x", when_busy="rollback")
CHANGES = (c.EditMessage(message_id="msg_1", text="new"), c.WithdrawMessage(message_id="msg_1"))


def again(id: str, key: str, digest: str, prior: tuple[str, str] | None = None) -> c.SendMessage:
    return c.SendMessage(message_id=id, text="x", idempotency_key=key, digest=digest, prior=prior)


# What a second message does


def test_a_message_to_an_idle_session_waits_at_place_one_and_nothing_is_refused() -> None:
    for mode in ("refuse", *WAITING, *INTERRUPTING):
        scene = Scene()
        scene.send("msg_1", mode)
        assert scene.waiting == ["msg_1"]
        assert scene.last == ["message.accepted", "session.status"]
        assert scene.session.status() == "starting"


def test_a_refused_message_names_the_turn_that_is_in_its_way() -> None:
    scene = Scene(key="telegram:42")
    scene.run("msg_1", "turn_1")
    error = scene.refusal(c.SendMessage(message_id="msg_2", text="x", when_busy="refuse"))
    assert (error.code, error.retry_after_s) == ("session_busy", 1)
    assert error.ids["holder"]["turn_id"] == "turn_1"
    assert error.ids["holder"]["message_id"] == "msg_1"
    assert error.ids["holder"]["since"].startswith("2023-11-14T22:13:20")
    assert "'telegram:42'" in error.detail


def test_a_refused_message_before_a_start_names_the_message_that_waits() -> None:
    scene = Scene()
    scene.send("msg_1")
    error = scene.refusal(c.SendMessage(message_id="msg_2", text="x", when_busy="refuse"))
    assert error.ids["holder"]["turn_id"] is None
    assert error.ids["holder"]["message_id"] == "msg_1"


def test_a_message_is_refused_beside_a_turn_that_the_agent_began_by_itself() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"), c.AgentBegan(turn_id="turn_1"))
    error = scene.refusal(c.SendMessage(message_id="msg_1", text="x", when_busy="refuse"))
    assert error.ids["holder"]["turn_id"] == "turn_1"
    assert error.ids["holder"]["message_id"] is None


@pytest.mark.parametrize("mode", WAITING)
def test_a_message_that_waits_joins_the_end_of_the_queue_and_leaves_the_turn_alone(mode: WhenBusy) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    before = scene.session.running
    scene.send("msg_3", mode)
    assert scene.waiting == ["msg_2", "msg_3"]
    assert scene.session.running is before


@pytest.mark.parametrize("mode", INTERRUPTING)
def test_an_interrupting_message_cancels_the_turn_and_is_next(mode: WhenBusy) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "a part")
    scene.send("msg_2")
    scene.send("msg_3", mode)
    assert scene.waiting == ["msg_3", "msg_2"]
    cancel = scene.step.events[1]
    assert cancel == e.TurnCancelRequested(turn_id="turn_1", reason="interrupt", rollback=mode == "rollback")
    scene.complete("turn_1")
    assert scene.message("msg_1").state == "cancelled"
    assert scene.reply("turn_1") == "a part"
    assert scene.turn("turn_1").rolled_back == (mode == "rollback")
    scene.start("turn_2")
    assert scene.running == ["msg_3"]


def test_of_several_interrupts_the_newest_is_next_and_none_is_lost() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "interrupt")
    scene.send("msg_3", "interrupt")
    assert scene.waiting == ["msg_3", "msg_2"]
    assert scene.last == ["message.accepted"], "one cancel is enough"


def test_a_waiting_rollback_is_superseded_by_the_next_and_says_so() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "rollback")
    scene.send("msg_3", "rollback")
    assert scene.waiting == ["msg_3"]
    superseded = scene.message("msg_2")
    assert superseded.error is not None
    assert (superseded.state, superseded.error.code, superseded.turn_id) == ("cancelled", "superseded", None)


@pytest.mark.parametrize("command", [SECOND, c.EditMessage(message_id="msg_2", when_busy="rollback")])
def test_a_rollback_only_interrupts_where_the_agent_would_remember_the_turn(command: c.Command) -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    if command is not SECOND:
        scene.send("msg_2")
    step = Step(scene.session, Given(now=scene.now, can_roll_back=False), session_id="ses_1")
    step.take(command)
    step.take(c.AgentEnded(turn_id="turn_1"))
    turn = step.records["turn_1"]
    assert isinstance(turn, Turn)
    assert (turn.state, turn.rolled_back) == ("cancelled", False)


def test_a_rollback_takes_back_a_turn_that_was_only_to_be_cancelled() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.send("msg_2", "rollback")
    scene.complete("turn_1")
    assert scene.turn("turn_1").rolled_back
    assert scene.session.running is None


def test_the_messages_own_mode_wins_over_the_sessions_and_that_over_the_hosts() -> None:
    scene = Scene(rules=Rules(when_busy="collect"))
    scene.take(c.SendMessage(message_id="msg_1", text="x"))
    scene.take(c.PatchSession(changes={"when_busy": "steer"}))
    scene.take(c.SendMessage(message_id="msg_2", text="x"))
    scene.take(c.SendMessage(message_id="msg_3", text="x", when_busy="queue"))
    assert [scene.message(id).when_busy for id in ("msg_1", "msg_2", "msg_3")] == ["collect", "steer", "queue"]


# Limits and states in which nothing is accepted


def test_a_full_queue_refuses_and_the_message_in_flight_does_not_count() -> None:
    scene = Scene(rules=Rules(queue_max=2))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.send("msg_3")
    for mode in (*WAITING, *INTERRUPTING):
        error = scene.refusal(c.SendMessage(message_id="msg_4", text="x", when_busy=mode))
        assert (error.code, error.retry_after_s) == ("queue_full", 5)
    assert scene.running == ["msg_1"]
    scene.complete("turn_1")
    scene.start("turn_2")
    scene.send("msg_4")
    assert scene.waiting == ["msg_3", "msg_4"]


def test_a_stopped_session_refuses_and_a_resumed_one_accepts() -> None:
    scene = Scene()
    scene.take(c.StopSession())
    assert scene.refusal(c.SendMessage(message_id="msg_1", text="x")).code == "session_stopped"
    scene.take(c.ResumeSession())
    scene.send("msg_1")
    assert scene.waiting == ["msg_1"]


def test_a_message_meant_for_a_cleared_generation_is_refused() -> None:
    scene = Scene()
    scene.take(c.ClearSession())
    error = scene.refusal(c.SendMessage(message_id="msg_1", text="x", expected_generation=1))
    assert (error.code, error.ids["generation"]) == ("session_conflict", 2)
    scene.send("msg_1", expected_generation=2)
    assert scene.message("msg_1").generation == 2


# Idempotency keys


def test_a_key_that_comes_again_is_the_same_message_in_whatever_state_the_session_is() -> None:
    scene = Scene()
    scene.send("msg_1", idempotency_key="k", digest="d")
    assert scene.repeated(again("msg_2", "k", "d", prior=("msg_1", "d"))) == "msg_1"
    scene.take(c.StopSession())
    assert scene.repeated(again("msg_2", "k", "d", prior=("msg_1", "d"))) == "msg_1"


def test_a_key_that_comes_again_with_another_body_is_refused() -> None:
    scene = Scene()
    scene.send("msg_1", idempotency_key="k", digest="d")
    error = scene.refusal(again("msg_2", "k", "other", prior=("msg_1", "d")))
    assert (error.code, error.ids) == ("idempotency_key_reused", {"message_id": "msg_1"})


def test_four_sends_of_one_key_in_one_step_are_one_message() -> None:
    scene = Scene()
    taken = scene.take(*[again(f"msg_{n}", "k", "d") for n in range(1, 5)])
    assert not isinstance(taken, tuple)
    assert scene.waiting == ["msg_1"]
    assert scene.last.count("message.accepted") == 1


def test_another_body_under_a_key_of_the_same_step_is_refused() -> None:
    scene = Scene()
    scene.take(again("msg_1", "k", "d"), again("msg_2", "k", "other"), again("msg_3", "other", "d"))
    assert scene.waiting == ["msg_1", "msg_3"]


def test_a_refused_message_does_not_spend_its_key() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    refused = c.SendMessage(message_id="msg_2", text="x", when_busy="refuse", idempotency_key="k", digest="d")
    scene.take(refused, again("msg_3", "k", "d"))
    assert scene.waiting == ["msg_3"]


def test_a_message_that_is_sent_again_under_its_own_id_is_not_doubled() -> None:
    scene = Scene()
    scene.send("msg_1")
    assert scene.repeated(c.SendMessage(message_id="msg_1", text="x")) == "msg_1"
    scene.start("turn_1")
    assert scene.repeated(c.SendMessage(message_id="msg_1", text="x")) == "msg_1"


# Edit, withdraw, reorder


def test_a_waiting_message_is_edited_in_its_place() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.send("msg_3")
    scene.take(c.EditMessage(message_id="msg_2", text="new", when_busy="collect"))
    assert scene.waiting == ["msg_2", "msg_3"]
    assert scene.message("msg_2").when_busy == "collect"
    assert scene.step.events == [e.MessageEdited(message_id="msg_2", text="new", when_busy="collect")]


def test_an_edit_of_nothing_changes_nothing() -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.nothing(c.EditMessage(message_id="msg_1"))


def test_a_message_edited_to_interrupt_is_next_and_cancels_the_turn() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.send("msg_3")
    scene.take(c.EditMessage(message_id="msg_3", when_busy="interrupt"))
    assert scene.waiting == ["msg_3", "msg_2"]
    assert scene.session.running is not None
    assert scene.session.running.cancelling == "interrupt"


def test_a_message_edited_to_roll_back_supersedes_the_rollbacks_that_wait() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "rollback")
    scene.send("msg_3")
    scene.take(c.EditMessage(message_id="msg_3", when_busy="rollback"))
    assert scene.waiting == ["msg_3"]
    assert scene.message("msg_2").state == "cancelled"


@pytest.mark.parametrize("command", CHANGES)
def test_a_message_is_edited_and_withdrawn_only_while_it_waits(command: c.Command) -> None:
    scene = Scene()
    assert scene.refusal(command).code == "not_editable"
    scene.run("msg_1", "turn_1")
    assert scene.refusal(command).code == "not_editable"
    scene.complete("turn_1")
    assert scene.refusal(command).code == "not_editable"


@pytest.mark.parametrize("command", CHANGES)
def test_a_steer_in_the_agents_hands_is_neither_edited_nor_withdrawn(command: c.Command) -> None:
    scene = Scene()
    scene.run("msg_0", "turn_1")
    scene.send("msg_1", "steer")
    scene.hand_over("msg_1", "turn_1")
    assert scene.refusal(command).code == "not_editable"
    scene.complete("turn_1")
    assert isinstance(scene.take(command), tuple)


def test_a_withdrawn_message_ends_once_without_a_turn() -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.take(c.WithdrawMessage(message_id="msg_1"))
    assert scene.last == ["message.withdrawn", "message.ended", "session.status"]
    message = scene.message("msg_1")
    assert (message.state, message.turn_id, message.usage, message.ended_at) == ("withdrawn", None, None, scene.now)
    assert scene.session.status() == "dormant"


def test_a_queue_is_reordered_and_runs_in_the_new_order() -> None:
    scene = Scene()
    for id in ("msg_1", "msg_2", "msg_3"):
        scene.send(id)
    scene.take(c.ReorderQueue(order=("msg_3", "msg_1", "msg_2")))
    assert scene.waiting == ["msg_3", "msg_1", "msg_2"]
    scene.nothing(c.ReorderQueue(order=("msg_3", "msg_1", "msg_2")))


@pytest.mark.parametrize("order", [("msg_1",), ("msg_1", "msg_1"), ("msg_1", "msg_2", "msg_3"), ("msg_1", "msg_3"), ()])
def test_an_order_that_does_not_name_all_that_waits_once_is_refused(order: tuple[str, ...]) -> None:
    scene = Scene()
    scene.send("msg_1")
    scene.send("msg_2")
    error = scene.refusal(c.ReorderQueue(order=order))
    assert (error.code, error.ids["waiting"]) == ("invalid_request", ["msg_1", "msg_2"])
