"""Sessions with chat models for tests: the loopback model server, and an endpoint that misbehaves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.testing.fault_lab.chat import FaultyEndpoint
from antiphon.testing.model_server import ModelServer
from integration.openai.talk import Desk


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def desk(tmp_path: Path, model: ModelServer) -> AsyncIterator[Desk]:
    """Sessions with the model server."""
    desk = Desk(tmp_path, {"base_url": f"{model.url}/v1"})
    yield desk
    await desk.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[FaultyEndpoint]:
    """An endpoint that misbehaves."""
    async with FaultyEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def faulty(tmp_path: Path, endpoint: FaultyEndpoint) -> AsyncIterator[Desk]:
    """Sessions with the endpoint that misbehaves."""
    desk = Desk(tmp_path, {"base_url": endpoint.url})
    yield desk
    await desk.close()
