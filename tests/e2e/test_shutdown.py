"""SIGTERM and SIGINT end a host in good order; a second signal hurries it."""

import signal

import pytest

from e2e.driver import Answer, Host, until
from e2e.stores import ON_BOTH

pytestmark = ON_BOTH


def until_it_drains(host: Host, ref: str) -> Answer:
    """Send until the host refuses; what it refused with. What it took until then is withdrawn."""

    def refused() -> Answer | None:
        answer = host.post(ref, "too late")
        if answer.status == 202:
            host.api("DELETE", f"/messages/{answer.json['id']}")
            return None
        return answer

    return until(refused, "a host that drains")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_host_ends_at_once_and_takes_ready_json_with_it(host: Host, number: signal.Signals) -> None:
    host.cli("session", "message", "desk", "hello", "--agent", "echo")

    host.signal(number)

    assert host.wait(10) == 0
    assert not (host.data / "ready.json").exists()
    assert not host.serving()


def test_a_running_turn_is_let_finish_and_its_sender_gets_the_answer(host: Host) -> None:
    host.session(key="desk")
    sender, first = host.held("desk", "first")

    host.signal(signal.SIGTERM)
    refused = until_it_drains(host, "desk")
    assert (refused.status, refused.json["code"]) == (503, "draining")
    assert int(refused.headers["Retry-After"]) >= 0
    host.release()

    assert sender.finish()[:2] == (0, "echo: first\n")
    assert host.wait() == 0
    assert not (host.data / "ready.json").exists()
    host.start()
    assert host.receipt(first["id"])["reply"] == "echo: first"


def test_a_second_signal_interrupts_what_still_runs_and_the_queue_is_kept(host: Host) -> None:
    session_id = host.session()
    sender, first = host.held(session_id, "first")
    second = host.post(session_id, "second").json

    host.signal(signal.SIGTERM)
    until_it_drains(host, session_id)
    host.signal(signal.SIGTERM)

    host.wait(10)
    assert sender.finish().code == 7
    assert not (host.data / "ready.json").exists()
    host.start()
    assert host.ended(first["id"])["state"] == "interrupted"
    assert host.ended(second["id"])["reply"] == "echo: second"
