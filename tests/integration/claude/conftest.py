"""Claude Code sessions for tests: with the real binary against the loopback model server."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon.testing.model_server import ModelServer
from integration.claude.talk import Desk, claude_options


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def desk(tmp_path: Path, model: ModelServer) -> AsyncIterator[Desk]:
    """Sessions with the real Claude Code, which asks nobody and may do anything."""
    if find_spec("claude_agent_sdk") is None:
        pytest.skip("pip install 'antiphon[claude]'")
    desk = Desk(tmp_path, claude_options(tmp_path / "claude_home", model.url))
    yield desk
    await desk.close()
