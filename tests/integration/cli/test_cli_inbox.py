"""The approval inbox: what agents ask is answered once, from anywhere, and it is kept by whom."""

import pytest

from clientlab.running import Installation, until


@pytest.fixture
def asking(alone: Installation) -> tuple[Installation, str]:
    """A host on which one session asks, whose sender is gone; and the question's id."""
    alone.serve()
    sender = alone.popen("session", "message", "desk", "[[ask May I?]] done", "--agent", "echo")
    listed = until(lambda: alone.run("permission", "list", "--json").json["items"], "a question")
    sender.kill()
    sender.wait(10)
    return alone, listed[0]["id"]


def test_a_question_outlives_its_sender_and_whoever_answers_first_is_kept(asking: tuple[Installation, str]) -> None:
    host, question = asking
    phone = host.run("token", "create", "phone").out.strip()
    assert host.run("session", "show", "desk", "--json").json["status"] == "asking"

    allowed = host.run("permission", "allow", question, "--note", "go ahead", "--token", phone)
    assert allowed.code == 0
    late = host.run("permission", "deny", question)
    assert late.code == 3
    assert "answered already" in late.err
    listed = host.run("permission", "list", "--state", "all", "--json").json["items"][0]
    assert (listed["state"], listed["by"], listed["note"]) == ("allowed", "phone", "go ahead")
    assert "phone" in host.run("permission", "list", "--state", "all").out
    until(lambda: host.run("session", "show", "desk", "--json").json["status"] == "idle", "the end of the turn")
    assert "echo: done" in host.run("session", "transcript", "desk").out


def test_an_option_that_is_not_offered_answers_nothing(asking: tuple[Installation, str]) -> None:
    host, question = asking
    wrong = host.run("permission", "allow", question, "--option", "for-ever")
    assert wrong.code == 2
    assert "allow, deny" in wrong.err
    assert host.run("permission", "allow", question, "--option", "allow").code == 0


def test_a_restart_ends_the_question_with_its_turn_and_the_session_goes_on(asking: tuple[Installation, str]) -> None:
    host, question = asking
    host.kill()
    host.serve()
    listed = host.run("permission", "list", "--state", "all", "--json").json["items"]
    assert [(each["id"], each["state"]) for each in listed] == [(question, "expired")]
    late = host.run("permission", "allow", question)
    assert late.code == 3
    assert host.run("session", "message", "desk", "hello").out == "echo: hello\n"


def test_a_deadline_is_shown_and_policy_answers_at_it(alone: Installation) -> None:
    alone.serve()
    alone.run("session", "start", "desk", "--agent", "echo", "--setting", "permission_deadline_s=6")
    message_id = alone.run("session", "message", "desk", "[[ask May I?]] done", "--no-wait").out.strip()
    until(lambda: "policy at " in alone.run("permission", "list").out, "the deadline of a question")
    done = alone.run("message", "wait", message_id, "--json", seconds=60)
    assert done.json["state"] == "answered"
    listed = alone.run("permission", "list", "--state", "denied", "--json").json["items"]
    assert [(each["by"], each["note"]) for each in listed] == [("policy", "Nobody answered before the deadline.")]
