"""A second message is refused while the first one's answer is under way, and the first sender gets its answer."""

import json
from typing import Any

import pytest

from e2e.driver import Answer, Host, together, types

REFUSED = "a word that no transcript may hold"


pytestmark = pytest.mark.parametrize("store", ["sqlite", "memory", "postgresql"], indirect=True)


@pytest.fixture
def key() -> str:
    """The name of the session."""
    return "telegram:42"


def refuse_many(host: Host, session_id: str, count: int) -> list[Answer]:
    """Send `count` messages that want no waiting, over one connection that stays open."""
    connection = host.connect()
    body = {"text": REFUSED, "when_busy": "refuse"}
    path = f"/sessions/{session_id}/messages"
    answers = [host.api("POST", path, body, connection=connection) for _ in range(count)]
    connection.close()
    return answers


def of_the_conversation(host: Host, session_id: str) -> list[dict[str, Any]]:
    """The session's events but for those of the agent's process, which may still be coming up."""
    return [event for event in host.events(session_id) if not event["type"].startswith("agent.")]


def test_refused_messages_change_nothing_and_the_first_sender_gets_its_answer(host: Host, key: str) -> None:
    session_id = host.session(key=key)
    sender, first = host.held(key, "first")
    before = of_the_conversation(host, session_id)

    crowds = together(*[lambda: refuse_many(host, session_id, 50)] * 6)
    answers = [answer for crowd in crowds for answer in crowd]
    at_the_desk = host.cli("session", "message", key, REFUSED, "--when-busy", "refuse")

    assert {answer.status for answer in answers} == {409}
    assert {answer.headers["Content-Type"].partition(";")[0] for answer in answers} == {"application/problem+json"}
    assert {answer.json["code"] for answer in answers} == {"session_busy"}
    assert all(int(answer.headers["Retry-After"]) >= 0 for answer in answers)
    holders: list[dict[str, Any]] = [answer.json["holder"] for answer in answers]
    assert all(holder["since"] == first["started_at"] for holder in holders)
    assert {(holder["turn_id"], holder["message_id"]) for holder in holders} == {(first["turn_id"], first["id"])}

    assert (at_the_desk.code, at_the_desk.out) == (3, "")
    assert first["turn_id"] in at_the_desk.err
    assert of_the_conversation(host, session_id) == before
    assert sender.poll() is None, "the first sender was sent away"

    host.release()
    done = sender.finish()

    assert (done.code, done.out) == (0, "echo: first\n")
    after = types(host.events(session_id))
    assert after.count("turn.started") == after.count("turn.ended") == after.count("message.accepted") == 1
    assert "turn.cancel_requested" not in after
    assert host.receipt(first["id"])["state"] == "answered"
    said = [(line["role"], line["text"]) for line in host.transcript(session_id)]
    assert said == [("user", "[[hold gate]] first"), ("assistant", "echo: first")]
    assert REFUSED not in json.dumps(host.events(session_id))


def test_a_refusal_tells_a_program_who_holds_the_session(host: Host, key: str) -> None:
    host.session(key=key)
    sender, first = host.held(key, "first")

    refused = host.cli("session", "message", key, REFUSED, "--when-busy", "refuse", "--json")

    assert refused.code == 3
    told = refused.out or refused.err
    assert "session_busy" in told
    assert first["turn_id"] in told
    assert first["id"] in told
    host.release()
    assert sender.finish().out == "echo: first\n"


def test_a_refused_message_beside_a_queue_leaves_the_queue_alone(host: Host, key: str) -> None:
    session_id = host.session(key=key)
    sender, _ = host.held(key, "first")
    waiting = [host.post(session_id, word).json for word in ("second", "third")]
    assert [receipt["position"] for receipt in waiting] == [1, 2]

    assert host.post(session_id, REFUSED, when_busy="refuse").status == 409

    assert [host.receipt(receipt["id"])["position"] for receipt in waiting] == [1, 2]
    host.release()
    assert sender.finish().out == "echo: first\n"
    assert [host.ended(receipt["id"])["reply"] for receipt in waiting] == ["echo: second", "echo: third"]


def test_a_second_host_on_the_data_directory_is_refused_and_the_first_goes_on(host: Host) -> None:
    before = host.ready["pid"]

    second = host.cli("serve", "--port", "0")

    assert second.code == 1
    assert f"in use by another host (process {before})" in second.err
    assert host.read_ready()
    assert host.ready["pid"] == before
    assert host.cli("session", "message", "desk", "hello", "--agent", "echo").out == "echo: hello\n"


def test_after_the_refusals_the_session_takes_the_next_message(host: Host) -> None:
    session_id = host.session()
    sender, _ = host.held(session_id, "first")
    refuse_many(host, session_id, 5)
    host.release()
    sender.finish()

    done = host.cli("session", "message", session_id, "next", "--when-busy", "refuse")

    assert (done.code, done.out) == (0, "echo: next\n")
