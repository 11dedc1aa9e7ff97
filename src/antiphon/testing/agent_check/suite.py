"""The contract suite for the agent that `antiphon.testing.agent_check.fault_lab` was asked to put through it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.agents.catalogue import build, kind_of
from antiphon.agents.environment import clean_environment
from antiphon.agents.loopback import loopback_of
from antiphon.testing.agent_check.subject import Subject
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.model_server import ModelServer


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server of its own for each test: a gate that was opened stays open."""
    async with ModelServer() as server:
        yield server


class TestAgent(AgentContract):
    @pytest.fixture
    def peer(self, subject: Subject, model: ModelServer, tmp_path: Path) -> Peer:
        home, work = tmp_path / "home", tmp_path / "work"
        home.mkdir()
        work.mkdir()
        kind = kind_of(subject.adapter, subject.name)
        pointed = loopback_of(kind, subject.options, model.url, home)

        def release(gate: str) -> None:
            model.release(gate)
            (work / gate).touch()

        return Peer(
            agent=build(subject.adapter, subject.name, dict(pointed.options)),
            cwd=str(work),
            place=str(tmp_path / "place"),
            environment=clean_environment({"HOME": str(home)}),
            model=pointed.model,
            says=pointed.says,
            holds=pointed.holds,
            release=release,
            asks=pointed.asks,
            fails=pointed.fails,
            dies=pointed.dies,
            stubborn=pointed.stubborn,
            late=pointed.late,
            spawns=pointed.spawns,
            recalls=pointed.recalls,
            verbatim=pointed.verbatim,
            patience_s=pointed.patience_s,
        )
