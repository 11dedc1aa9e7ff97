"""Events as a viewer wants them: certain types, backwards, large ones by reference."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from doubles.door import Door, events_of

EVENTS = "/v1/sessions/s/events"
STREAM = {"Accept": "text/event-stream"}


async def page(door: Door, path: str = EVENTS, **query: Any) -> dict[str, Any]:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    answer = await door.client.get(f"{path}?{text}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def kinds(events: list[dict[str, Any]]) -> set[str]:
    return {event["type"] for event in events}


async def spoken(door: Door) -> list[dict[str, Any]]:
    """A session with two turns of 30 pieces; all its events."""
    await door.session()
    for _ in range(2):
        await door.send("[[stream 30]]", Prefer="wait=5")
    return (await page(door, limit=1000))["items"]


async def test_a_page_of_certain_types_has_all_of_them_in_order(door: Door) -> None:
    every = await spoken(door)
    wanted = [event for event in every if event["type"] == "turn.ended" or event["type"].startswith("message.")]
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        query = {"types": "turn.ended,message.*", "limit": 2} | ({"after": after} if after else {})
        told = await page(door, **query)
        assert len(told["items"]) <= 2
        found += told["items"]
        after = told["next_cursor"]
        if after is None:
            break
    assert found == wanted


async def test_a_stream_of_certain_types_tells_these_and_the_end(door: Door) -> None:
    await spoken(door)
    async with door.client.stream("GET", f"{EVENTS}?types=turn.started,turn.ended", headers=STREAM) as answer:
        await door.client.delete("/v1/sessions/s")
        events = events_of("".join([piece async for piece in answer.aiter_text()]))
    assert [event["event"] for event in events] == ["turn.started", "turn.ended"] * 2 + ["session.deleted"]


async def test_the_feed_tells_certain_types_of_all_sessions(door: Door) -> None:
    start = (await page(door, "/v1/events"))["next_cursor"]
    await spoken(door)
    told = await page(door, "/v1/events", after=start, types="message.ended", limit=1000)
    assert kinds(told["items"]) == {"message.ended"}
    assert len(told["items"]) == 2
    path = f"/v1/events?after={quote(start)}&types=session.deleted"
    async with asyncio.timeout(5), door.client.stream("GET", path, headers=STREAM) as answer:
        await door.client.delete("/v1/sessions/s")
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if events := events_of(text):
                assert events[0]["event"] == "session.deleted"
                return


async def test_pages_go_backwards_from_the_end_to_the_first_event(door: Door) -> None:
    every = await spoken(door)
    found: list[dict[str, Any]] = []
    before: str | None = "end"
    while before:
        told = await page(door, before=before, limit=7)
        found[:0] = told["items"]
        before = told["next_cursor"]
    assert found == every


async def test_a_cursor_of_another_journal_leads_back_from_the_end_after_a_gap(door: Door) -> None:
    every = await spoken(door)
    told = (await page(door, before="other:3", limit=5))["items"]
    assert [event["type"] for event in told[:2]] == ["gap", "snapshot"]
    assert told[2:] == every[-5:]


async def test_a_large_event_comes_by_reference_and_is_there_whole(door: Door) -> None:
    await door.session()
    await door.send("x" * 5000, Prefer="wait=5")
    for told in (await page(door, inline_max=1000), await page(door, before="end", inline_max=1000)):
        (accepted,) = [event for event in told["items"] if event["type"] == "message.accepted"]
        assert "text" not in accepted["data"]
        assert accepted["data"]["when_busy"] == "queue", "what is short stays"
        assert accepted["data"]["bytes"] > 5000
        whole = (await door.client.get(accepted["data"]["ref"])).json()
        assert whole["data"]["text"] == "x" * 5000
        assert whole["cursor"] == accepted["cursor"]
    small = [event for event in (await page(door, inline_max=1000))["items"] if event["type"] == "session.created"]
    assert "agent" in small[0]["data"]


@pytest.mark.parametrize("sequence", ["0", "99999", "x", "-1", "9" * 30])
async def test_an_event_that_is_not_there_is_not_found(door: Door, sequence: str) -> None:
    await door.session()
    answer = await door.client.get(f"{EVENTS}/{sequence}")
    assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")


@pytest.mark.parametrize(
    "query", ["types=", "types=turn..", "types=Turn", "inline_max=-1", "before=x", "before=e1:1&after=e1:1"]
)
async def test_a_wish_that_cannot_be_understood_is_refused(door: Door, query: str) -> None:
    await door.session()
    answer = await door.client.get(f"{EVENTS}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
