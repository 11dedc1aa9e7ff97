"""The contract of agents, with the `openai` adapter and the loopback model server."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.openai import OpenAIAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.people import PeopleContract
from antiphon.testing.model_server import ModelServer
from integration.openai.talk import environment, lab

PATIENCE_S = 30.0


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


def peer_of(directory: Path, model: ModelServer, **options: Any) -> Peer:
    (directory / "work").mkdir()
    tools = "mcp" in options
    table = {"base_url": f"{model.url}/v1", "api_key_env": "", "model": "fake-model", "retries": 1, **options}
    return Peer(
        agent=OpenAIAgent("openai", table),
        cwd=str(directory / "work"),
        environment=environment(directory),
        place=str(directory / "place"),
        says=lambda word: f"[[verbatim]]{word}",
        holds=lambda gate, word: f"[[hold {gate}]] {word}",
        release=model.release,
        asks=(lambda question: f'[[tool lab__say {{"text": "{question}"}}]] [[output]]') if tools else None,
        fails=lambda reason: f"[[error 400 {reason}]]",
        stubborn=(lambda _: "[[say here]] [[tool lab__hang]] never said") if tools else None,
        spawns=(lambda: "[[tool lab__spawn]] spawned") if tools else None,
        recalls=lambda: "[[recall]]",
        verbatim=True,
        patience_s=PATIENCE_S,
    )


class TestOpenAI(AgentContract):
    """A chat model without tools."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return peer_of(tmp_path, model)


@pytest.mark.skipif(find_spec("mcp") is None, reason="pip install 'antiphon[mcp]'")
class TestOpenAIWithTools(PeopleContract):
    """A chat model whose tools are an MCP server's, and that asks before it calls one."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        return peer_of(tmp_path, model, mcp={"lab": lab()})
