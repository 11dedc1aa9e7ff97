"""What the configuration says of an agent holds for its real processes."""

import json
import sys

import pytest

from antiphon.testing.processes import alive
from clientlab.running import Installation, until

GREEDY = """
import os, sys, time
if not os.fork():
    os.setsid()
    open("greedy.pid", "w").write(str(os.getpid()))
    held = [bytearray(b"x" * (8 << 20)) for _ in range(30)]
    time.sleep(300)
time.sleep(300)
"""
LOUD = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
HEIR = "import os; print(os.environ.get('SERVICE_KEY'), os.environ.get('OTHER'))"
SHY = "import sys; sys.stderr.write('x' * 100_000 + ' key sk-ABCDEFGHIJKLMNOP0123456789 and ' + 'y' * 200); sys.exit(4)"


def table(name: str, source: str, more: str = "") -> str:
    command = json.dumps([sys.executable, "-I", "-S", "-c", source])
    return f'[agents.{name}]\nadapter = "command"\ncommand = {command}\n{more}\n'


@pytest.fixture(scope="module")
def house(antiphon_command: str, tmp_path_factory: pytest.TempPathFactory):
    installation = Installation(antiphon_command, tmp_path_factory.mktemp("limits"))
    installation.data.mkdir(mode=0o700)
    text = table("greedy", GREEDY, "memory_mb = 100") + table("loud", LOUD, "output_mb = 0.5")
    text += table("busy", "while True: pass") + table("mute", "import time; time.sleep(300)")
    text += table("heir", HEIR, 'inherit = ["SERVICE_KEY"]') + table("shy", SHY)
    text += (
        '[agents.echo]\nallow_tools = ["as*"]\n[agents.echo.profiles.strict]\nallow_tools = []\ndeny_tools = ["ask"]\n'
    )
    (installation.data / "antiphon.toml").write_text(text)
    installation.environment |= {"SERVICE_KEY": "hush-hush", "OTHER": "not for agents"}
    try:
        yield installation.serve()
    finally:
        installation.close()


def test_a_tree_that_uses_too_much_memory_fails_its_turn_and_is_gone(house: Installation) -> None:
    done = house.run("session", "message", "greedy", "go", "--agent", "greedy", seconds=60)
    assert done.code == 1
    assert "more than `memory_mb` allows" in done.err
    pid = int((house.work / "greedy.pid").read_text())
    until(lambda: not alive(pid), "end of the grandchild")


def test_a_turn_that_says_too_much_fails_and_keeps_what_was_said(house: Installation) -> None:
    done = house.run("session", "message", "loud", "go", "--agent", "loud", "--json", seconds=60)
    assert done.code == 1
    receipt = done.json
    assert (receipt["state"], receipt["error"]["code"]) == ("failed", "agent_failed")
    assert "output_mb" in receipt["error"]["detail"]
    assert 0 < len(receipt["reply"]) <= 512 * 1024


def test_a_program_that_works_in_silence_is_not_stalled_and_one_that_does_nothing_is(house: Installation) -> None:
    def status(key: str) -> str:
        return house.run("session", "show", key, "--json").json["status"]

    for key in ("busy", "mute"):
        house.run("session", "start", key, "--agent", key, "--setting", "stall_after_s=2")
        house.run("session", "message", key, "go", "--no-wait")
    until(lambda: status("mute") == "stalled", "the stalled one")
    assert status("busy") == "running"
    assert "mute" in house.run("status").out
    for key in ("busy", "mute"):
        house.run("session", "stop", key)


def test_an_agent_inherits_what_it_is_told_to_and_nothing_else(house: Installation) -> None:
    assert house.run("session", "message", "heir", "go", "--agent", "heir").out == "hush-hush None\n\n"


def test_stderr_goes_with_the_error_bounded_and_without_secrets(house: Installation) -> None:
    done = house.run("session", "message", "shy", "go", "--agent", "shy")
    assert done.code == 1
    assert "[redacted]" in done.err
    assert "sk-ABC" not in done.err
    assert len(done.err) < 6000


def test_policy_answers_at_once_by_the_lists_of_an_agent_and_its_profile(house: Installation) -> None:
    text = "[[ask May I?]] done"
    allowed = house.run("session", "message", "free", text, "--agent", "echo", "--stream")
    assert (allowed.code, allowed.out) == (0, "echo: done\n")
    assert "The policy here answered perm_" in allowed.err
    denied = house.run("session", "message", "strict", text, "--agent", "echo:strict")
    assert denied.code == 0
    found = house.run("permission", "list", "--state", "all", "--json").json["items"]
    assert {(each["session_key"], each["state"], each["by"]) for each in found} == {
        ("free", "allowed", "policy"),
        ("strict", "denied", "policy"),
    }


def test_settings_of_a_session_are_checked(house: Installation) -> None:
    for setting in ('allow_tools="all"', "deny_tools=[1]", 'permission_default="maybe"', "permission_deadline_s=-1"):
        done = house.run("session", "start", "--agent", "echo", "--setting", setting)
        assert (done.code, done.out) == (2, ""), setting
        assert setting.partition("=")[0] in done.err
