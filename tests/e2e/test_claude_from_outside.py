"""The real Claude Code binary behind a host, driven from outside: command line and HTTP, refusals, restarts."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from e2e.driver import Host, until
from e2e.model import Model
from e2e.stores import ON_BOTH

package = find_spec("claude_agent_sdk")
pytestmark = pytest.mark.skipif(package is None, reason="pip install 'antiphon[claude]'")

AGENT = """
[agents.claude]
adapter = "claude"
command = {command}
home = {home}
permission_mode = {mode}
[agents.claude.environment]
HOME = {home}
ANTHROPIC_BASE_URL = "{url}"
ANTHROPIC_API_KEY = "not a key"
CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1"
CLAUDE_CODE_MAX_RETRIES = "1"
IS_SANDBOX = "1"
"""
REFUSED = "a word that no model may hear"


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def configure(host: Host, model: Model, mode: str = "bypassPermissions") -> list[str]:
    """Write the configuration of an agent `claude`; the options of `serve` that name it."""
    home = host.home / "claude_home"
    home.mkdir(exist_ok=True)
    assert package is not None
    assert package.origin is not None
    command = str(Path(package.origin).parent / "_bundled" / "claude")
    config = host.home / "antiphon.toml"
    table = AGENT.format(command=json.dumps(command), home=json.dumps(str(home)), mode=json.dumps(mode), url=model.url)
    config.write_text(table)
    return ["--config", str(config)]


@ON_BOTH
def test_two_messages_a_refusal_between_them_and_a_host_that_is_killed_in_a_tool(
    quiet_host: Host, model: Model
) -> None:
    host = quiet_host
    options = configure(host, model)
    host.start(*options)
    session_id = host.session(agent="claude", key="telegram:42")

    sender, first = host.held("telegram:42", "my name is Ada")
    refused = host.cli("session", "message", "telegram:42", REFUSED, "--when-busy", "refuse")
    over_http = host.post(session_id, REFUSED, when_busy="refuse")
    assert (refused.code, refused.out) == (3, "")
    assert (over_http.status, over_http.json["holder"]["message_id"]) == (409, first["id"])
    model.release("gate")
    done = sender.finish()
    assert (done.code, done.out) == (0, "model: my name is Ada\n"), done.err

    second = host.cli("session", "message", "telegram:42", "[[recall]] who am I?", seconds=40)
    assert (second.code, second.out) == (0, "my name is Ada / who am I?model: who am I?\n"), second.err

    cut = host.post(session_id, "[[say partial]] [[shell trap '' TERM; sleep 300; sleep 300]] three").json
    until(lambda: any(event["type"] == "turn.tool_started" for event in host.events(session_id)), "a tool that runs")
    kept = host.home / "claude_home" / "projects"  # Claude Code writes its conversation down a moment later
    until(lambda: any("sleep 300" in file.read_text() for file in kept.glob("*/*.jsonl")), "the tool on the disk")
    pids = {event["data"].get("pid") for event in host.events(session_id) if event["type"] == "agent.started"}
    host.kill()
    until(lambda: not any(pid and Path(f"/proc/{pid}").exists() for pid in pids), "the end of Claude Code")
    host.start(*options)
    assert host.ended(cut["id"])["state"] == "interrupted"
    third = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=40)
    assert (third.code, third.out) == (0, "my name is Ada / who am I? / three\n"), third.err
    assert REFUSED not in model.heard()


@ON_BOTH
def test_a_cancel_a_failure_a_steer_and_a_permission_from_outside(quiet_host: Host, model: Model) -> None:
    host = quiet_host.start(*configure(quiet_host, model, "default"))
    session_id = host.session(agent="claude", key="desk")

    sender, held = host.held("desk", "never said", gate="never")
    assert host.cli("turn", "cancel", held["turn_id"]).code == 0
    assert sender.finish().code == 7
    assert host.receipt(held["id"])["state"] == "cancelled"

    failed = host.cli("session", "message", "desk", "[[error 400 no such luck]]", seconds=40)
    assert failed.code == 1
    assert "no such luck" in failed.err

    sender, _ = host.held("desk", "maple", gate="steered")
    steer = host.later("session", "message", "desk", "and birch", "--when-busy", "steer")
    until(
        lambda: len([each for each in host.events(session_id) if each["type"] == "message.accepted"]) == 4, "the steer"
    )
    model.release("steered")
    done, steered = sender.finish(), steer.finish()
    assert (done.code, steered.code) == (0, 0), done.err + steered.err
    assert done.out.startswith("model: maple\n")
    said = "".join(line["text"] for line in host.transcript(session_id) if line["role"] == "assistant")
    assert said.count("model: and birch") == 1

    asked = host.post(session_id, "[[shell touch allowed]] then").json
    pending = until(lambda: host.api("GET", "/permissions?state=pending").json["items"], "a question")
    assert "touch allowed" in pending[0]["question"]
    assert host.api("POST", f"/permissions/{pending[0]['id']}", {"decision": "allow"}).status == 200
    ended = host.ended(asked["id"])
    assert (ended["state"], ended["reply"]) == ("answered", "model: then")
    assert (host.work / "allowed").exists()
