"""The real pi behind a host, driven from outside: command line and HTTP, refusals, deaths, restarts."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.driver import Host, until
from e2e.model import Model
from real_pi import pi_missing, pi_table

pytestmark = pytest.mark.skipif(pi_missing() is not None, reason=str(pi_missing()))
REFUSED = "a word that no model may hear"
SECONDS = 60


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def test_two_messages_a_refusal_between_them_a_cancel_and_deaths_of_agent_and_host(
    quiet_host: Host, model: Model
) -> None:
    host = quiet_host
    table = pi_table(host.home / "pi_home", model.url)
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items() if name != "environment"]
    config = host.home / "antiphon.toml"
    config.write_text("\n".join(["[agents.pi]", *lines, "[agents.pi.environment]", 'PI_OFFLINE = "1"', ""]))
    options = ["--config", str(config)]
    host.start(*options)
    session_id = host.session(agent="pi", key="telegram:42")

    sender, first = host.held("telegram:42", "my name is Ada")
    refused = host.cli("session", "message", "telegram:42", REFUSED, "--when-busy", "refuse")
    assert (refused.code, refused.out) == (3, "")
    assert host.post(session_id, REFUSED, when_busy="refuse").json["holder"]["message_id"] == first["id"]
    queued = host.later("session", "message", "telegram:42", "[[recall]] who am I?")
    model.release("gate")
    done, second = sender.finish(SECONDS), queued.finish(SECONDS)
    assert (done.code, done.out) == (0, "model: my name is Ada\n"), done.err
    assert (second.code, second.out) == (0, "my name is Ada / who am I?model: who am I?\n"), second.err

    def running(text: str, sign: str) -> str:
        """Send a message, and wait until its turn has come so far; its id."""
        message_id = host.post(session_id, text).json["id"]

        def there() -> bool:
            tools = [event for event in host.events(session_id) if event["type"] == "turn.tool_started"]
            return any(sign in json.dumps(event["data"]) for event in tools)

        until(there, sign, SECONDS)
        return message_id

    def pids() -> list[int]:
        return [event["data"]["pid"] for event in host.events(session_id) if event["type"] == "agent.started"]

    message_id = running("[[say half]] [[shell sleep 301]] never", "sleep 301")
    cancelled = host.api("POST", f"/turns/{host.receipt(message_id)['turn_id']}/cancel").json
    assert (cancelled["state"], cancelled["confirmed"]) == ("cancelled", True)

    message_id = running("[[say partial]] [[shell trap '' TERM; sleep 302; sleep 302]] three", "sleep 302")
    os.kill(pids()[-1], signal.SIGKILL)
    assert host.ended(message_id, SECONDS)["state"] == "failed"
    third = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=SECONDS)
    assert third.code == 0, third.err
    assert third.out.startswith("my name is Ada / who am I?")

    message_id = running("[[shell trap '' TERM; sleep 303; sleep 303]] four", "sleep 303")
    before = pids()
    host.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before), "the end of pi", SECONDS)
    host.start(*options)
    assert host.ended(message_id, SECONDS)["state"] == "interrupted"
    last = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=SECONDS)
    assert last.code == 0, last.err
    assert last.out.startswith("my name is Ada / who am I?")
    assert REFUSED not in model.heard()
    pid = pids()[-1]
    assert host.cli("session", "stop", "telegram:42", seconds=SECONDS).code == 0
    assert not Path(f"/proc/{pid}").exists()
