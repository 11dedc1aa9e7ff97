"""What an agent says and asks, and what becomes of its process."""

import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from models.scene import Scene


def started(turn: str, tool: str = "t") -> c.AgentSaid:
    return c.AgentSaid(turn_id=turn, said=e.TurnToolStarted(turn_id=turn, tool_id=tool, name="sh", input={"a": [1]}))


def ended(turn: str, tool: str = "t") -> c.AgentSaid:
    return c.AgentSaid(turn_id=turn, said=e.TurnToolEnded(turn_id=turn, tool_id=tool, outcome="completed"))


# What it says


def test_the_texts_of_a_turn_joined_are_its_reply() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    for piece in ("ein ", "Stück ", "und noch eins 😀"):
        scene.say("turn_1", piece)
    assert scene.reply("turn_1") == "ein Stück und noch eins 😀"


def stalls(scene: Scene, turn_id: str = "turn_1") -> c.TurnStalls:
    """What a watchdog says that looks just now."""
    assert scene.session.running
    return c.TurnStalls(turn_id=turn_id, heard_at=scene.session.running.heard_at, detail="Nothing was heard.")


def test_a_turn_that_stalls_is_told_once_and_goes_on_with_the_next_word() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.now += 10_001
    scene.take(stalls(scene))
    assert scene.last == ["turn.stalled", "session.status"]
    assert scene.session.status() == "stalled"
    scene.nothing(stalls(scene))
    scene.now += 1
    scene.say("turn_1", "still here")
    assert scene.last == ["turn.text", "session.status"]
    assert scene.session.status() == "running"


def test_a_word_that_came_after_the_watchdog_looked_counts() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    looked = stalls(scene)
    scene.now += 1
    scene.say("turn_1", "still here")
    scene.nothing(looked)
    assert scene.session.status() == "running"


def test_a_turn_that_waits_for_a_person_or_is_being_cancelled_does_not_stall() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="May I?"))
    scene.now += 10_001
    scene.nothing(stalls(scene))
    assert scene.session.status() == "asking"
    scene.take(c.CancelTurn(turn_id="turn_1"))
    scene.nothing(stalls(scene))
    assert scene.session.status() == "running"


def test_a_tool_starts_and_ends_once() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.nothing(ended("turn_1"))
    scene.take(started("turn_1"))
    scene.nothing(started("turn_1"))
    scene.take(ended("turn_1"))
    scene.nothing(ended("turn_1"))
    scene.complete("turn_1")
    assert scene.last == ["turn.ended", "message.ended", "session.status"]


def test_a_remark_belongs_to_no_turn_and_wakes_nobody() -> None:
    scene = Scene()
    scene.take(c.AgentWrote(text="retrying"))
    assert scene.last == ["agent.log"]
    assert scene.session.status() == "dormant"


# What it asks


def test_a_question_makes_the_session_ask_and_its_answer_lets_it_go_on() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    assert scene.session.status() == "asking"
    assert scene.permission("perm_1").state == "pending"
    scene.take(c.AnswerPermission(permission_id="perm_1", decision="allow", option_id="once", note="ok", by="ann"))
    answered = scene.permission("perm_1")
    assert (answered.state, answered.option_id, answered.note, answered.by) == ("allowed", "once", "ok", "ann")
    assert scene.session.status() == "running"


def test_of_two_answers_the_first_counts() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.take(c.AnswerPermission(permission_id="perm_1", decision="deny"))
    error = scene.refusal(c.AnswerPermission(permission_id="perm_1", decision="allow"))
    assert (error.code, error.ids["permission_id"]) == ("permission_answered", "perm_1")
    assert scene.permission("perm_1").state == "denied"


def test_a_decision_is_allow_or_deny() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    assert scene.refusal(c.AnswerPermission(permission_id="perm_1", decision="maybe")).code == "invalid_request"


def test_at_the_deadline_policy_answers_once() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.take(c.ExpirePermission(permission_id="perm_1"))
    assert (scene.permission("perm_1").state, scene.permission("perm_1").by) == ("denied", "policy")
    scene.nothing(c.ExpirePermission(permission_id="perm_1"))
    assert scene.refusal(c.AnswerPermission(permission_id="perm_1", decision="allow")).code == "permission_answered"


def test_a_policy_may_allow() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.take(c.ExpirePermission(permission_id="perm_1", decision="allow"))
    assert scene.permission("perm_1").state == "allowed"


def test_a_cancel_drops_the_questions_and_no_more_are_asked() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.ask("perm_2", "turn_1")
    scene.take(c.CancelTurn(turn_id="turn_1"))
    assert [scene.permission(id).state for id in ("perm_1", "perm_2")] == ["expired", "expired"]
    assert scene.session.status() == "running"
    scene.nothing(c.AgentAsked(permission_id="perm_3", turn_id="turn_1", question="?"))
    assert scene.refusal(c.AnswerPermission(permission_id="perm_1", decision="allow")).code == "permission_answered"


def test_a_question_that_is_told_twice_is_asked_once() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.ask("perm_1", "turn_1")
    scene.nothing(c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="?"))


# Its process


def test_a_process_comes_and_goes() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1", pid=7, resume_token="t1"))
    assert (scene.session.status(), scene.session.resume_token) == ("idle", "t1")
    scene.take(c.AgentExited(run_id="run_1", exit_code=0, reason="closed"))
    assert (scene.session.status(), scene.session.resume_token) == ("dormant", "t1")


def test_a_process_that_is_told_twice_is_the_same() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.nothing(c.AgentOpened(run_id="run_1"))


