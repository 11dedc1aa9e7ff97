"""The contract of agents, with the real Claude Code binary and the loopback model server."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon.agents.claude import ClaudeAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.people import PeopleContract
from antiphon.testing.model_server import ModelServer
from integration.claude.talk import OPENING_PATIENCE_S, claude_options, environment

pytestmark = pytest.mark.skipif(find_spec("claude_agent_sdk") is None, reason="pip install 'antiphon[claude]'")


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


def claude(directory: Path, model: ModelServer, permission_mode: str) -> Peer:
    options = {
        **claude_options(directory / "claude_home", model.url),
        "permission_mode": permission_mode,
    }
    (directory / "work").mkdir()
    return Peer(
        agent=ClaudeAgent("claude", options),
        cwd=str(directory / "work"),
        environment=environment(directory),
        says=lambda word: f"[[verbatim]]{word}",
        holds=lambda gate, word: f"[[hold {gate}]] {word}",
        release=model.release,
        asks=lambda question: f"[[shell touch '{question}']] [[output]]",
        fails=lambda reason: f"[[error 400 {reason}]]",
        stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
        spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
        recalls=lambda: "[[recall]]",
        verbatim=True,
        patience_s=OPENING_PATIENCE_S,
    )


class TestClaude(AgentContract):
    """Claude Code that may do anything unasked."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return claude(tmp_path, model, "bypassPermissions")


class TestClaudeThatAsks(PeopleContract):
    """Claude Code that asks before it acts."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return claude(tmp_path, model, "default")
