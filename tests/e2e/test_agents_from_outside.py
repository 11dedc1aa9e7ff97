"""What every real agent must bear, from the command line: a queue, cancels, its own death, questions, a stop.

Programs that speak ACP have a file of their own; what else there is to each adapter stands in the file of its name.
"""

import importlib.util
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import real_pi
from e2e.driver import Host, types, until
from e2e.model import Model
from e2e.stores import ON_BOTH

HERE = "[[say here]]"
IN_A_TOOL = "[[shell trap '' TERM; sleep 300; sleep 300]]"
SECONDS = 90.0


class Real(NamedTuple):
    """A real agent: its table of the configuration, and its environment."""

    table: dict[str, Any]
    environment: dict[str, str]


def claude(home: Path, url: str, *, asks: bool) -> Real:
    """Claude Code."""
    command = _package("claude_agent_sdk") / "_bundled" / "claude"
    mode = "default" if asks else "bypassPermissions"
    environment = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not a key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "IS_SANDBOX": "1",
    }
    return Real({"command": str(command), "home": str(home), "permission_mode": mode}, environment)


def codex(home: Path, url: str, *, asks: bool) -> Real:
    """Codex."""
    (home / "config.toml").write_text(
        'model = "fake-model"\nmodel_provider = "loop"\n'
        f'[model_providers.loop]\nname = "loop"\nbase_url = "{url}/v1"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n'
        "[analytics]\nenabled = false\n[features]\nplugins = false\n"
    )
    policy = {"approval_policy": "untrusted" if asks else "never", "sandbox": "danger-full-access"}
    command = next(_package("codex_cli_bin").rglob("bin/codex"))
    return Real({"command": str(command), "home": str(home), **policy}, {"HOME": str(home), "FAKE_KEY": "not a key"})


def openai(_home: Path, url: str, *, asks: bool) -> Real:
    """A chat model; it has no tools here."""
    assert not asks
    return Real({"base_url": f"{url}/v1", "model": "fake-model", "api_key_env": "", "retries": 1}, {})


def pi(home: Path, url: str, *, asks: bool) -> Real:
    """pi."""
    assert not asks
    table = real_pi.pi_table(home, url)
    return Real(table, table.pop("environment"))


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _there(build: Callable[..., Real], package: str) -> Any:
    missing = importlib.util.find_spec(package) is None
    mark = pytest.mark.skipif(missing, reason=f"pip install 'antiphon[{build.__name__}]'")
    return pytest.param(build, marks=mark, id=build.__name__)


CLAUDE, CODEX, OPENAI = _there(claude, "claude_agent_sdk"), _there(codex, "codex_cli_bin"), _there(openai, "httpx2")
PI = pytest.param(
    pi, marks=pytest.mark.skipif(real_pi.pi_missing() is not None, reason=str(real_pi.pi_missing())), id="pi"
)


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