def test_a_new_process_takes_the_place_of_the_old() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.take(c.AgentOpened(run_id="run_2"))
    assert scene.last == ["agent.exited", "agent.started"]
    scene.nothing(c.AgentExited(run_id="run_1", reason="closed"))
    assert scene.session.agent_run is not None
    assert scene.session.agent_run.id == "run_2"


def test_a_token_is_taken_from_the_current_process_only() -> None:
    scene = Scene()
    scene.nothing(c.AgentCanResume(run_id="run_1", resume_token="t1"))
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.take(c.AgentCanResume(run_id="run_1", resume_token="t1"))
    scene.nothing(c.AgentCanResume(run_id="run_1", resume_token="t1"))
    scene.nothing(c.AgentCanResume(run_id="run_0", resume_token="t0"))
    assert scene.session.resume_token == "t1"


def test_a_process_opened_for_a_cleared_generation_brings_no_token_into_the_new_one() -> None:
    scene = Scene()
    scene.take(c.ClearSession())
    scene.take(c.AgentOpened(run_id="run_1", generation=1, resume_token="old"))
    assert scene.session.resume_token is None
    assert scene.session.agent_run is not None
    assert scene.session.agent_run.generation == 1
    assert scene.entries[-2].type == "agent.started"
    assert scene.entries[-2].generation == 1
    scene.nothing(c.AgentCanResume(run_id="run_1", resume_token="old"))
    scene.nothing(c.AgentBegan(turn_id="turn_1"))


def test_a_process_that_comes_up_while_its_turn_is_being_cleared_is_of_the_turns_generation() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.ClearSession())
    scene.take(c.AgentOpened(run_id="run_1", resume_token="old"))
    assert scene.session.agent_run is not None
    assert (scene.session.agent_run.generation, scene.session.resume_token) == (1, None)


def test_an_agent_that_cannot_be_started_fails_the_turn_and_the_next_message_tries_afresh() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentUnavailable(turn_id="turn_1", detail="Run `pip install it`."))
    message = scene.message("msg_1")
    assert message.error is not None
    assert (message.state, message.error.code, message.error.detail) == (
        "failed",
        "agent_unavailable",
        "Run `pip install it`.",
    )
    assert scene.session.status() == "errored"
    scene.run("msg_2", "turn_2")
    assert scene.session.status() == "running"


def test_an_agent_that_dies_in_its_turn_fails_it_and_says_how() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentExited(run_id="run_1", turn_id="turn_1", exit_code=3, reason="exited", detail="No memory."))
    error = scene.message("msg_1").error
    assert error is not None
    assert error.detail == "The agent exited with code 3 in the middle of the turn. No memory."
    assert scene.last == ["agent.exited", "turn.ended", "message.ended", "session.status"]


def test_an_agent_that_dies_between_turns_fails_none() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentExited(run_id="run_1", reason="exited"))
    assert scene.running == ["msg_1"], "it was never prompted with this turn: another process can be"


def test_a_replaced_process_that_dies_ends_the_turn_it_was_prompted_with_and_leaves_the_new_one_be() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.take(c.AgentOpened(run_id="run_2"))
    scene.take(c.AgentExited(run_id="run_1", turn_id="turn_1", reason="killed"))
    assert scene.message("msg_1").state == "failed"
    assert scene.session.agent_run is not None
    assert scene.session.agent_run.id == "run_2"


# What it begins by itself


def test_a_turn_that_the_agent_begins_is_shown_counts_and_answers_nobody() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.send("msg_1")
    scene.take(c.AgentBegan(turn_id="turn_1"))
    scene.say("turn_1", "the task is done")
    turn = scene.turn("turn_1")
    assert (turn.origin, turn.message_ids, scene.session.status()) == ("agent", (), "running")
    scene.nothing(c.StartTurn(turn_id="turn_2"))
    scene.complete("turn_1")
    assert scene.last == ["turn.ended", "session.status"]
    assert (scene.waiting, scene.session.status()) == (["msg_1"], "starting")


@pytest.mark.parametrize("command", [c.StopSession(), c.ClearSession(), c.AgentExited(run_id="run_1", reason="x")])
def test_an_agent_begins_nothing_once_it_is_stopped_cleared_away_or_gone(command: c.Command) -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.take(command)
    scene.nothing(c.AgentBegan(turn_id="turn_1"))


def test_an_agent_begins_nothing_while_a_turn_runs() -> None:
    scene = Scene()
    scene.take(c.AgentOpened(run_id="run_1"))
    scene.run("msg_1", "turn_1")
    scene.nothing(c.AgentBegan(turn_id="turn_2"))


def test_policy_answers_in_the_same_moment_and_is_named() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    asked = c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="May I?", decision="deny", note="A rule.")
    scene.take(asked)
    assert scene.last == ["permission.requested", "permission.answered"]
    answered = scene.permission("perm_1")
    assert (answered.state, answered.by, answered.note) == ("denied", "policy", "A rule.")
    assert scene.session.status() == "running"


def test_an_option_that_is_not_offered_is_refused() -> None:
    scene = Scene()
    scene.run("msg_1", "turn_1")
    options = ({"id": "once"}, {"id": "never"})
    scene.take(c.AgentAsked(permission_id="perm_1", turn_id="turn_1", question="May I?", options=options))
    wrong = c.AnswerPermission(permission_id="perm_1", decision="allow", option_id="always")
    assert scene.refusal(wrong).code == "invalid_request"
    assert scene.session.status() == "asking"
