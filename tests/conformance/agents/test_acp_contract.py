"""The contract of agents, with real programs that speak ACP and the loopback model server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import real_acp
from antiphon.agents.acp import AcpAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.people import PeopleContract
from antiphon.testing.model_server import ModelServer
from integration.codex.talk import environment

claude_is_there = pytest.mark.skipif(real_acp.claude_missing() is not None, reason=str(real_acp.claude_missing()))


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


def peer_of(program: real_acp.Program, directory: Path, model: ModelServer, *, asks: bool = False) -> Peer:
    """How such a program is staged; `asks` says whether it asks before it acts."""
    (directory / "work").mkdir()
    return Peer(
        agent=AcpAgent("acp", program.table()),
        cwd=str(directory / "work"),
        environment=environment(directory),
        says=lambda word: f"[[verbatim]]{word}",
        holds=lambda gate, word: f"[[hold {gate}]] {word}",
        release=model.release,
        asks=(lambda question: f"[[shell touch '{question}']] [[output]]") if asks else None,
        fails=lambda reason: f"[[error 400 {reason}]]",
        stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
        spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
        recalls=lambda: "[[recall]]",
        verbatim=True,
        patience_s=real_acp.OPENING_PATIENCE_S,
    )


@claude_is_there
class TestClaudeBehindAcp(AgentContract):
    """Claude Code behind claude-agent-acp, which may do anything unasked."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return peer_of(real_acp.claude(tmp_path / "home", model.url), tmp_path, model)


@claude_is_there
class TestClaudeBehindAcpThatAsks(PeopleContract):
    """The same, asking before it acts."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return peer_of(real_acp.claude(tmp_path / "home", model.url, asks=True), tmp_path, model, asks=True)
