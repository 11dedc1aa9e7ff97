"""Real programs that speak ACP behind a host, driven from outside: command line, HTTP, permissions, kills, restarts."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import real_acp
from e2e.driver import Host, types, until
from e2e.model import Model
from e2e.stores import ON_BOTH

Build = Callable[..., real_acp.Program]
HERE = "[[say here]]"
REFUSED = "a word that no model may hear"
PATIENCE_S = 90.0
PROGRAMS = [
    pytest.param(
        real_acp.opencode,
        marks=pytest.mark.skipif(real_acp.opencode_missing() is not None, reason=str(real_acp.opencode_missing())),
        id="opencode",
    ),
    pytest.param(
        real_acp.claude,
        marks=pytest.mark.skipif(real_acp.claude_missing() is not None, reason=str(real_acp.claude_missing())),
        id="claude-agent-acp",
    ),
]


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def configure(host: Host, program: real_acp.Program) -> list[str]:
    """Write the configuration of an agent `acp`; the options of `serve` that name it."""
    table: dict[str, Any] = {"adapter": "acp", **program.table()}
    environment = table.pop("environment")
    lines = ["[agents.acp]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    lines += ["[agents.acp.environment]", *(f"{key} = {json.dumps(value)}" for key, value in environment.items())]
    config = host.home / "antiphon.toml"
    config.write_text("\n".join(lines))
    return ["--config", str(config)]


def posted(host: Host, session_id: str, text: str, sign: str) -> dict[str, Any]:
    """Send a message, and wait until its turn shows such an event; the receipt."""
    before = types(host.events(session_id)).count(sign)
    sent = host.post(session_id, text).json
    until(lambda: types(host.events(session_id)).count(sign) > before, f"{sign} of {text!r}", PATIENCE_S)
    return host.receipt(sent["id"])


def pids(host: Host, session_id: str) -> list[int]:
    """The processes that the agent was, oldest first."""
    return [event["data"]["pid"] for event in host.events(session_id) if event["type"] == "agent.started"]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("build", PROGRAMS)
def test_two_turns_a_refusal_and_a_queue_between_kills_of_the_agent_and_of_the_host(
    quiet_host: Host, model: Model, build: Build
) -> None:
    host = quiet_host
    options = configure(host, build(host.home / "home", model.url))
    host.start(*options)
    session_id = host.session(agent="acp", key="desk")

    sender, first = host.held("desk", "my name is Ada", seconds=PATIENCE_S)
    refused = host.cli("session", "message", "desk", REFUSED, "--when-busy", "refuse")
    over_http = host.post(session_id, REFUSED, when_busy="refuse")
    assert (refused.code, refused.out) == (3, "")
    assert (over_http.status, over_http.json["holder"]["message_id"]) == (409, first["id"])
    queued = host.post(session_id, "[[recall]] who am I?").json
    model.release("gate")
    done = sender.finish(PATIENCE_S)
    assert (done.code, done.out) == (0, "model: my name is Ada\n"), done.err
    ended = host.ended(queued["id"], PATIENCE_S)
    assert (ended["state"], ended["reply"]) == ("answered", "my name is Ada / who am I?model: who am I?")

    in_text = (f"{HERE} [[hold never]] two", "turn.text")
    in_a_tool = ("[[shell trap '' TERM; sleep 300; sleep 300]] three", "turn.tool_started")
    for text, sign in (in_text, in_a_tool):
        cut = posted(host, session_id, text, sign)
        assert host.cli("turn", "cancel", cut["turn_id"]).code == 0
        assert host.ended(cut["id"], PATIENCE_S)["state"] == "cancelled"

    cut = posted(host, session_id, f"{HERE} [[hold never]] four", "turn.text")
    os.kill(pids(host, session_id)[-1], signal.SIGKILL)
    assert host.ended(cut["id"], PATIENCE_S)["state"] == "failed"
    after = host.cli("session", "message", "desk", "[[recall]]", seconds=PATIENCE_S)
    assert after.code == 0, after.err
    assert after.out.startswith("my name is Ada / who am I?")

    cut = posted(host, session_id, "[[shell trap '' TERM; sleep 300; sleep 300]] five", "turn.tool_started")
    running = pids(host, session_id)[-1]
    host.kill()
    until(lambda: gone(running), "the end of the agent", PATIENCE_S)
    host.start(*options)
    assert host.ended(cut["id"], PATIENCE_S)["state"] == "interrupted"
    resumed = host.cli("session", "message", "desk", "[[recall]]", seconds=PATIENCE_S)
    assert resumed.code == 0, resumed.err
    assert resumed.out.startswith("my name is Ada / who am I?")

    running = pids(host, session_id)[-1]
    assert host.stop(60) == 0
    assert gone(running)
    assert REFUSED not in model.heard()


@ON_BOTH
@pytest.mark.timeout(200)
@pytest.mark.parametrize("build", PROGRAMS)
def test_a_permission_is_asked_allowed_denied_and_expires(quiet_host: Host, model: Model, build: Build) -> None:
    host = quiet_host
    host.start(*configure(host, build(host.home / "home", model.url, asks=True)))
    session_id = host.session(agent="acp", key="desk")

    for decision in ("allow", "deny"):
        asked = host.post(session_id, f"[[shell touch {decision}ed]] then").json
        pending = until(lambda: host.api("GET", "/permissions?state=pending").json["items"], "a question", PATIENCE_S)
        assert f"touch {decision}ed" in pending[0]["question"]
        assert host.api("GET", f"/sessions/{session_id}").json["status"] == "asking"
        assert host.api("POST", f"/permissions/{pending[0]['id']}", {"decision": decision}).status == 200
        ended = host.ended(asked["id"], PATIENCE_S)
        assert ended["state"] in (("answered",) if decision == "allow" else ("answered", "cancelled", "failed"))
    assert (host.work / "allowed").exists()
    assert not (host.work / "denyed").exists()

    patched = host.api("PATCH", f"/sessions/{session_id}", {"settings": {"permission_deadline_s": 1}})
    assert patched.status == 200, patched
    asked = host.post(session_id, "[[shell touch expired]] then").json
    assert host.ended(asked["id"], PATIENCE_S)["state"] in ("answered", "cancelled", "failed")
    assert not (host.work / "expired").exists()
