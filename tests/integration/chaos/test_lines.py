"""The lines that chaos breaks: refused, silent and deaf, for as long as there is a reason."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

import pytest

from antiphon.testing.chaos.lines import Way
from antiphon.testing.cut_line import CutLine

PATIENCE_S = 30.0


@pytest.fixture
async def way() -> AsyncIterator[Way]:
    """A way to a server that says back what it hears."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(100):
                writer.write(data)
        writer.transport.abort()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with CutLine("127.0.0.1", server.sockets[0].getsockname()[1]) as line:
        yield Way(line)
    server.close()


class Caller:
    """Somebody on the line, who is gone after the block."""

    def __init__(self, way: Way) -> None:
        self._way = way

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._way.line.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    def say(self, word: bytes) -> None:
        self._writer.write(word)

    async def hears(self) -> bytes:
        """What comes next; nothing when the line is cut."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._reader.read(100)
            except ConnectionError:
                return b""


async def test_a_line_that_is_shut_refuses_until_the_last_reason_is_gone(way: Way) -> None:
    async with Caller(way) as caller:
        caller.say(b"a")
        assert await caller.hears() == b"a"
        way.shut("one")
        way.shut("other")
        assert await caller.hears() == b""
    await way.mend("one")
    with pytest.raises(ConnectionRefusedError):
        async with Caller(way):
            pass
    await way.mend("other")
    async with Caller(way) as again:
        again.say(b"b")
        assert await again.hears() == b"b"


@pytest.mark.parametrize("deliver", [True, False])
async def test_what_was_silent_arrives_late_or_is_cut(way: Way, deliver: bool) -> None:
    async with Caller(way) as caller:
        caller.say(b"a")
        assert await caller.hears() == b"a"
        way.silence("why")
        caller.say(b"b")
        async with Caller(way) as newcomer:
            newcomer.say(b"c")
            waits = [asyncio.ensure_future(each.hears()) for each in (caller, newcomer)]
            done, _ = await asyncio.wait(waits, timeout=0.2)
            assert not done
            await way.mend("why", deliver=deliver)
            assert await asyncio.gather(*waits) == ([b"b", b"c"] if deliver else [b"", b""])


async def test_a_deaf_line_takes_in_and_gives_nothing_back(way: Way) -> None:
    async with Caller(way) as caller:
        way.deafen(deaf=True)
        caller.say(b"a")
        unheard = asyncio.ensure_future(caller.hears())
        done, _ = await asyncio.wait({unheard}, timeout=0.2)
        assert not done
        way.deafen(deaf=False)
        assert await unheard == b""
