"""Lines are framed on the byte \\n, whatever the pieces in which they come."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.agents.pipes import HEAD, Overlong, PipeReader, PipeSink, PipeWriter, framed


class Pieces(PipeReader):
    """A reader that gives out prepared pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = [piece for piece in pieces if piece]

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


async def gathered(lines: AsyncIterator[bytes | Overlong]) -> list[bytes | Overlong]:
    return [line async for line in lines]


def lines_of(*pieces: bytes, limit: int = 1 << 20) -> list[bytes | Overlong]:
    return asyncio.run(gathered(framed(Pieces(*pieces), limit)))


def test_only_the_newline_byte_ends_a_line():
    text = "a\u2028b\u2029c\x85d\r\x0be\x0c\x1cf\0g\n\nlast".encode()
    assert lines_of(text) == ["a\u2028b\u2029c\x85d\r\x0be\x0c\x1cf\0g".encode(), b"", b"last"]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 60))
def test_the_cuts_between_reads_change_nothing(data: bytes, cuts: list[int], limit: int):
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    whole = data.split(b"\n")
    expected = [
        line if len(line) <= limit else Overlong(len(line), line[:HEAD])
        for line in (whole if whole[-1] else whole[:-1])
    ]
    assert lines_of(*pieces, limit=limit) == expected


def test_a_line_over_the_limit_is_told_and_the_next_one_is_read():
    lines = lines_of(b"head" + b"x" * 5000, b"y" * 5000 + b"\nnext\n", b"z" * 10_000, limit=4096)
    assert lines == [
        Overlong(10_004, b"head" + b"x" * (HEAD - 4)),
        b"next",
        Overlong(10_000, b"z" * HEAD),
    ]


async def test_a_cancelled_read_loses_no_byte():
    reading, writing = os.pipe()
    reader = PipeReader(reading)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(), 0.02)
    os.write(writing, b"kept")
    assert await asyncio.wait_for(reader.read(), 5) == b"kept"
    os.close(writing)
    assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_finishing_wakes_the_reader_and_keeps_what_was_in_the_pipe():
    reading, writing = os.pipe()
    reader = PipeReader(reading)
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.write(writing, b"last words")
    reader.finish()
    assert await asyncio.wait_for(waiting, 5) == b"last words"
    assert await reader.read() == b""
    os.close(writing)


async def test_a_writer_takes_all_or_nothing_and_never_waits():
    reading, writing = os.pipe()
    writer = PipeWriter(writing, limit=1 << 20)
    assert writer.write(b"a" * 900_000)
    assert not writer.write(b"b" * 900_000), "over the limit"
    assert writer.write(b"c" * 10)
    writer.end()
    assert not writer.write(b"d")
    reader = PipeReader(reading)
    received = b""
    while piece := await asyncio.wait_for(reader.read(), 5):
        received += piece
    assert received == b"a" * 900_000 + b"c" * 10


async def test_a_writer_whose_reader_is_gone_says_so():
    reading, writing = os.pipe()
    writer = PipeWriter(writing, limit=1 << 20)
    os.close(reading)
    assert not writer.write(b"nobody hears this")
    assert not writer.write(b"nor this")
    writer.close()


async def test_a_sink_takes_in_everything_and_tells_the_end():
    reading, writing = os.pipe()
    took: list[bytes] = []
    ended = asyncio.Event()
    PipeSink(reading, took.append, ended.set)
    os.write(writing, b"some")
    os.close(writing)
    await asyncio.wait_for(ended.wait(), 5)
    assert b"".join(took) == b"some"
