"""The queue over HTTP: paused, continued, cancelled; deadlines and senders of messages; sessions that are forked."""

from typing import Any

import httpx2
import pytest

from doubles.door import Door


async def post(door: Door, **body: Any) -> httpx2.Response:
    """Send a message with more than a text."""
    return await door.client.post("/v1/sessions/s/messages", json=body)


async def test_a_paused_queue_says_since_when_and_what_waits_says_why(door: Door) -> None:
    await door.session()
    paused = (await door.client.post("/v1/sessions/s/queue/pause")).json()
    assert paused["paused_at"]
    again = await door.client.post("/v1/sessions/s/queue/pause")
    assert (again.status_code, again.json()["paused_at"]) == (200, paused["paused_at"])
    sent = (await door.send("hello")).json()
    assert (sent["state"], sent["position"]) == ("queued", 1)
    assert "its queue was paused" in sent["waiting_for"]
    assert (await door.client.post("/v1/sessions/s/queue/continue")).json()["paused_at"] is None
    assert (await door.until(f"/v1/messages/{sent['id']}", state="answered"))["reply"] == "parrot: hello"


async def test_all_that_waits_is_cancelled_and_named(door: Door) -> None:
    await door.session()
    held = (await door.send("[[hold]]")).json()
    turn_id = (await door.until("/v1/sessions/s", status="running"))["turn_id"]
    waiting = [(await door.send(text)).json()["id"] for text in "ab"]
    gone = (await door.client.post("/v1/sessions/s/queue/cancel")).json()["items"]
    assert [(receipt["id"], receipt["state"]) for receipt in gone] == [(id, "cancelled") for id in waiting]
    third = (await door.send("c")).json()["id"]
    cancelled = await door.client.post(f"/v1/turns/{turn_id}/cancel?queue=true")
    assert cancelled.json() == {"turn_id": turn_id, "state": "cancelled", "confirmed": True, "message_ids": [third]}
    assert (await door.until(f"/v1/messages/{held['id']}", state="cancelled"))["turn_id"] == turn_id


async def test_a_message_is_cancelled_once_and_not_after_its_end(door: Door) -> None:
    await door.session()
    held = (await door.send("[[hold]]")).json()["id"]
    await door.until("/v1/sessions/s", status="running")
    for _ in range(2):
        cancelled = await door.client.post(f"/v1/messages/{held}/cancel")
        assert (cancelled.status_code, cancelled.json()["state"], cancelled.json()["confirmed"]) == (
            200,
            "cancelled",
            True,
        )
    ended = (await door.send("done", Prefer="wait=5")).json()["id"]
    late = await door.client.post(f"/v1/messages/{ended}/cancel")
    assert (late.status_code, late.json()["code"]) == (409, "not_editable")


@pytest.mark.parametrize("deadline", [0.05, {"waiting": 0.05}, {"total": 0.05, "running": 9}])
async def test_a_deadline_ends_a_message_that_waits(door: Door, deadline: object) -> None:
    await door.session()
    await door.send("[[hold]]")
    await door.until("/v1/sessions/s", status="running")
    sent = await post(door, text="late", deadline_s=deadline, sender="ann")
    assert sent.json()["deadline_at"]
    assert sent.json()["sender"] == "ann"
    end = await door.until(f"/v1/messages/{sent.json()['id']}", state="failed")
    assert (end["error"]["code"], end["deadline_at"]) == ("deadline_exceeded", None)


@pytest.mark.parametrize("deadline", [0, -1, 1e12, "soon", {"waiting": 0}, {"then": 1}])
async def test_a_deadline_that_is_none_is_refused(door: Door, deadline: object) -> None:
    await door.session()
    refused = await post(door, text="x", deadline_s=deadline)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_the_sender_is_who_the_client_says_else_the_clients_token(door: Door) -> None:
    await door.session()
    assert (await post(door, text="a", sender="ann")).json()["sender"] == "ann"
    assert (await door.send("b")).json()["sender"] == "local"


async def test_settings_of_collect_are_checked(door: Door) -> None:
    await door.session()
    for settings in ({"collect_quiet_s": -1}, {"collect_max": 0}, {"collect_overflow": "drop"}, {"collect_senders": 1}):
        refused = await door.client.patch("/v1/sessions/s", json={"settings": settings})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), settings
    kept = await door.client.patch("/v1/sessions/s", json={"settings": {"collect_quiet_s": 0, "collect_max": 5}})
    assert kept.json()["settings"] == {"collect_quiet_s": 0, "collect_max": 5}


async def test_a_fork_that_cannot_be_is_refused_with_a_code_and_a_reason(door: Door) -> None:
    await door.session()
    refused = await door.client.post("/v1/sessions/s/fork", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "fork_unavailable")
    unknown = await door.client.post("/v1/sessions/s/fork", json={"turn_id": "turn_x"})
    assert unknown.status_code == 404
