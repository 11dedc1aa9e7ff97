"""The contract of agents, with the real Codex binary and the loopback model server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.codex import CodexAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.people import PeopleContract
from antiphon.testing.model_server import ModelServer
from integration.codex.talk import codex_home, environment

pytest.importorskip("codex_cli_bin", reason="pip install 'antiphon[codex]'")


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


def codex(directory: Path, model: ModelServer, approval_policy: str) -> Peer:
    options: dict[str, Any] = {
        "home": str(codex_home(directory / "codex_home", model.url)),
        "approval_policy": approval_policy,
        "sandbox": "danger-full-access",
        "environment": {"FAKE_KEY": "not a key"},
    }
    (directory / "work").mkdir()
    return Peer(
        agent=CodexAgent("codex", options),
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
        patience_s=10,
    )


class TestCodex(AgentContract):
    """Codex that may do anything unasked."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return codex(tmp_path, model, "never")


class TestCodexThatAsks(PeopleContract):
    """Codex that asks before it acts."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return codex(tmp_path, model, "untrusted")
