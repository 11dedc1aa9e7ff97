"""What went wrong in systems that do this job, as public reports tell it; each is named where it was reported."""

import random
from itertools import permutations

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given, Refused, Rules, decide
from antiphon.core.session import Problem, Usage
from models.life import AGENT, CLIENTS, OWNER, Life
from models.scene import Scene

FAILED = Problem(code="agent_failed", detail="It took too long.")


def said(turn: str, text: str) -> c.AgentSaid:
    return c.AgentSaid(turn_id=turn, said=e.TurnText(turn_id=turn, text=text))


# A second message


def test_hundreds_of_refused_messages_leave_turn_queue_and_timer_alone() -> None:
    """relay#452"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    before = scene.session
    for number in range(300):
        scene.now += 1
        refused = c.SendMessage(message_id=f"msg_no_{number}", text="x", when_busy="refuse")
        assert scene.refusal(refused).code == "session_busy"
    assert scene.session is before
    scene.say("turn_1", "the answer")
    scene.complete("turn_1")
    assert (scene.message("msg_1").state, scene.reply("turn_1")) == ("answered", "the answer")


@pytest.mark.parametrize("steps", [1, 3])
def test_three_first_messages_at_once_are_answered_by_three_turns_in_their_order(steps: int) -> None:
    """openclaw#99048, openclaw#69112"""
    scene = Scene()
    sends = [c.SendMessage(message_id=f"msg_{n}", text="x") for n in (1, 2, 3)]
    for first in range(0, 3, 3 // steps):
        scene.take(*sends[first : first + 3 // steps])
    for number in (1, 2, 3):
        scene.start(f"turn_{number}")
        assert scene.running == [f"msg_{number}"]
        scene.complete(f"turn_{number}")
    assert [scene.message(f"msg_{n}").turn_id for n in (1, 2, 3)] == ["turn_1", "turn_2", "turn_3"]


def test_a_command_that_lost_a_race_against_metadata_is_decided_as_before_and_the_metadata_is_kept() -> None:
    """openclaw#98672, openclaw#96698"""
    scene = Scene()
    send, given = c.SendMessage(message_id="msg_1", text="x"), Given(now=scene.now)
    before = decide(scene.session, send, given)
    scene.take(c.PatchSession(changes={"title": "T", "labels": {"a": "1"}, "model": "m", "settings": {"x": 1}}))
    assert decide(scene.session, send, given) == before
    scene.send("msg_1")
    assert (scene.session.title, scene.session.revision) == ("T", 2)


RACING: tuple[c.Command, ...] = (
    c.ClearSession(),
    c.PatchSession(changes={"title": "T"}),
    c.PatchSession(changes={"labels": {"a": "1"}}),
    c.AgentSaid(turn_id="turn_1", said=e.TurnUsage(turn_id="turn_1", usage=Usage(input_tokens=5))),
    c.AgentCanResume(run_id="run_1", resume_token="late"),
    c.AgentEnded(turn_id="turn_1", error=FAILED),
)


def test_a_clear_among_other_writes_is_one_rotation_and_unrelated_writes_stay() -> None:
    """openclaw#101250"""
    for order in permutations(RACING):
        scene = Scene()
        scene.take(c.AgentOpened(run_id="run_1", resume_token="early"))
        scene.run("msg_1", "turn_1")
        for command in order:
            scene.take(command)
        session = scene.session
        assert (session.generation, session.resume_token, session.last_turn) == (2, None, None), order
        assert (session.title, session.labels, session.revision) == ("T", {"a": "1"}, 3), order
        assert scene.message("msg_1").state in ("failed", "cancelled"), order


def test_a_refusal_is_not_sticky() -> None:
    """openclaw#99589"""
    scene = Scene(rules=Rules(queue_max=1))
    scene.send("msg_1")
    for _ in range(3):
        assert scene.refusal(c.SendMessage(message_id="msg_2", text="x")).code == "queue_full"
    scene.start("turn_1")
    scene.send("msg_2")


def test_a_message_that_lands_as_a_turn_ends_is_answered_in_either_order() -> None:
    """software-agent-sdk#3363, openclaw#91909"""
    end, send = c.AgentEnded(turn_id="turn_1"), c.SendMessage(message_id="msg_2", text="x")
    for commands in ((end, send), (send, end)):
        scene = Scene()
        scene.run("msg_1", "turn_1")
        scene.take(*commands)
        assert (scene.session.status(), scene.session.unsettled) == ("starting", True)
        scene.start("turn_2")
        assert scene.running == ["msg_2"]


@pytest.mark.parametrize("seed", range(20))
def test_a_session_is_never_free_by_its_status_and_busy_by_its_answer(seed: int) -> None:
    """software-agent-sdk#3842"""
    fate = random.Random(seed)
    life = Life(fate.randrange, print)
    for _ in range(200):
        fate.choice(fate.choice((CLIENTS, OWNER, AGENT)))(life)
        session = life.current
        if session is None or session.lifecycle != "active":
            continue
        sent = decide(session, c.SendMessage(message_id="msg_0", text="x", when_busy="refuse"), Given(now=life.now))
        assert isinstance(sent, Refused) == (session.status() in ("running", "asking", "starting"))


def test_a_turn_that_failed_lets_the_next_message_run() -> None:
    """openclaw#29497, openclaw#5951"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.take(c.AgentEnded(turn_id="turn_1", error=FAILED))
    assert scene.message("msg_1").error == FAILED
    scene.start("turn_2")
    assert scene.running == ["msg_2"]


def test_of_three_rollbacks_only_the_last_ones_turn_stays_in_the_transcript() -> None:
    """langgraphjs#864"""
    scene = Scene()
    for number in (1, 2):
        scene.send(f"msg_{number}", "rollback")
        if scene.session.running:
            scene.complete(f"turn_{number - 1}")
        scene.start(f"turn_{number}")
    scene.send("msg_3", "rollback")
    scene.complete("turn_2")
    scene.start("turn_3")
    scene.complete("turn_3")
    assert [scene.turn(f"turn_{n}").rolled_back for n in (1, 2, 3)] == [True, True, False]
    assert [scene.message(f"msg_{n}").state for n in (1, 2, 3)] == ["cancelled", "cancelled", "answered"]


def test_a_withdrawn_message_comes_back_under_its_key_as_itself_and_under_a_new_key_as_another() -> None:
    """openclaw#115888"""
    scene = Scene()
    scene.send("msg_1", idempotency_key="k", digest="d")
    scene.take(c.WithdrawMessage(message_id="msg_1"))
    same = c.SendMessage(message_id="msg_2", text="x", idempotency_key="k", digest="d", prior=("msg_1", "d"))
    assert scene.repeated(same) == "msg_1"
    scene.send("msg_3", idempotency_key="k2", digest="d")
    assert scene.waiting == ["msg_3"]


def test_an_overflowing_queue_neither_drops_nor_counts_what_is_in_flight() -> None:
    """openclaw#103246"""
    scene = Scene(rules=Rules(queue_max=1))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    assert scene.refusal(c.SendMessage(message_id="msg_3", text="x")).code == "queue_full"
    assert (scene.running, scene.waiting) == (["msg_1"], ["msg_2"])


def test_a_message_that_runs_again_after_a_crash_is_kept_even_if_the_queue_is_full() -> None:
    """openclaw#103246"""
    scene = Scene(rules=Rules(queue_max=1))
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.crash("retry_if_untouched")
    assert scene.waiting == ["msg_1", "msg_2"]


@pytest.mark.parametrize("answer", ["before the end", "after the end", "never"])
def test_a_steer_that_arrives_as_the_answer_drains_is_answered_by_this_turn_or_the_next(answer: str) -> None:
    """openclaw#125035"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.hand_over("msg_2", "turn_1")
    taken = c.AgentSteered(turn_id="turn_1", message_id="msg_2", taken=True)
    if answer == "before the end":
        scene.take(taken)
    scene.complete("turn_1")
    if answer == "after the end":
        scene.nothing(taken)
    if answer != "before the end":
        scene.start("turn_2")
        scene.complete("turn_2")
    assert scene.message("msg_2").state == "answered"


def test_a_parked_steer_runs_before_what_came_after_it() -> None:
    """openclaw#119794"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2", "steer")
    scene.send("msg_3")
    scene.complete("turn_1")
    scene.start("turn_2")
    assert (scene.running, scene.message("msg_2").delivered_as) == (["msg_2"], "turn")


def test_a_turn_that_is_not_started_leaves_no_phantom() -> None:
    """t3code#5795, adk-python#1733"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.send("msg_2")
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    assert "turn_2" not in scene.records
    assert scene.refusal(c.CancelTurn(turn_id="turn_2")).code == "turn_ended"


# Pairing and duplicates


def test_the_end_of_a_cancelled_turn_is_not_taken_for_the_end_of_the_next() -> None:
    """claude-agent-acp#551"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.take(c.AgentEnded(turn_id="turn_1", cancelled=True))
    scene.run("msg_2", "turn_2")
    scene.nothing(c.AgentEnded(turn_id="turn_1", cancelled=True))
    scene.nothing(said("turn_1", "late"))
    assert scene.running == ["msg_2"]
    scene.complete("turn_2")
    assert [event.TYPE for event in scene.events].count("turn.ended") == 2


def test_a_turn_interrupted_before_it_spoke_has_no_answer() -> None:
    """openclaw#50145"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.say("turn_1", "the one before")
    scene.complete("turn_1")
    scene.run("msg_2", "turn_2")
    scene.send("msg_3", "interrupt")
    scene.nothing(said("turn_2", "late"))
    scene.complete("turn_2")
    assert (scene.reply("turn_2"), scene.message("msg_2").state) == ("", "cancelled")


@pytest.mark.parametrize(
    "end", [c.AgentEnded(turn_id="turn_2"), c.AgentExited(run_id="run_1", turn_id="turn_2", reason="x")]
)
def test_a_turn_that_the_agent_began_by_itself_ends_and_answers_nobody(end: c.Command) -> None:
    """agent-of-empires#2326"""
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    answered = scene.message("msg_1")
    scene.take(c.AgentBegan(turn_id="turn_2"))
    scene.say("turn_2", "the task is done")
    scene.take(end)
    assert scene.session.status() in ("idle", "errored")
    assert scene.message("msg_1") == answered


def test_a_wake_up_and_a_message_in_the_same_second_are_two_turns_one_after_the_other() -> None:
    """hermes-agent#45682"""
    wake, send = c.AgentBegan(turn_id="turn_1"), c.SendMessage(message_id="msg_1", text="x")
    for commands in ((wake, send), (send, wake)):
        scene = Scene()
        scene.take(c.AgentOpened(run_id="run_1"))
        scene.take(*commands)
        scene.nothing(c.StartTurn(turn_id="turn_2"))
        scene.complete("turn_1")
        scene.start("turn_2")
        assert scene.running == ["msg_1"]


def test_an_answered_message_does_not_run_again_when_its_idle_process_is_let_go() -> None:
    """nanoclaw#164"""
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.take(c.AgentExited(run_id="run_1", reason="idle"))
    scene.crash("resume", can_resume=True)
    assert (scene.waiting, scene.message("msg_1").state) == ([], "answered")


# Crash, stuck, cancel


def test_what_a_past_life_left_running_is_over_and_new_messages_run() -> None:
    """openclaw#98920, deer-flow#1087, opencode#19023, openclaw#138564"""
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentSaid(turn_id="turn_1", said=e.TurnToolStarted(turn_id="turn_1", tool_id="t", name="sh")))
    scene.send("msg_2")
    scene.crash()
    assert e.TurnToolEnded(turn_id="turn_1", tool_id="t", outcome="aborted") in scene.step.events
    scene.start("turn_2")
    assert scene.running == ["msg_2"]


def test_when_the_tries_run_out_message_and_session_both_leave_the_busy_state() -> None:
    """aegra#473"""
    scene = Scene(rules=Rules(attempts_max=3))
    scene.send("msg_1")
    for number in range(3):
        scene.start(f"turn_{number}")
        scene.crash("retry_if_untouched")
    assert (scene.message("msg_1").state, scene.session.status()) == ("interrupted", "dormant")


def test_a_cancel_is_no_success_while_the_agent_still_runs() -> None:
    """aegra#528, openclaw#14228"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    assert (scene.turn("turn_1").state, scene.session.status()) == ("running", "running")
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.take(c.AgentExited(run_id="run_1", turn_id="turn_1", reason="killed"))
    assert scene.turn("turn_1").state == "cancelled"


def test_a_cancel_and_a_completion_that_race_agree_on_who_was_first() -> None:
    """claude-agent-acp#551"""
    cancel, end = c.CancelTurn(turn_id="turn_1"), c.AgentEnded(turn_id="turn_1")
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(cancel)
    scene.take(end)
    assert (scene.turn("turn_1").state, scene.message("msg_1").state) == ("cancelled", "cancelled")
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(end)
    assert scene.refusal(cancel).code == "turn_ended"
    assert (scene.turn("turn_1").state, scene.message("msg_1").state) == ("completed", "answered")


def test_interrupts_while_the_old_turn_goes_down_run_the_newest_next_and_lose_nothing() -> None:
    """openclaw#65221"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    for number in (2, 3, 4):
        scene.send(f"msg_{number}", "interrupt")
        scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.complete("turn_1")
    order: list[str] = []
    for number in (2, 3, 4):
        scene.start(f"turn_{number}")
        order += scene.running
        scene.complete(f"turn_{number}")
    assert order == ["msg_4", "msg_3", "msg_2"]


def test_an_abandoned_question_has_a_code_of_its_own_and_the_session_goes_on() -> None:
    """letta-code#885"""
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.take(c.StopSession())
    scene.complete("turn_1")
    answer = c.AnswerPermission(permission_id="perm_1", decision="allow")
    assert scene.refusal(answer).code == "permission_answered"
    scene.take(c.ResumeSession())
    scene.run("msg_2", "turn_2")
    assert scene.running == ["msg_2"]