def started(host: Host, build: Callable[..., Real], model: Model, *, asks: bool = False) -> str:
    """Start a host with this agent, and a session `desk` with it; the session's id."""
    home = host.home / "agent_home"
    home.mkdir()
    agent = build(home, model.url, asks=asks)
    name = build.__name__
    lines = [f"[agents.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in agent.table.items())]
    lines += [
        f"[agents.{name}.environment]",
        *(f"{key} = {json.dumps(value)}" for key, value in agent.environment.items()),
    ]
    config = host.home / "antiphon.toml"
    config.write_text("\n".join(lines))
    host.start("--config", str(config))
    return host.session(agent=name, key="desk")


def posted(host: Host, session_id: str, text: str, sign: str) -> dict[str, Any]:
    """Send a message, and wait until its turn shows such an event; the receipt."""
    before = types(host.events(session_id)).count(sign)
    sent = host.post(session_id, text).json
    until(lambda: types(host.events(session_id)).count(sign) > before, f"{sign} of {text!r}", SECONDS)
    return host.receipt(sent["id"])


def pid_of(host: Host, session_id: str) -> int:
    """The agent's newest process."""
    return [event["data"]["pid"] for event in host.events(session_id) if event["type"] == "agent.started"][-1]


def below(session_id: str) -> list[int]:
    """The processes that were started for a session, known by their environment."""
    mark, found = f"ANTIPHON_SESSION_ID={session_id}".encode(), list[int]()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@ON_BOTH
@pytest.mark.timeout(300)
@pytest.mark.parametrize("build", [CLAUDE, CODEX, OPENAI, PI])
def test_a_queue_cancels_in_text_and_in_a_tool_a_death_and_a_stop(
    quiet_host: Host, model: Model, build: Callable[..., Real]
) -> None:
    host = quiet_host
    session_id = started(host, build, model)

    sender, _ = host.held("desk", "my name is Ada", seconds=SECONDS)
    queued = host.later("session", "message", "desk", "[[recall]] who am I?")
    until(lambda: types(host.events(session_id)).count("message.accepted") == 2, "the second message", SECONDS)
    model.release("gate")
    first, second = sender.finish(SECONDS), queued.finish(SECONDS)
    assert (first.code, first.out) == (0, "model: my name is Ada\n"), first.err
    assert (second.code, second.out) == (0, "my name is Ada / who am I?model: who am I?\n"), second.err

    cut = posted(host, session_id, f"{HERE} [[hold never]] two", "turn.text")
    assert host.cli("turn", "cancel", cut["turn_id"], seconds=SECONDS).code == 0
    ended = host.ended(cut["id"], SECONDS)
    assert (ended["state"], ended["reply"]) == ("cancelled", "here")
    if build is not openai:
        cut = posted(host, session_id, f"{IN_A_TOOL} three", "turn.tool_started")
        assert host.cli("turn", "cancel", cut["turn_id"], seconds=SECONDS).code == 0
        assert host.ended(cut["id"], SECONDS)["state"] == "cancelled"

    cut = posted(host, session_id, f"{HERE} [[hold never]] four", "turn.text")
    os.kill(pid_of(host, session_id), signal.SIGKILL)
    ended = host.ended(cut["id"], SECONDS)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "agent_failed")
    after = host.cli("session", "message", "desk", "[[recall]]", seconds=SECONDS)
    assert after.code == 0, after.err
    assert after.out.startswith("my name is Ada / who am I?")

    posted(host, session_id, f"{HERE} [[hold never]] five" if build is openai else f"{IN_A_TOOL} five", "turn.started")
    pid = pid_of(host, session_id)
    assert host.cli("session", "stop", "desk", seconds=SECONDS).code == 0
    assert not Path(f"/proc/{pid}").exists()
    until(lambda: not below(session_id), "the end of everything that was started for it", SECONDS)


@ON_BOTH
@pytest.mark.timeout(200)
@pytest.mark.parametrize("build", [CLAUDE, CODEX])
def test_a_question_is_allowed_denied_and_expires(quiet_host: Host, model: Model, build: Callable[..., Real]) -> None:
    host = quiet_host
    session_id = started(host, build, model, asks=True)

    for decision in ("allow", "deny"):
        asked = host.later("session", "message", "desk", f"[[shell touch {decision}ed]] then")
        pending = until(lambda: host.api("GET", "/permissions?state=pending").json["items"], "a question", SECONDS)
        assert f"touch {decision}ed" in pending[0]["question"]
        assert host.api("GET", f"/sessions/{session_id}").json["status"] == "asking"
        assert host.cli("permission", decision, pending[0]["id"], seconds=SECONDS).code == 0
        done = asked.finish(SECONDS)
        assert done.code in ((0,) if decision == "allow" else (0, 1, 7)), done.err
    assert (host.work / "allowed").exists()
    assert not (host.work / "denyed").exists()

    patched = host.api("PATCH", f"/sessions/{session_id}", {"settings": {"permission_deadline_s": 1}})
    assert patched.status == 200, patched
    asked = host.later("session", "message", "desk", "[[shell touch expired]] then")
    assert asked.finish(SECONDS).code in (0, 1, 7)
    assert not (host.work / "expired").exists()
    answered = [event["data"] for event in host.events(session_id) if event["type"] == "permission.answered"]
    assert [(each["decision"], each["by"]) for each in answered][1:] == [("deny", "local"), ("deny", "policy")]
    after = host.cli("session", "message", "desk", "and on", seconds=SECONDS)
    assert (after.code, after.out) == (0, "model: and on\n"), after.err
