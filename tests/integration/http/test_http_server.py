"""The server's start and end."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from doubles.door import Door, events_of, opened


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """A door of one's own, to be closed."""
    async with opened(tmp_path / "data") as door:
        yield door


async def test_streams_end_and_waits_are_answered_when_the_server_stops(door: Door) -> None:
    await door.session()
    waiting = asyncio.create_task(door.send("[[hold]]", Prefer="wait=60"))
    await door.until("/v1/sessions/s", status="running")
    async with door.client.stream("GET", "/v1/sessions/s/events", headers={"Accept": "text/event-stream"}) as answer:
        pieces = answer.aiter_text()
        first = await anext(pieces)
        async with asyncio.timeout(5):
            await door.server.stop(4)
            text = first + "".join([piece async for piece in pieces])
    assert events_of(text)[0]["event"] == "session.created"
    receipt = await waiting
    assert (receipt.status_code, receipt.json()["state"]) == (202, "running")


async def test_a_request_in_flight_is_answered_before_the_end(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    class Slow:
        async def agents(self) -> tuple[()]:
            begun.set()
            await go.wait()
            return ()

    async with opened(tmp_path, service=lambda _host: Slow()) as door:
        asking = asyncio.create_task(door.client.get("/v1/agents"))
        await begun.wait()
        stopping = asyncio.create_task(door.server.stop(4))
        await asyncio.sleep(0)
        go.set()
        assert (await asking).json() == {"items": [], "next_cursor": None}
        await stopping


async def test_a_request_that_takes_too_long_is_cut_off_at_the_end(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Endless:
        async def agents(self) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with opened(tmp_path, service=lambda _host: Endless()) as door:
        asking = asyncio.create_task(door.client.get("/v1/agents"))
        await begun.wait()
        async with asyncio.timeout(5):
            await door.server.stop(0.1)
        assert ended.is_set()
        assert door.serving.done() or await asyncio.wait({door.serving}, timeout=1)
        await asyncio.wait({asking}, timeout=5)
        assert asking.done()
        asking.exception()


async def test_the_server_leaves_signals_and_the_port_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with opened(tmp_path) as door:
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
        await door.client.get("/healthz")
        await door.server.stop(1)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", door.port)) != 0


async def test_a_server_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.session()
        waiting = asyncio.create_task(door.send("[[hold]]", Prefer="wait=60"))
        await door.until("/v1/sessions/s", status="running")
        door.serving.cancel()
        await asyncio.wait({door.serving, waiting}, timeout=5)
        assert door.serving.cancelled()
        assert waiting.done()
        waiting.exception()
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", door.port)) != 0
