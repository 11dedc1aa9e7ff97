"""A sender that goes away takes nothing with it: the turn goes on, and its answer is kept."""

import re
import signal
from urllib.parse import quote

from e2e.driver import Command, Host, types, until
from e2e.stores import ON_BOTH

pytestmark = ON_BOTH

MESSAGE = re.compile(r"msg_[\w-]+")


def waited(host: Host, message_id: str) -> tuple[int, str]:
    """What `message wait` exits with and prints."""
    done = host.cli("message", "wait", message_id)
    return done.code, done.out


def test_a_killed_sender_leaves_its_turn_and_its_answer(host: Host) -> None:
    session_id = host.session()
    sender, first = host.held(session_id, "first")

    sender.kill()
    sender.wait()

    assert host.receipt(first["id"])["state"] == "running"
    host.release()
    assert waited(host, first["id"]) == (0, "echo: first\n")
    assert "turn.cancel_requested" not in types(host.events(session_id))


def test_a_wait_that_ends_exits_6_with_the_receipts_id_and_the_turn_goes_on(host: Host) -> None:
    session_id = host.session()

    timed = host.cli("session", "message", session_id, "[[hold gate]] first", "--timeout", "0.5")

    assert (timed.code, timed.out) == (6, "")
    found = MESSAGE.search(timed.err)
    assert found, timed.err
    assert host.receipt(found[0])["state"] == "running"
    host.release()
    assert waited(host, found[0]) == (0, "echo: first\n")


def test_an_interrupted_wait_exits_130_with_the_receipts_id_and_the_turn_goes_on(host: Host) -> None:
    session_id = host.session()
    sender, first = host.held(session_id, "first")

    sender.send_signal(signal.SIGINT)
    done = sender.finish()

    assert (done.code, done.out) == (130, "")
    assert first["id"] in done.err
    assert host.receipt(first["id"])["state"] == "running"
    host.release()
    assert waited(host, first["id"]) == (0, "echo: first\n")


def test_a_send_without_waiting_prints_its_receipts_id_and_exits_at_once(host: Host) -> None:
    session_id = host.session()

    sent = host.cli("session", "message", session_id, "[[hold gate]] first", "--no-wait")

    found = MESSAGE.search(sent.out + sent.err)
    assert sent.code == 0
    assert found, sent
    host.release()
    assert waited(host, found[0]) == (0, "echo: first\n")


def test_a_dropped_connection_leaves_its_message_and_the_queue(host: Host) -> None:
    session_id = host.session()
    sender, _ = host.held(session_id, "first")
    connection = host.connect()
    headers = {"Authorization": f"Bearer {host.ready['token']}", "Content-Type": "application/json"}
    headers["Prefer"] = "wait=20"
    connection.request("POST", f"/v1/sessions/{quote(session_id)}/messages", '{"text": "second"}', headers)
    until(lambda: types(host.events(session_id)).count("message.accepted") == 2, "the second message's acceptance")

    connection.close()
    host.release()

    assert sender.finish().out == "echo: first\n"
    ids = [event["message_id"] for event in host.events(session_id) if event["type"] == "message.accepted"]
    assert [host.ended(each)["reply"] for each in ids] == ["echo: first", "echo: second"]


def test_every_waiter_of_a_message_gets_its_answer(host: Host) -> None:
    session_id = host.session()
    sender, first = host.held(session_id, "first")
    waiters: list[Command] = [host.later("message", "wait", first["id"]) for _ in range(3)]
    leaving = host.cli("message", "wait", first["id"], "--timeout", "0.2")
    assert leaving.code == 6

    host.release()

    assert [waiter.finish()[:2] for waiter in waiters] == [(0, "echo: first\n")] * 3
    assert sender.finish()[:2] == (0, "echo: first\n")
