"""The contract of agents, with the real pi and the loopback model server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.agents.pi import PiAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.model_server import ModelServer
from integration.codex.talk import environment
from real_pi import OPENING_PATIENCE_S, pi_missing, pi_table

pytestmark = pytest.mark.skipif(pi_missing() is not None, reason=str(pi_missing()))


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


class TestPi(AgentContract):
    """pi, which asks nobody."""

    @pytest.fixture
    def peer(self, tmp_path: Path, model: ModelServer) -> Peer:
        (tmp_path / "work").mkdir()
        return Peer(
            agent=PiAgent("pi", pi_table(tmp_path / "pi_home", model.url)),
            cwd=str(tmp_path / "work"),
            environment=environment(tmp_path),
            place=str(tmp_path / "place"),
            says=lambda word: f"[[verbatim]]{word}",
            holds=lambda gate, word: f"[[hold {gate}]] {word}",
            release=model.release,
            fails=lambda reason: f"[[error 400 {reason}]]",
            stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
            spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
            recalls=lambda: "[[recall]]",
            verbatim=True,
            patience_s=OPENING_PATIENCE_S,
        )
