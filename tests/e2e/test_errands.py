"""A host that is killed while it tells a webhook, or between a schedule's decision and its message."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import standardwebhooks

from doubles.receiver import HANG, Reply, Request, receiving
from e2e.driver import Host, until
from e2e.stores import ON_BOTH

PATIENCE_S = 60.0


@pytest.fixture
def host(antiphon_command: str, tmp_path: Path, store: str) -> Iterator[Host]:
    """A host that may deliver to this machine."""
    host = Host(antiphon_command, tmp_path, store)
    host.data.mkdir()
    (host.data / "antiphon.toml").write_text(
        '[webhooks]\nallowed_networks = ["127.0.0.1"]\nallow_http = true\nfirst_pause_s = 0.2\n'
        "timeout_s = 5\n"  # what a killed host has claimed on a shared store is free after that, and a little
    )
    try:
        yield host.start()
    finally:
        host.close()


def delivered(host: Host, count: int) -> bool:
    """Whether so many deliveries are written down as made."""
    return len(host.api("GET", "/deliveries?state=delivered").json["items"]) >= count


def test_a_host_that_is_killed_in_the_middle_of_a_delivery_makes_it_again_under_the_same_id(host: Host) -> None:
    hangs = [HANG]
    with receiving(lambda _request: hangs.pop() if hangs else Reply()) as receiver:
        made = host.api("POST", "/webhooks", {"url": receiver.url})
        assert made.status == 201, made
        session = host.session()
        message_id = host.post(session, "hello").json["id"]
        receiver.wait(1, PATIENCE_S)
        host.kill()
        host.start()
        first, second = receiver.wait(2, PATIENCE_S)[:2]
        until(lambda: delivered(host, 1), "a delivery that is made", PATIENCE_S)

    assert first.id == second.id
    assert first.body == second.body
    told = standardwebhooks.Webhook(made.json["secret"]).verify(second.body, second.headers)
    assert told["data"] == host.receipt(message_id)
    assert told["data"]["reply"] == "echo: hello"


@ON_BOTH
def test_of_what_ended_around_kills_of_the_host_everything_is_told(host: Host) -> None:
    told: dict[str, Request] = {}
    with receiving() as receiver:
        assert host.api("POST", "/webhooks", {"url": receiver.url}).status == 201
        session = host.session()
        ids: list[str] = []
        for round in range(4):
            ids += [host.post(session, f"message {round}.{number}").json["id"] for number in range(5)]
            host.kill()
            host.start()
        ends = {id: host.ended(id, PATIENCE_S) for id in ids}

        def all_told() -> bool:
            told.update({json.loads(request.body)["data"]["id"]: request for request in list(receiver.requests)})
            return set(told) == set(ids)

        until(all_told, "everything to be told", PATIENCE_S)

    assert {id: json.loads(told[id].body)["data"] for id in ids} == ends
    assert len({request.id for request in receiver.requests}) == len(ids)


def test_a_webhook_that_is_down_holds_up_neither_answers_nor_a_clean_stop(host: Host) -> None:
    with receiving(lambda _request: HANG) as receiver:
        assert host.api("POST", "/webhooks", {"url": receiver.url}).status == 201
        session = host.session()
        for number in range(6):
            assert host.cli("session", "message", session, f"n{number}").out == f"echo: n{number}\n"
        receiver.wait(1, PATIENCE_S)
        assert host.stop(60) == 0


@pytest.mark.timeout(300)
def test_a_schedule_sends_by_the_machines_clock_and_goes_on_after_a_crash(host: Host) -> None:
    added = host.cli("schedule", "add", "ticks", "--cron", "* * * * *", "--agent", "echo", "--json", "tick")
    assert added.code == 0, added.err
    schedule = json.loads(added.out)
    host.kill()
    host.start()

    def sent() -> dict[str, object] | None:
        shown = host.api("GET", f"/schedules/{schedule['id']}").json
        return shown if shown["sent"] else None

    shown = until(sent, "a run", 200)
    assert shown["last_run"]["outcome"] == "sent"  # pyright: ignore[reportIndexIssue]
    receipt = host.ended(shown["last_run"]["message_id"])  # pyright: ignore[reportIndexIssue]
    assert (receipt["reply"], receipt["session_key"]) == ("echo: tick", "ticks")
