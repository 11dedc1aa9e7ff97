"""The commands about webhooks and schedules, against a real host."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.commands.schedule import local_zone
from clientlab.running import Installation, until
from doubles.receiver import Receiver, Reply, receiving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="module")
def local(antiphon_command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A host that may deliver to this machine, and soon gives up."""
    installation = Installation(antiphon_command, tmp_path_factory.mktemp("local"))
    installation.data.mkdir()
    (installation.data / "antiphon.toml").write_text(
        '[webhooks]\nallowed_networks = ["127.0.0.1"]\nallow_http = true\nfirst_pause_s = 0.05\ngive_up_after_s = 1\n'
    )
    try:
        yield installation.serve()
    finally:
        installation.close()


def state_of(host: Installation, delivery: str, state: str) -> bool:
    found = host.run("webhook", "deliveries", "--json", "--state", state).json["items"]
    return any(each["id"] == delivery for each in found)


def offered(host: Installation, *words: str) -> str:
    """What a shell is offered for the last word."""
    line = [host.command, "__complete", "--data-dir", str(host.data), *words]
    return subprocess.run(line, env=host.environment, capture_output=True, text=True, timeout=20, check=True).stdout


def test_a_webhook_is_added_listed_told_and_removed(local: Installation, tmp_path: Path) -> None:
    with receiving() as receiver:
        added = local.run("webhook", "add", receiver.url, "--description", "desk")
        assert added.code == 0, added.err
        assert "not shown again" in added.err
        fields = dict(line.split(None, 1) for line in added.out.splitlines())
        assert fields["secret"].startswith("whsec_")
        listed = local.run("webhook", "list").out
        assert fields["webhook"] in listed
        assert fields["secret"] not in listed
        assert local.run("session", "message", "desk", "Hello", "--agent", "echo").out == "echo: Hello\n"
        [request] = receiver.wait(1)
        until(lambda: state_of(local, request.id, "delivered"), "a delivery that is written down")
        assert request.id in local.run("webhook", "deliveries").out
        removed = local.run("webhook", "remove", fields["webhook"])
        assert removed.code == 0
        assert local.run("webhook", "list").out == ""
        assert local.run("webhook", "remove", fields["webhook"]).code == 4


def test_an_answer_whose_caller_left_is_sent_on(local: Installation, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    message_id = local.run("session", "message", "late", "Hello", "--agent", "echo", "--no-wait").out.strip()
    assert local.run("message", "wait", message_id).out == "echo: Hello\n"
    with receiving() as receiver:
        line = ("message", "webhook", message_id, receiver.url, "--secret-file", str(secret))
        assert local.run(*line, "--json").json["secret"] == SECRET
        [request] = receiver.wait(1)
        again = local.run(*line)
        until(lambda: state_of(local, request.id, "delivered"), "a delivery that is written down")
        shown = local.run("webhook", "deliveries", "--message", message_id, "--json").json["items"]

    assert (again.code, len(again.out.splitlines())) == (0, 1)
    assert [each["id"] for each in shown] == [request.id]
    assert local.run("message", "webhook", "msg_nowhere", "http://127.0.0.1:9/").code == 4
    assert local.run("message", "webhook", message_id, "https://10.0.0.1/").code == 2


def test_what_was_given_up_is_listed_and_tried_again(local: Installation) -> None:
    answers = {"status": 500}
    with receiving(lambda _request: Reply(answers["status"])) as receiver:
        webhook = local.run("webhook", "add", receiver.url, "--json").json["id"]
        local.run("session", "message", "dead", "Hello", "--agent", "echo")
        [request, *_] = receiver.wait(1)
        until(lambda: state_of(local, request.id, "dead"), "a delivery that is given up")
        assert request.id in local.run("webhook", "list", "--dead").out
        answers["status"] = 200
        retried = local.run("webhook", "retry", request.id)
        assert (retried.code, retried.err) == (0, "1 delivery is tried again.\n")
        until(lambda: state_of(local, request.id, "delivered"), "a delivery that is made")
        assert local.run("webhook", "retry", request.id).code == 3
        assert local.run("webhook", "retry", webhook, "--json").json == {"retried": 0}
        assert local.run("webhook", "enable", webhook).code == 0
        assert local.run("webhook", "retry", "evt_nothing").code == 4
    assert local.run("webhook", "remove", webhook).code == 0


def test_a_private_address_is_refused_with_the_setting_that_would_allow_it(host: Installation) -> None:
    refused = host.run("webhook", "add", "https://127.0.0.1/")

    assert refused.code == 2
    assert "allowed_networks" in refused.err


def test_a_schedule_is_added_shown_paused_resumed_and_removed(local: Installation) -> None:
    line = ("schedule", "add", "plan", "--cron", "0 7 * * 1-5", "--agent", "echo", "--time-zone", "Asia/Tokyo")
    added = local.run(*line, "Good morning", "--missed", "run_once")
    assert added.code == 0, added.err
    schedule = added.out.strip()
    assert "Asia/Tokyo" in added.err
    shown = local.run("schedule", "show", schedule)
    assert all(word in shown.out for word in (schedule, "0 7 * * 1-5", "Asia/Tokyo", "run_once", "Good morning"))
    assert schedule in local.run("schedule", "list").out
    assert local.run("schedule", "list", "--session", "other").out == ""
    assert local.run("schedule", "pause", schedule, "--json").json["state"] == "paused"
    assert local.run("schedule", "resume", schedule, "--json").json["state"] == "active"
    assert schedule in offered(local, "schedule", "show", "")
    assert local.run("schedule", "remove", schedule).code == 0
    assert local.run("schedule", "show", schedule).code == 4


def test_what_can_not_be_a_schedule_is_bad_usage(local: Installation) -> None:
    assert local.run("schedule", "add", "plan", "Hi", "--agent", "echo").code == 2
    refused = local.run("schedule", "add", "plan", "Hi", "--agent", "echo", "--cron", "0 0 30 2 *")
    assert (refused.code, "day-of-month" in refused.err) == (2, True)
    assert local.run("schedule", "add", "nowhere", "Hi", "--cron", "@daily").code == 4


def test_times_are_those_of_this_machine_unless_another_zone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Europe/Paris")
    assert local_zone() == "Europe/Paris"
    monkeypatch.delenv("TZ")
    for link, zone in (("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"), ("/etc/localtime", "UTC")):
        monkeypatch.setattr("os.path.realpath", lambda _path, link=link: link)
        assert local_zone() == zone


def test_ids_of_webhooks_are_offered_to_the_shell(local: Installation) -> None:
    def added(receiver: Receiver) -> str:
        return local.run("webhook", "add", receiver.url, "--json").json["id"]

    with receiving() as receiver:
        webhook = added(receiver)
        assert webhook in offered(local, "webhook", "remove", "")
        assert local.run("webhook", "remove", webhook).code == 0
