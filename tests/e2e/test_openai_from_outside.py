"""A chat model behind a host, driven from outside: command line and HTTP, tools, refusals, deaths, restarts."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.driver import Host, until
from e2e.model import Model

LAB = Path(__file__).parent.parent / "doubles" / "mcp_lab.py"
AGENT = """
[host]
permission_deadline_s = {deadline_s}
[agents.chat]
adapter = "openai"
base_url = "{url}/v1"
model = "fake-model"
api_key_env = ""
retries = 1
approve = ["lab.hang", "lab.spawn"]
[agents.chat.mcp.lab]
command = {command}
"""
REFUSED = "a word that no model may hear"
SECONDS = 60


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def configure(host: Host, model: Model, deadline_s: float = 0) -> list[str]:
    """Write the configuration of an agent `chat`; the options of `serve` that name it."""
    config = host.home / "antiphon.toml"
    command = json.dumps([sys.executable, "-S", str(LAB)])
    config.write_text(AGENT.format(url=model.url, command=command, deadline_s=deadline_s))
    return ["--config", str(config)]


def agents(host: Host, session_id: str) -> list[int]:
    """The processes that the session's agent has been, oldest first."""
    return [event["data"]["pid"] for event in host.events(session_id) if event["type"] == "agent.started"]


def until_event(host: Host, session_id: str, kind: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait for so many events of a kind."""

    def seen() -> list[dict[str, Any]] | None:
        found = [event for event in host.events(session_id) if event["type"] == kind]
        return found if len(found) >= count else None

    return until(seen, f"{count} times {kind}", SECONDS)


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_two_messages_a_refusal_and_a_queue_between_them_and_deaths_of_agent_and_host(
    quiet_host: Host, model: Model
) -> None:
    host = quiet_host
    options = configure(host, model)
    host.start(*options)
    session_id = host.session(agent="chat", key="telegram:42")

    sender, first = host.held("telegram:42", "my name is Ada")
    refused = host.cli("session", "message", "telegram:42", REFUSED, "--when-busy", "refuse")
    over_http = host.post(session_id, REFUSED, when_busy="refuse")
    assert (refused.code, refused.out) == (3, "")
    assert (over_http.status, over_http.json["holder"]["message_id"]) == (409, first["id"])
    queued = host.later("session", "message", "telegram:42", "[[recall]] who am I?")
    until_event(host, session_id, "message.accepted", 2)
    model.release("gate")
    done, second = sender.finish(SECONDS), queued.finish(SECONDS)
    assert (done.code, done.out) == (0, "model: my name is Ada\n"), done.err
    assert (second.code, second.out) == (0, "my name is Ada / who am I?model: who am I?\n"), second.err

    killed = host.post(session_id, "[[say partial]] [[hold never]] three").json
    until_event(host, session_id, "turn.text", 1)
    until(lambda: "partial" in json.dumps(host.events(session_id)[-1]), "the first word", SECONDS)
    os.kill(agents(host, session_id)[-1], signal.SIGKILL)
    ended = host.ended(killed["id"], SECONDS)
    assert (ended["state"], ended["error"]["code"], ended["reply"]) == ("failed", "agent_failed", "partial")
    third = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=SECONDS)
    assert (third.code, third.out) == (0, "my name is Ada / who am I? / three\n"), third.err

    tool = host.post(session_id, "[[tool lab__spawn]] [[say on it]] [[tool lab__hang]] four").json
    pids = [int(pid) for pid in until_event(host, session_id, "turn.tool_ended")[-1]["data"]["output"].split()]
    until_event(host, session_id, "turn.tool_started", 2)
    pids.append(agents(host, session_id)[-1])
    host.kill()
    until(lambda: all(map(gone, pids)), "the end of the agent and all below it", SECONDS)
    host.start(*options)
    assert host.ended(tool["id"], SECONDS)["state"] == "interrupted"
    last = host.cli("session", "message", "telegram:42", "[[recall]]", seconds=SECONDS)
    assert (last.code, last.out) == (0, "my name is Ada / who am I? / three / four\n"), last.err
    assert REFUSED not in model.heard()

    forked = host.cli("session", "fork", "telegram:42", "branch", seconds=SECONDS)
    assert forked.code == 0, forked.err
    branch = host.cli("session", "message", "branch", "[[recall]]", seconds=SECONDS)
    assert (branch.code, branch.out) == (0, "my name is Ada / who am I? / three / four\n"), branch.err

    for key in ("branch", "telegram:42"):
        assert host.cli("session", "delete", key, seconds=SECONDS).code == 0
    until(lambda: not list((host.data / "conversations").iterdir()), "the end of what was kept", SECONDS)


def test_cancels_a_failure_a_steer_and_permissions_from_outside(quiet_host: Host, model: Model) -> None:
    host = quiet_host.start(*configure(quiet_host, model))
    session_id = host.session(agent="chat", key="desk")

    sender, held = host.held("desk", "never said", gate="never")
    assert host.cli("turn", "cancel", held["turn_id"], seconds=SECONDS).code == 0
    assert sender.finish(SECONDS).code == 7
    tool = host.post(session_id, "[[say half]] [[tool lab__hang]] never").json
    until_event(host, session_id, "turn.tool_started")
    cancelled = host.api("POST", f"/turns/{host.receipt(tool['id'])['turn_id']}/cancel").json
    assert (cancelled["state"], cancelled["confirmed"]) == ("cancelled", True)
    assert host.receipt(tool["id"])["reply"] == "half"
    assert len(agents(host, session_id)) == 1, "neither took the process"

    failed = host.cli("session", "message", "desk", "[[error 400 no such luck]]", seconds=SECONDS)
    assert failed.code == 1
    assert "no such luck" in failed.err

    sender, _ = host.held("desk", "maple", gate="steered")
    steer = host.later("session", "message", "desk", "and birch", "--when-busy", "steer")
    until_event(host, session_id, "message.accepted", 5)
    model.release("steered")
    done, steered = sender.finish(SECONDS), steer.finish(SECONDS)
    assert (done.code, steered.code) == (0, 0), done.err + steered.err

    for decision, out in (("allow", "touched one"), ("deny", "This call was denied.")):
        asked = host.post(session_id, '[[tool lab__touch {"text": "one"}]] [[output]]').json
        pending = until(lambda: host.api("GET", "/permissions?state=pending").json["items"], "a question", SECONDS)
        assert pending[0]["tool"] == "lab.touch"
        assert host.cli("permission", decision, pending[0]["id"]).code == 0
        ended = host.ended(asked["id"], SECONDS)
        assert (ended["state"], ended["reply"][: len(out)]) == ("answered", out)

    pid = agents(host, session_id)[-1]
    assert host.cli("session", "stop", "desk", seconds=SECONDS).code == 0
    assert gone(pid)


def test_a_question_that_nobody_answers_is_answered_by_policy(quiet_host: Host, model: Model) -> None:
    """hermes-agent#108488"""
    host = quiet_host.start(*configure(quiet_host, model, deadline_s=1))
    session_id = host.session(agent="chat")
    done = host.cli("session", "message", session_id, '[[tool lab__touch {"text": "x"}]] [[output]]', seconds=SECONDS)
    assert (done.code, "Nobody answered before the deadline." in done.out) == (0, True), done
    assert not (host.work / "x").exists()
    (answered,) = [event["data"] for event in host.events(session_id) if event["type"] == "permission.answered"]
    assert (answered["decision"], answered["by"]) == ("deny", "policy")
