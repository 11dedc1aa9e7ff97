"""Codex sessions for tests: with the real binary against the loopback model server, or with a scripted one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.testing.model_server import ModelServer
from integration.codex.talk import Desk, codex_home


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def desk(tmp_path: Path, model: ModelServer) -> AsyncIterator[Desk]:
    """Sessions with the real Codex, which asks nobody and may do anything."""
    pytest.importorskip("codex_cli_bin", reason="pip install 'antiphon[codex]'")
    options = {
        "home": str(codex_home(tmp_path / "codex_home", model.url)),
        "approval_policy": "never",
        "sandbox": "danger-full-access",
        "environment": {"FAKE_KEY": "not a key"},
        "network_patience_s": 0.2,
    }
    desk = Desk(tmp_path, options)
    yield desk
    await desk.close()
