"""Event streams: complete, resumable, and unharmed by viewers that are slow or dead."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.http.edge import Limits
from doubles.door import Door, events_of, opened, until

EVENTS = "/v1/sessions/s/events"
STREAM = {"Accept": "text/event-stream"}


async def until_event(lines: AsyncIterator[str], kind: str) -> list[dict[str, Any]]:
    """The events of a stream until the first of a type."""
    text = ""
    async with asyncio.timeout(5):
        async for line in lines:
            text += line + "\n"
            if line == "" and (events := events_of(text)) and events[-1]["event"] == kind:
                return events
    raise AssertionError(f"the stream ended without {kind}")


async def cursors(door: Door) -> list[str]:
    page = (await door.client.get(EVENTS)).json()
    return [event["cursor"] for event in page["items"]]


async def test_a_stream_begins_with_the_first_event_and_ends_with_the_session(door: Door) -> None:
    await door.session()
    await door.send("x", Prefer="wait=5")
    async with door.client.stream("GET", EVENTS, headers=STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        await door.client.delete("/v1/sessions/s")
        text = "".join([piece async for piece in answer.aiter_text()])
    events = events_of(text)
    assert text.startswith("retry: ")
    assert (events[0]["event"], events[-1]["event"]) == ("session.created", "session.deleted")
    places = [int(event["id"].rpartition(":")[2]) for event in events]
    assert places == list(range(1, len(places) + 1))
    assert all(event["id"] == event["data"]["cursor"] and event["event"] == event["data"]["type"] for event in events)


async def test_a_viewer_goes_on_where_it_left_and_its_last_id_counts_most(door: Door) -> None:
    await door.session()
    await door.send("[[stream 5]]", Prefer="wait=5")
    told = await cursors(door)
    for path, headers in (
        (f"{EVENTS}?after={quote(told[2])}", {}),
        (EVENTS, {"Last-Event-ID": told[2]}),
        (f"{EVENTS}?after={quote(told[0])}", {"Last-Event-ID": told[2]}),
    ):
        async with door.client.stream("GET", path, headers=STREAM | headers) as answer:
            events = await until_event(answer.aiter_lines(), "turn.ended")
        assert [event["id"] for event in events] == told[3 : 3 + len(events)]
    page = await door.client.get(f"{EVENTS}?after={quote(told[2])}&limit=1")
    assert [event["cursor"] for event in page.json()["items"]] == told[3:4]


@pytest.mark.parametrize("cursor", ["nonsense", ":", "x:y", "e1:-5", "9" * 400, "e1:1:1", "x" * 600])
@pytest.mark.parametrize("how", ["page", "query", "header"])
async def test_a_malformed_cursor_is_refused_before_the_stream(door: Door, cursor: str, how: str) -> None:
    await door.session()
    path = EVENTS if how == "header" else f"{EVENTS}?after={quote(cursor)}"
    headers = {"page": {}, "query": STREAM, "header": STREAM | {"Last-Event-ID": cursor}}[how]
    answer = await door.client.get(path, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("path", [EVENTS, "/v1/events"])
async def test_a_stream_ends_when_its_token_is_revoked_and_tells_nothing_more(door: Door, path: str) -> None:
    await door.session()
    made = await door.client.post("/v1/tokens", json={"name": "board", "scope": "read"})
    looking = STREAM | {"Authorization": f"Bearer {made.json()['token']}"}
    async with door.client.stream("GET", path, headers=looking) as answer, asyncio.timeout(5):
        assert answer.status_code == 200
        assert (await door.client.delete(made.headers["location"])).status_code == 204
        await door.send("not for this viewer", Prefer="wait=5")
        text = "".join([piece async for piece in answer.aiter_text()])
    last = events_of(text)[-1]
    assert (last["event"], last["data"]["code"]) == ("problem", "unauthorized")
    assert "message.accepted" not in text


async def test_a_cursor_that_can_not_be_served_is_told_as_a_gap(door: Door) -> None:
    await door.session()
    headers = STREAM | {"Last-Event-ID": "of-another-host:7"}
    async with door.client.stream("GET", EVENTS, headers=headers) as answer:
        lines = answer.aiter_lines()
        told = await until_event(lines, "snapshot")
        assert [event["event"] for event in told] == ["gap", "snapshot"]
        assert "id" not in told[0]
        await door.send("x")
        await until_event(lines, "message.ended")


async def test_what_happens_right_after_the_feed_answered_is_not_missed(door: Door) -> None:
    made = await door.session()
    async with door.client.stream("GET", "/v1/events", headers=STREAM) as answer:
        await door.send("x")
        events = await until_event(answer.aiter_lines(), "message.ended")
    assert events[0]["event"] == "message.accepted"
    assert {event["data"]["session_id"] for event in events} == {made["id"]}
    async with door.client.stream("GET", "/v1/events", headers=STREAM | {"Last-Event-ID": events[0]["id"]}) as answer:
        again = await until_event(answer.aiter_lines(), "message.ended")
    assert [event["id"] for event in again] == [event["id"] for event in events[1:]]
    page = (await door.client.get(f"/v1/events?after={quote(events[0]['id'])}&limit=2")).json()
    assert [item["cursor"] for item in page["items"]] == [event["data"]["cursor"] for event in events[1:3]]


async def test_a_silent_stream_shows_that_it_lives(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=Limits(heartbeat_s=0.02)) as door:
        await door.session()
        async with door.client.stream("GET", EVENTS, headers=STREAM) as answer, asyncio.timeout(5):
            beats = 0
            async for line in answer.aiter_lines():
                beats += line.startswith(":")
                if beats == 3:
                    break
        assert beats == 3


async def test_a_viewer_that_never_reads_is_cut_off_and_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, limits=Limits(send_s=0.3, viewer=10_000)) as door:
        await door.session()
        for _ in range(12):
            await door.send("x" * 500_000)
        await door.until("/v1/sessions/s", queued=0, status="idle")
        dead = socket.socket()
        dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        dead.connect(("127.0.0.1", door.port))
        dead.sendall(door.head("GET", EVENTS, "Accept: text/event-stream"))
        assert (await door.client.get("/v1/status")).json()["viewers"] <= 1
        await door.until("/v1/status", viewers=1)
        connections = door.server._uvicorn.server_state.connections
        assert len(connections) == 2
        waited = await door.send("beside", Prefer="wait=5")
        assert waited.json()["state"] == "answered"
        await door.until("/v1/status", viewers=0)
        await until(lambda: len(connections) == 1)
        dead.settimeout(5)
        got = 0
        while piece := dead.recv(65536):
            got += len(piece)
        dead.close()
    assert got < 12 * 500_000, "all events came, so that nothing was tried"
    assert [record for record in caplog.records if getattr(record, "action", None) == "viewer_cut"]


async def test_many_viewers_beside_a_dead_one_see_all_of_a_turn_in_order(door: Door) -> None:
    await door.session()
    dead = socket.socket()
    dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with dead:
        dead.connect(("127.0.0.1", door.port))
        dead.sendall(door.head("GET", EVENTS, "Accept: text/event-stream"))

        async def viewer() -> list[str]:
            async with door.client.stream("GET", EVENTS, headers=STREAM) as answer:
                text = "".join([piece async for piece in answer.aiter_text()])
            return [event["id"] for event in events_of(text)]

        async with asyncio.timeout(60):
            viewers = [asyncio.create_task(viewer()) for _ in range(20)]
            await door.until("/v1/status", viewers=21)
            assert (await door.send("[[stream 300]]", Prefer="wait=30")).json()["state"] == "answered"
            expected = await cursors(door)
            await door.client.delete("/v1/sessions/s")
            seen = await asyncio.gather(*viewers)
    assert len(expected) > 300
    assert all(each[: len(expected)] == expected for each in seen)


async def test_a_viewer_that_leaves_is_forgotten(door: Door) -> None:
    await door.session()
    async with door.client.stream("GET", EVENTS, headers=STREAM) as answer:
        await until_event(answer.aiter_lines(), "session.created")
        await door.until("/v1/status", viewers=1)
    await door.until("/v1/status", viewers=0)


async def test_trouble_in_the_midst_of_a_stream_is_told_in_it(tmp_path: Path) -> None:
    class Failing:
        def __init__(self, host: Any) -> None:
            self._host = host

        def __getattr__(self, name: str) -> Any:
            return getattr(self._host, name)

        async def follow(self, ref: str, *, after: str | None) -> AsyncIterator[Any]:
            async for event in self._host.follow(ref, after=after):
                yield event
                raise StoreUnavailable("The disk is gone.")

    async with opened(tmp_path, service=Failing) as door:
        await door.session()
        answer = await door.client.get(EVENTS, headers=STREAM)
    last = events_of(answer.text)[-1]
    assert (last["event"], last["data"]["code"], "id" in last) == ("problem", "store_unavailable", False)


async def test_without_asking_for_a_stream_events_come_as_a_page(door: Door) -> None:
    await door.session()
    for accept in ("*/*", "application/json", "text/event-stream;q=0", "text/event-streams"):
        answer = await door.client.get(EVENTS, headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/json", accept
