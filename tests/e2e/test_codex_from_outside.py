"""The real Codex binary behind a host, driven from outside: command line and HTTP, refusals, restarts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.driver import Host, until
from e2e.model import Model
from e2e.stores import ON_BOTH

codex_cli_bin = pytest.importorskip("codex_cli_bin", reason="pip install 'antiphon[codex]'")

CODEX_HOME = """
model = "fake-model"
model_provider = "loop"
[model_providers.loop]
name = "loop"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
"""
AGENT = """
[agents.codex]
adapter = "codex"
command = {command}
home = {home}
approval_policy = {policy}
sandbox = "danger-full-access"
environment = {{ FAKE_KEY = "not a key", HOME = {home} }}
"""
REFUSED = "a word that no model may hear"


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def configure(host: Host, model: Model, policy: str = "never") -> list[str]:
    """Write the configuration of an agent `codex`; the options of `serve` that name it."""
    home = host.home / "codex_home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CODEX_HOME.format(url=model.url))
    command = str(codex_cli_bin.bundled_codex_path())
    table = AGENT.format(command=json.dumps(command), home=json.dumps(str(home)), policy=json.dumps(policy))
    config = host.home / "antiphon.toml"
    config.write_text(table)
    return ["--config", str(config)]


@ON_BOTH
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_two_messages_a_refusal_between_them_and_a_restart(quiet_host: Host, model: Model, end: str) -> None:
    host = quiet_host
    options = configure(host, model)
    host.start(*options)
    session_id = host.session(agent="codex", key="telegram:42")

    sender, first = host.held("telegram:42", "my name is Ada")
    at_the_desk = host.cli("session", "message", "telegram:42", REFUSED, "--when-busy", "refuse")
    over_http = host.post(session_id, REFUSED, when_busy="refuse")
    assert (at_the_desk.code, at_the_desk.out) == (3, "")
    assert (over_http.status, over_http.json["code"]) == (409, "session_busy")
    assert over_http.json["holder"]["message_id"] == first["id"]
    assert sender.poll() is None
    model.release("gate")
    done = sender.finish()
    assert (done.code, done.out) == (0, "model: my name is Ada\n"), done.err

    second = host.api(
        "POST", f"/sessions/{session_id}/messages", {"text": "[[recall]] who am I?"}, Prefer="wait=20"
    ).json
    assert (second["state"], second["reply"]) == ("answered", "my name is Ada / who am I?model: who am I?")
    assert second["turn_id"] != first["turn_id"]
    assert second["usage"]["input_tokens"] > 0

    if end == "stopped":
        assert host.stop() == 0
    else:
        host.kill()
    host.start(*options)
    third = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=40)
    assert (third.code, third.out) == (0, "my name is Ada / who am I?\n"), third.err

    replies = [line["text"] for line in host.transcript(session_id) if line["role"] == "assistant"]
    assert replies == [
        "model: my name is Ada",
        "my name is Ada / who am I?model: who am I?",
        "my name is Ada / who am I?",
    ]
    assert REFUSED not in model.heard()
    assert REFUSED not in json.dumps(host.events(session_id))


@ON_BOTH
def test_a_host_that_is_killed_in_the_middle_of_a_turn_leaves_no_codex_and_the_session_goes_on(
    quiet_host: Host, model: Model
) -> None:
    host = quiet_host
    options = configure(host, model)
    host.start(*options)
    session_id = host.session(agent="codex", key="desk")
    assert host.cli("session", "message", "desk", "one").out == "model: one\n"
    cut = host.post(session_id, "[[say partial]] [[shell sleep 300]] two").json

    def in_the_tool() -> bool:
        return any(event["type"] == "turn.tool_started" for event in host.events(session_id))

    until(in_the_tool, "a tool that runs")
    pids = {event["data"].get("pid") for event in host.events(session_id) if event["type"] == "agent.started"}
    host.kill()
    until(lambda: not any(pid and _runs(pid) for pid in pids), "the end of Codex")
    host.start(*options)
    assert host.ended(cut["id"])["state"] == "interrupted"
    third = host.cli("session", "message", "desk", "[[recall]]", seconds=40)
    assert (third.code, third.out) == (0, "one / two\n"), third.err


@ON_BOTH
def test_a_cancel_a_failure_and_a_steer_from_outside(quiet_host: Host, model: Model) -> None:
    host = quiet_host.start(*configure(quiet_host, model))
    host.session(agent="codex", key="desk")

    sender, held = host.held("desk", "never said", gate="never")
    assert host.cli("turn", "cancel", held["turn_id"]).code == 0
    assert sender.finish().code == 7
    assert host.receipt(held["id"])["state"] == "cancelled"

    failed = host.cli("session", "message", "desk", "[[error 400 no such luck]]")
    assert failed.code == 1
    assert "no such luck" in failed.err

    sender, _ = host.held("desk", "maple", gate="steered")
    steer = host.later("session", "message", "desk", "and birch", "--when-busy", "steer")
    until(lambda: "and birch" in model.heard(), "the steer to reach the model")
    model.release("steered")
    done = sender.finish()
    assert (done.code, done.out) == (0, "model: maplemodel: and birch\n")
    assert steer.finish().code == 0


@ON_BOTH
def test_a_permission_is_asked_and_answered_from_outside(quiet_host: Host, model: Model) -> None:
    host = quiet_host.start(*configure(quiet_host, model, "untrusted"))
    session_id = host.session(agent="codex", key="desk")
    asked = host.post(session_id, "[[shell touch allowed]] then").json

    pending = until(lambda: host.api("GET", "/permissions?state=pending").json["items"], "a question")
    assert "touch allowed" in pending[0]["question"]
    assert host.api("POST", f"/permissions/{pending[0]['id']}", {"decision": "allow"}).status == 200
    ended = host.ended(asked["id"])
    assert (ended["state"], ended["reply"]) == ("answered", "model: then")
    assert (host.work / "allowed").exists()


def test_codex_is_among_the_agents_with_what_it_can_do(quiet_host: Host, model: Model) -> None:
    host = quiet_host.start(*configure(quiet_host, model))
    [codex] = [agent for agent in host.api("GET", "/agents").json["items"] if agent["name"] == "codex"]
    told = json.dumps(codex)
    assert all(word in told for word in ("steer", "interrupt", "resume", "usage"))
    assert host.cli("agent", "check", "codex").code == 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "codex"
    except OSError:
        return False
