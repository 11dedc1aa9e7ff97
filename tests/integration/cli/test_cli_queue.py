"""The queue at the command line: pause, continue, cancel, deadlines; forks."""

from uuid import uuid4

import pytest

from clientlab.running import Installation, until


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"test:{uuid4()}"


def send(host: Installation, key: str, text: str, *more: str) -> str:
    """A message that is not waited for; its id."""
    return host.run("session", "message", key, text, "--agent", "echo", "--no-wait", *more).out.strip()


def held(host: Installation, key: str) -> tuple[str, str]:
    """A message whose turn runs until its name is released: the name, and the message's id."""
    name = uuid4().hex
    message_id = send(host, key, f"[[hold {name}]] {name}")
    until(lambda: host.run("message", "show", message_id, "--json").json["state"] == "running", "running turn")
    return name, message_id


def test_a_paused_session_takes_messages_and_goes_on_when_it_is_told_to(host: Installation, key: str) -> None:
    host.run("session", "start", key, "--agent", "echo")
    assert host.run("session", "pause", key).code == 0
    message_id = send(host, key, "hello")
    assert "its queue was paused" in host.run("session", "queue", key).out
    assert "paused" in host.run("session", "show", key).out
    assert host.run("session", "continue", key).code == 0
    assert host.run("message", "wait", message_id).out == "echo: hello\n"


def test_a_message_a_turn_and_all_that_waits_are_cancelled(host: Installation, key: str) -> None:
    _, running = held(host, key)
    a, b, c = [send(host, key, text) for text in "abc"]
    assert host.run("message", "cancel", a).code == 0
    turn_id = host.run("message", "show", running, "--json").json["turn_id"]
    done = host.run("turn", "cancel", turn_id, "--queue", "--json")
    assert (done.code, done.json["confirmed"], done.json["message_ids"]) == (0, True, [b, c])
    assert [host.run("message", "wait", each).code for each in (running, a, b, c)] == [7, 7, 7, 7]
    _, running = held(host, key)
    d = send(host, key, "d")
    assert [each["id"] for each in host.run("session", "queue", key, "--cancel", "--json").json["items"]] == [d]
    assert host.run("message", "cancel", running, "--json").json["confirmed"] is True
    assert host.run("message", "cancel", running).code == 0, "it is cancelled"


def test_a_deadline_fails_the_message_and_a_wait_does_not(host: Installation, key: str) -> None:
    name, running = held(host, key)
    late = host.run("session", "message", key, "late", "--deadline-waiting", "0.2")
    assert late.code == 1
    assert "deadline" in late.err
    assert host.run("message", "wait", running, "--timeout", "0.1").code == 6
    host.release(name)
    assert host.run("message", "wait", running).code == 0
    assert host.run("session", "message", key, "x", "--deadline", "0").code == 2


def test_a_fork_has_the_transcript_so_far_and_a_name_of_its_own(host: Installation, key: str) -> None:
    first = host.run("session", "message", key, "one", "--agent", "echo", "--json").json
    host.run("session", "message", key, "two")
    fork = f"{key}:fork"
    assert host.run("session", "fork", key, fork, "--turn", first["turn_id"]).out == f"{fork}\n"
    assert host.run("session", "message", fork, "three").out == "echo: three\n"
    told = host.run("session", "transcript", fork).out
    assert "one" in told
    assert "two" not in told
    assert host.run("session", "fork", key, fork).code == 3
