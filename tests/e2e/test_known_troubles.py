"""What went wrong in systems that do this job, as public reports tell it, tried from outside."""

import json
import threading
from pathlib import Path
from typing import Any

from e2e.driver import Host, together, types, until
from e2e.stores import ON_BOTH

pytestmark = ON_BOTH


def asked(host: Host, session_id: str) -> dict[str, Any]:
    """The question that a session's agent asks."""

    def pending() -> dict[str, Any] | None:
        items = host.api("GET", "/permissions?state=pending").json["items"]
        return next((item for item in items if item["session_id"] == session_id), None)

    return until(pending, "a question")


def test_a_session_that_asks_a_person_holds_up_no_other(host: Host) -> None:
    """claude-agent-acp#830"""
    asking = host.session()
    waiting = host.post(asking, "[[ask May I?]] done").json
    question = asked(host, asking)

    other = host.cli("session", "message", "other", "hello", "--agent", "echo")

    assert (other.code, other.out) == (0, "echo: hello\n")
    assert host.receipt(waiting["id"])["state"] == "running"
    assert host.api("POST", f"/permissions/{question['id']}", {"decision": "allow"}).status == 200
    assert host.ended(waiting["id"])["state"] == "answered"


def test_a_message_to_a_session_without_a_process_starts_a_turn_without_another_trigger(quiet_host: Host) -> None:
    """opencode#32010"""
    quiet_host.data.mkdir(parents=True)
    (quiet_host.data / "antiphon.toml").write_text("[host]\nagent_idle_s = 0.1\n")
    host = quiet_host.start()
    session_id = host.session()
    host.ended(host.post(session_id, "first").json["id"])
    until(lambda: host.api("GET", f"/sessions/{session_id}").json["status"] == "dormant", "a dormant session")

    second = host.post(session_id, "second").json

    assert host.ended(second["id"], 1.0)["reply"] == "echo: second"


def test_a_limit_of_sessions_refuses_new_ones_and_leaves_the_others_alone(quiet_host: Host) -> None:
    """hermes-agent#95732"""
    quiet_host.data.mkdir(parents=True)
    (quiet_host.data / "antiphon.toml").write_text("[host]\nmax_sessions = 1\n")
    host = quiet_host.start()
    first = host.session()

    refused = host.api("POST", "/sessions", {"agent": "echo"})
    at_the_desk = host.cli("session", "message", "new", "hello", "--agent", "echo")

    assert (refused.status, refused.json["code"]) == (429, "session_limit")
    assert int(refused.headers["Retry-After"]) > 0
    assert (at_the_desk.code, at_the_desk.out) == (3, "")
    assert host.ended(host.post(first, "still here").json["id"])["reply"] == "echo: still here"


def test_an_event_of_a_mebibyte_reaches_its_viewer_whole_and_is_not_met_again(host: Host) -> None:
    """OpenHands (source)"""
    session_id = host.session()
    text = "x" * ((1 << 20) - 1000)
    host.ended(host.post(session_id, text).json["id"])
    events = host.events(session_id)
    large = next(event for event in events if event["type"] == "message.accepted")

    connection = host.connect()
    headers = {"Authorization": f"Bearer {host.ready['token']}", "Accept": "text/event-stream"}
    connection.request("GET", f"/v1/sessions/{session_id}/events", headers=headers)
    stream = connection.getresponse()
    seen: list[dict[str, Any]] = []
    while len(seen) < len(events):
        if (line := stream.readline()).startswith(b"data:"):
            seen.append(json.loads(line.removeprefix(b"data:")))
    connection.close()
    after = host.api("GET", f"/sessions/{session_id}/events?after={large['cursor']}").json["items"]

    assert seen == events
    assert large["data"]["text"] == text
    assert "message.accepted" not in types(after)


def test_readers_beside_writers_see_whole_states_and_no_errors(host: Host) -> None:
    """openclaw#16516"""
    session_id = host.session()
    path, done = f"/sessions/{session_id}/transcript", threading.Event()
    halves: list[Any] = []

    def write() -> list[str]:
        ids = [host.post(session_id, f"[[stream 20 every 1]] {number}").json["id"] for number in range(20)]
        ends = [host.ended(message_id, 30) for message_id in ids]
        done.set()
        return [end["state"] for end in ends]

    def read() -> int:
        connection, reads = host.connect(), 0
        while not done.is_set():
            answer = host.api("GET", path, connection=connection)
            items = answer.json["items"]
            users = [item["message_id"] for item in items if item["role"] == "user"]
            if answer.status != 200 or len(users) != len(set(users)):
                halves.append(answer)
            reads += 1
        connection.close()
        return reads

    states, *reads = together(write, read, read)

    assert not halves
    assert states == ["answered"] * 20
    assert all(isinstance(count, int) and count > 0 for count in reads)


def test_the_host_writes_down_neither_prompts_nor_answers_nor_its_token_in_its_log(host: Host) -> None:
    secret = "a word that no log may hold"
    assert host.cli("session", "message", "desk", secret, "--agent", "echo").code == 0
    host.api("POST", "/sessions/desk/messages", {"text": secret, "bogus": secret})
    host.stop()

    log = Path(host.log).read_text()
    assert "antiphon" in log
    assert secret not in log
    assert host.ready["token"] not in log
