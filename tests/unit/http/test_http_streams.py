"""Frames on the wire, the box they wait in, and waiting while a client is there."""

import asyncio
from typing import Any

import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.host.views import EventView
from antiphon.http.presence import LEAVING, Ending, Left, while_present
from antiphon.http.sse import Outbox, frame, problem_frame

EVENT = EventView(
    cursor="e:7", session_id="ses_1", generation=1, type="turn.text", at="…", data={"text": "a\nb\r\u2028"}
)


def test_a_frame_is_one_event_of_one_line_of_data() -> None:
    lines = frame(EVENT).decode().split("\n")
    assert lines[:2] == ["id: e:7", "event: turn.text"]
    assert lines[2].startswith('data: {"cursor":"e:7"')
    assert lines[3:] == ["", ""]
    assert "\r" not in lines[2]


def test_the_feed_s_cursor_is_its_own_and_an_event_without_one_has_no_id() -> None:
    assert frame(EVENT, "f:1").startswith(b"id: f:1\n")
    gap = EventView(cursor="", session_id="", generation=0, type="gap", at="", data={})
    assert frame(gap).startswith(b"event: gap\n")
    assert problem_frame(StoreUnavailable("x")).startswith(b"event: problem\ndata: {")


async def test_a_box_gives_all_that_waits_and_nothing_at_the_end() -> None:
    box = Outbox(100)
    await box.put(b"a")
    await box.put(b"b")
    assert await box.take() == b"ab"
    await box.put(b"c")
    box.end()
    assert await box.take() == b"c"
    assert await box.take() == b""


async def test_a_full_box_takes_no_more_until_it_is_emptied_and_an_empty_one_takes_anything() -> None:
    box = Outbox(3)
    await box.put(b"12345")
    waiting = asyncio.create_task(box.put(b"6"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await box.take() == b"12345"
    await asyncio.wait_for(waiting, 5)
    assert await box.take() == b"6"


async def test_a_take_that_was_given_up_loses_nothing() -> None:
    box = Outbox(10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await box.take()
    await box.put(b"a")
    assert await box.take() == b"a"


async def never() -> Any:
    """Receives nothing, for ever."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("told", [True, False], ids=["told by the server", "watched for"])
class TestWhilePresent:
    """A wait for a client: on a server that tells of its leaving, and on one that must be asked."""

    async def test_the_result_is_what_the_wait_gives(self, told: bool) -> None:
        scope = {"state": {LEAVING: Ending()}} if told else {}
        assert await while_present(asyncio.sleep(0, "x"), scope, never, Ending()) == "x"

    async def test_an_error_of_the_wait_is_its_own(self, told: bool) -> None:
        async def failing() -> None:
            raise StoreUnavailable("x")

        scope = {"state": {LEAVING: Ending()}} if told else {}
        with pytest.raises(StoreUnavailable):
            await while_present(failing(), scope, never, Ending())

    async def test_a_client_that_leaves_ends_the_waiting(self, told: bool) -> None:
        leaving, begun, ended = Ending(), asyncio.Event(), asyncio.Event()

        async def waiting() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def receive() -> dict[str, Any]:
            await begun.wait()
            return {"type": "http.disconnect"}

        scope = {"state": {LEAVING: leaving}} if told else {}
        task = asyncio.create_task(while_present(waiting(), scope, receive, Ending()))
        await begun.wait()
        leaving.happen()
        with pytest.raises(Left):
            await asyncio.wait_for(task, 5)
        assert ended.is_set()

    async def test_the_closing_of_the_door_ends_it_now_and_later(self, told: bool) -> None:
        closing = Ending()
        scope = {"state": {LEAVING: Ending()}} if told else {}
        task = asyncio.create_task(while_present(never(), scope, never, closing))
        await asyncio.sleep(0)
        closing.happen()
        assert await asyncio.wait_for(task, 5) is None
        assert await asyncio.wait_for(while_present(never(), scope, never, closing), 5) is None
