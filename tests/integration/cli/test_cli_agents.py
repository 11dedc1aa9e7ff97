"""`antiphon agent check` and `antiphon config`: whether an agent is there, answers, and keeps its word."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon.testing.processes import marked, new_mark
from clientlab.running import Done, Installation

CONFIG = """
[agents.right]
adapter = "command"
command = ["cat"]
[agents.wrong]
adapter = "command"
command = ["sh", "-c", "echo no such luck >&2; exit 3"]
[agents.mute]
adapter = "command"
command = ["sleep", "300"]
[agents.absent]
adapter = "command"
command = ["no-such-program"]
[agents.secretive]
adapter = "command"
command = ["cat"]
environment = { SERVICE_TOKEN = "hush hush", COLOUR = "red" }
[agents.secretive.profiles.bold]
memory_mb = 64
"""
STEPS = ["installed", "a turn", "a second turn", "a cancel", "a resume", "nothing is left running"]


@pytest.fixture
def configured(alone: Installation) -> Installation:
    """A host with agents of all kinds."""
    alone.data.mkdir(mode=0o700)
    (alone.data / "antiphon.toml").write_text(CONFIG)
    return alone.serve()


def here(*args: str, cwd: Path, environment: dict[str, str] | None = None, seconds: float = 100) -> Done:
    """Run the command line of this interpreter, whose environment has all extras."""
    line = [sys.executable, "-m", "antiphon.cli", "--data-dir", str(cwd / "data"), *args]
    kept = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), **(environment or {})}
    done = subprocess.run(line, cwd=cwd, env=kept, capture_output=True, encoding="utf-8", timeout=seconds, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_check_runs_one_turn_and_leaves_no_session(configured: Installation) -> None:
    done = configured.run("agent", "check", "right")
    assert done.code == 0, done.err
    assert "a turn     ok" in done.out
    turn = configured.run("agent", "check", "right", "--json").json["turn"]
    assert (turn["state"], turn["reply"]) == ("answered", "Reply with the single word: ready")
    assert configured.run("session", "list", "--json").json["items"] == []


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("wrong", (), "no such luck"),
        ("mute", ("--timeout", "0.5"), "No answer within 0.5 s"),
        ("absent", (), "no program 'no-such-program'"),
    ],
)
def test_a_check_says_what_is_wrong_and_leaves_no_session(
    agent: str, options: tuple[str, ...], words: str, configured: Installation
) -> None:
    done = configured.run("agent", "check", agent, *options)
    assert done.code == 1
    assert words in done.out
    assert configured.run("session", "list", "--json").json["items"] == []


def test_a_check_without_a_turn_asks_nothing(configured: Installation) -> None:
    done = configured.run("agent", "check", "wrong", "--no-turn", "--json")
    assert done.code == 0
    assert "turn" not in done.json


def test_who_is_not_there_is_told(configured: Installation) -> None:
    for options in ((), ("--loopback",)):
        done = configured.run("agent", "check", "nobody", *options)
        assert (done.code, done.out) == (4, "")
        assert "No agent 'nobody'" in done.err


@pytest.mark.parametrize("agent", ["echo", "right"])
def test_a_loopback_check_needs_no_host_and_keeps_nothing(agent: str, configured: Installation) -> None:
    configured.stop()
    before = set(configured.data.iterdir())
    done = configured.run("agent", "check", agent, "--loopback", "--json", seconds=60)
    assert done.code == 0, done.out
    assert [step["step"] for step in done.json["steps"]] == STEPS
    assert all(step["state"] != "failed" for step in done.json["steps"])
    assert set(configured.data.iterdir()) == before


@pytest.mark.parametrize(
    ("agent", "package"),
    [
        ("codex", "codex_cli_bin"),
        ("claude", "claude_agent_sdk"),
        ("openai", "httpx2"),
    ],
)
def test_the_real_programs_go_through_the_loopback_check(agent: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"pip install 'antiphon[{agent}]'")
    mark = new_mark()
    done = here("agent", "check", agent, "--loopback", "--json", cwd=tmp_path, environment=mark)
    assert done.code == 0, done.out + done.err
    steps = json.loads(done.out)["steps"]
    assert [(step["step"], step["state"]) for step in steps] == [(step, "ok") for step in STEPS]
    assert "knows the first" in steps[2]["detail"]
    assert "knows the conversation" in steps[4]["detail"]
    assert not marked(mark)


def test_a_loopback_check_of_a_program_that_fails_says_so(configured: Installation) -> None:
    done = configured.run("agent", "check", "wrong", "--loopback", seconds=60)
    assert done.code == 1
    assert "no such luck" in done.out


PARROT = """
import asyncio
from antiphon.ports.agent import Capabilities, Ended, Exited, Text

class Agent:
    capabilities = Capabilities()
    def __init__(self, name, options): self.name = name
    async def missing(self): return None
    async def open(self, spec, resume_token): return Running()

class Running:
    pid = resume_token = None
    def __init__(self): self.queue = asyncio.Queue()
    async def prompt(self, turn_id, parts):
        self.queue.put_nowait(Text(turn_id=turn_id, text="".join(part.text or part.path for part in parts)))
        self.queue.put_nowait(Ended(turn_id=turn_id))
        ENDS
    async def steer(self, *_): pass
    async def cancel(self, *_): pass
    async def answer(self, *_): pass
    async def close(self, patience_s):
        self.queue.put_nowait(Exited(reason="closed"))
    async def said(self):
        while True:
            said = await self.queue.get()
            yield said
            if isinstance(said, Exited): return
"""


@pytest.mark.parametrize(("more", "code"), [("", 0), ("self.queue.put_nowait(Ended(turn_id=turn_id))", 1)])
def test_the_fault_lab_takes_an_adapter_of_ones_own(more: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "my_agent.py").write_text(PARROT.replace("ENDS", more or "pass"))
    done = here("agent", "check", "--fault-lab", "my_agent:Agent", "--json", cwd=tmp_path)
    assert done.code == code, done.out + done.err
    steps = json.loads(done.out)["steps"]
    assert len(steps) > 20
    failed = [step for step in steps if step["state"] == "failed"]
    assert bool(failed) == bool(code)
    assert not failed or any("ended more than once" in step["detail"] for step in failed)


def test_without_pytest_the_fault_lab_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise ImportError('no pytest here', name='pytest')")
    done = here("agent", "check", "--fault-lab", "echo", cwd=tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.out) == (1, "")
    assert "pip install 'antiphon[testing]'" in done.err


def test_the_configuration_is_shown_without_its_secrets(configured: Installation) -> None:
    found = configured.run("config", "--json", env={"ANTIPHON__HOST__MAX_AGENTS": "7"}).json
    assert found["host"] == {"max_agents": 7}
    assert found["agents"]["secretive"]["environment"] == {"SERVICE_TOKEN": "[hidden]", "COLOUR": "red"}
    assert found["agents"]["secretive:bold"]["memory_mb"] == 64
    human = configured.run("config").out
    assert str(configured.data / "antiphon.toml") in human
    assert "hush" not in human


@pytest.mark.parametrize(
    ("text", "words"),
    [("[agents.x]\nadapter = 'nonsense'", "nonsense"), ("[host]\nmax_agents = 'many'", "max_agents"), ("=", "read")],
)
def test_a_configuration_that_can_not_be_used_is_told(text: str, words: str, alone: Installation) -> None:
    path = alone.work / "broken.toml"
    path.write_text(text)
    done = alone.run("config", "--config", str(path))
    assert (done.code, done.out) == (1, "")
    assert words in done.err
