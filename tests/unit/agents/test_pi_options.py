"""The configuration of a pi agent: what it may hold, and the command line and environment that come of it."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.pi import PiAgent
from antiphon.agents.pi.options import INSTALL, BadOptions, PiOptions


@pytest.mark.parametrize(
    ("table", "named"),
    [({"comand": "pi"}, "comand"), ({"tools": "bash"}, "tools"), ({"environment": {"KEY": 1}}, "environment")],
)
def test_a_wrong_option_is_named(table: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOptions, match=named):
        PiAgent("pi", table)


def test_the_command_line_says_what_the_configuration_says(tmp_path: Path) -> None:
    program = tmp_path / "pi"
    program.touch(mode=0o755)
    options = PiOptions(
        command=[str(program), "first"],
        provider="anthropic",
        model="sonnet",
        tools=["read", "grep"],
        append_system_prompt="Be brief.",
        arguments=["--no-extensions"],
    )
    line = options.command_line(None, "/place", "/place/x.jsonl")
    assert line[:4] == [str(program), "first", "--mode", "rpc"]
    assert line[4:] == [
        *"--provider anthropic --model sonnet --tools read,grep".split(),
        *("--append-system-prompt", "Be brief."),
        *"--session-dir /place --session /place/x.jsonl --no-extensions".split(),
    ]
    assert "opus" in options.command_line("opus", None, None)
    assert "--no-session" in options.command_line("opus", None, None)


def test_the_environment_has_the_home_and_what_is_configured(tmp_path: Path) -> None:
    options = PiOptions(home=str(tmp_path), environment={"KEY": "value"})
    assert options.variables({"HOME": "/home/ada"}) == {
        "HOME": "/home/ada",
        "KEY": "value",
        "PI_CODING_AGENT_DIR": str(tmp_path),
    }
    with pytest.raises(BadOptions, match="Create it"):
        PiOptions(home=str(tmp_path / "none")).variables({})


async def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert await PiAgent("pi", {}).missing() == INSTALL
    assert "is not a program" in (await PiAgent("pi", {"command": "/no/such/pi"}).missing() or "")
