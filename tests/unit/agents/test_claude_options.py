"""The configuration of a Claude Code agent: what it may hold, and the command line and environment that come of it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.claude import ClaudeAgent
from antiphon.agents.claude.options import BadOptions, ClaudeOptions


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"comand": "claude"}, "comand"),
        ({"permission_mode": "sometimes"}, "permission_mode"),
        ({"max_turns": "many"}, "max_turns"),
        ({"allowed_tools": "Bash"}, "allowed_tools"),
        ({"environment": {"KEY": 1}}, "environment"),
    ],
)
def test_a_wrong_option_is_named(table: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOptions, match=named):
        ClaudeAgent("claude", table)


def test_the_command_line_says_what_the_configuration_says(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.touch(mode=0o755)
    options = ClaudeOptions(
        command=[str(program), "first"],
        permission_mode="plan",
        allowed_tools=["Edit", "Bash(git log *)"],
        append_system_prompt="-- be brief",
        max_turns=3,
        arguments=["--add-dir", "/somewhere"],
    )
    line = options.command_line("opus", "id", resume=False)
    assert line[:3] == [str(program), "first", "-p"]
    tools = line.index("--allowedTools")
    assert line[tools : tools + 3] == ["--allowedTools", "Edit", "Bash(git log *)"]
    assert line[tools + 3 :] == [
        "--model=opus",
        "--permission-mode=plan",
        "--append-system-prompt=-- be brief",
        "--max-turns=3",
        "--session-id=id",
        "--add-dir",
        "/somewhere",
    ]
    assert options.command_line(None, "id", resume=True)[-3] == "--resume=id"


def test_the_environment_has_the_home_and_what_is_configured(tmp_path: Path) -> None:
    options = ClaudeOptions(home=str(tmp_path), environment={"KEY": "value", "LANG": "C"})
    told = {"HOME": "/home/ada", "LANG": "C.UTF-8"}
    assert options.variables(told) == {
        "HOME": "/home/ada",
        "LANG": "C",
        "KEY": "value",
        "CLAUDE_CONFIG_DIR": str(tmp_path),
    }


@pytest.mark.parametrize("command", ["/no/such/claude", []])
def test_a_command_that_is_no_program_is_told(command: str | list[str]) -> None:
    with pytest.raises(FileNotFoundError, match="is not a program"):
        ClaudeOptions(command=command).command_line(None, "id", resume=False)


def test_a_fork_resumes_another_session_up_to_a_message_under_an_id_of_its_own() -> None:
    line = ClaudeOptions(command=sys.executable).command_line(None, "new", resume=False, fork_from="old word")
    assert {"--fork-session", "--resume=old", "--resume-session-at=word", "--session-id=new"} <= set(line)
