"""Webhooks, late answers and schedules over HTTP, with a real receiver."""

import asyncio
import json
from typing import Any

import pytest
import standardwebhooks

from doubles.door import Door, until
from doubles.receiver import Receiver, Reply, Request, receiving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WAIT_S = 40.0


async def arrived(receiver: Receiver, count: int = 1) -> list[Request]:
    """What a receiver was told, once it is so much."""
    return await asyncio.to_thread(receiver.wait, count)


async def deliveries(door: Door, query: str, count: int) -> list[dict[str, Any]]:
    """The deliveries of a kind, once there are so many."""
    async with asyncio.timeout(WAIT_S):
        while len(found := (await door.client.get(f"/v1/deliveries?{query}")).json()["items"]) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def ended(door: Door, text: str, key: str) -> dict[str, Any]:
    """The receipt of a message at its end."""
    answer = await door.send(text, key, prefer="wait=30")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_webhook_is_told_of_a_messages_end_with_the_receipt_that_clients_see(door: Door) -> None:
    session = await door.session("told")
    with receiving() as receiver:
        made = await door.client.post("/v1/webhooks", json={"url": f"{receiver.url}?key=hidden", "session": "told"})
        assert made.status_code == 201, made.text
        webhook = made.json()
        assert made.headers["location"] == f"/v1/webhooks/{webhook['id']}"
        receipt = await ended(door, "hello", "told")
        [request] = await arrived(receiver)
        [delivery] = await deliveries(door, f"webhook={webhook['id']}&state=delivered", 1)

    assert standardwebhooks.Webhook(webhook["secret"]).verify(request.body, request.headers)
    assert json.loads(request.body) == {
        "type": "message.ended",
        "timestamp": receipt["ended_at"],
        "data": receipt,
    }
    assert (delivery["id"], delivery["message_id"]) == (request.id, receipt["id"])
    assert (delivery["session_id"], delivery["attempts"], delivery["status"]) == (session["id"], 1, 204)
    assert (await door.client.delete(f"/v1/webhooks/{webhook['id']}")).status_code == 204
    assert (await door.client.get(f"/v1/webhooks/{webhook['id']}")).json()["code"] == "webhook_not_found"


async def test_secrets_are_in_the_first_answer_and_nowhere_else(door: Door) -> None:
    answer = await door.client.post(
        "/v1/webhooks", json={"url": "http://127.0.0.1:9/?key=hidden", "secret": SECRET, "events": ["session.deleted"]}
    )
    webhook = answer.json()
    assert webhook["secret"] == SECRET
    for path in ("/v1/webhooks", f"/v1/webhooks/{webhook['id']}", "/v1/deliveries", "/metrics"):
        shown = (await door.client.get(path)).text
        assert SECRET not in shown
        assert "hidden" not in shown
    assert (await door.client.get(f"/v1/webhooks/{webhook['id']}")).json()["url"] == "http://127.0.0.1:9/?…"
    await door.client.delete(f"/v1/webhooks/{webhook['id']}")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "https://10.0.0.1/x"}, "url"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, "url"),
        ({"url": "https://user:word@example.com/"}, "url"),
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://example.com/", "secret": "whsec_short"}, "secret"),
        ({"url": "https://example.com/", "secret": "hush-hush"}, "secret"),
    ],
)
async def test_what_is_not_allowed_is_refused_by_its_name(door: Door, body: dict[str, str], field: str) -> None:
    answer = await door.client.post("/v1/webhooks", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert field in answer.text
    assert body.get("secret", "…") not in answer.text


async def test_a_late_answer_is_sent_on_to_whoever_asks_for_it_once(door: Door) -> None:
    await door.session("late")
    receipt = await ended(door, "hello", "late")
    path = f"/v1/messages/{receipt['id']}/webhook"
    with receiving() as receiver:
        first = await door.client.post(path, json={"url": receiver.url})
        [request] = await arrived(receiver)
        again = await door.client.post(path, json={"url": receiver.url})
        await deliveries(door, f"message={receipt['id']}&state=delivered", 1)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert "secret" not in again.json()
    assert standardwebhooks.Webhook(first.json()["secret"]).verify(request.body, request.headers)
    assert json.loads(request.body)["data"] == receipt
    assert len(receiver.requests) == 1
    listed = (await door.client.get(f"/v1/webhooks?message={receipt['id']}")).json()["items"]
    assert [(each["id"], each["message_id"]) for each in listed] == [(first.json()["id"], receipt["id"])]
    assert first.json()["id"] not in (await door.client.get("/v1/webhooks")).text


async def test_an_answer_that_is_still_to_come_is_sent_on_when_it_has_come(door: Door) -> None:
    await door.session("early")
    message = (await door.send("[[hold]] hello", "early")).json()
    with receiving() as receiver:
        added = await door.client.post(
            f"/v1/messages/{message['id']}/webhook", json={"url": receiver.url, "secret": SECRET}
        )
        assert added.status_code == 201
        assert receiver.requests == []
        await until(lambda: any(agent.held for agent in door.parrot.running))
        door.parrot.release()
        [request] = await arrived(receiver)

    assert standardwebhooks.Webhook(SECRET).verify(request.body, request.headers)
    assert json.loads(request.body)["data"]["state"] == "answered"


async def test_who_is_not_there_can_not_be_sent_on(door: Door) -> None:
    answer = await door.client.post("/v1/messages/msg_nowhere/webhook", json={"url": "http://127.0.0.1:9/"})
    assert (answer.status_code, answer.json()["code"]) == (404, "message_not_found")
    answer = await door.client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/", "session": "nowhere"})
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_a_receiver_that_is_gone_is_disabled_listed_and_can_be_tried_again(door: Door) -> None:
    await door.session("gone")
    answers = {"status": 410}
    with receiving(lambda _request: Reply(answers["status"])) as receiver:
        webhook = (await door.client.post("/v1/webhooks", json={"url": receiver.url, "session": "gone"})).json()
        await ended(door, "hello", "gone")
        [dead] = await deliveries(door, f"webhook={webhook['id']}&state=dead", 1)
        shown = await door.until(f"/v1/webhooks/{webhook['id']}", state="disabled")
        answers["status"] = 204
        retried = await door.client.post(f"/v1/deliveries/{dead['id']}/retry")
        assert retried.json() == {"retried": 1}
        [done] = await deliveries(door, f"webhook={webhook['id']}&state=delivered", 1)
        await ended(door, "not told", "gone")
        assert (await door.client.post(f"/v1/webhooks/{webhook['id']}/enable")).json()["state"] == "active"
        await ended(door, "told", "gone")
        assert len(await deliveries(door, f"webhook={webhook['id']}&state=delivered", 2)) == 2

    assert (dead["status"], dead["error"]) == (410, "The receiver answered 410.")
    assert shown["disabled_because"] == "The receiver answered 410 Gone."
    assert done["id"] == dead["id"]
    refused = await door.client.post(f"/v1/deliveries/{done['id']}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "delivery_not_dead")
    unknown = await door.client.post("/v1/deliveries/evt_nothing/retry")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "delivery_not_found")
    await door.client.delete(f"/v1/webhooks/{webhook['id']}")


async def test_the_end_of_a_session_is_told(door: Door) -> None:
    session = await door.session("ending")
    with receiving() as receiver:
        body = {"url": receiver.url, "session": "ending", "events": ["session.stopped", "session.deleted"]}
        webhook = (await door.client.post("/v1/webhooks", json=body)).json()
        await door.client.post("/v1/sessions/ending/stop")
        await door.client.delete("/v1/sessions/ending")
        told = [json.loads(request.body) for request in await arrived(receiver, 2)]

    assert {each["type"] for each in told} == {"session.stopped", "session.deleted"}
    assert {each["data"]["id"] for each in told} == {session["id"]}
    await door.client.delete(f"/v1/webhooks/{webhook['id']}")


async def test_tries_are_counted(door: Door) -> None:
    await door.session("counted")
    with receiving() as receiver:
        webhook = (await door.client.post("/v1/webhooks", json={"url": receiver.url, "session": "counted"})).json()
        await ended(door, "hello", "counted")
        await deliveries(door, f"webhook={webhook['id']}&state=delivered", 1)

    assert 'antiphon_webhook_tries_total{outcome="delivered"}' in (await door.client.get("/metrics")).text
    await door.client.delete(f"/v1/webhooks/{webhook['id']}")


# Schedules


async def test_a_schedule_is_added_shown_listed_paused_resumed_and_removed(door: Door) -> None:
    body = {
        "session": "planned",
        "text": "Good morning",
        "cron": "30 8 * * 1-5",
        "time_zone": "Europe/Berlin",
        "missed": "run_once",
        "overlap": "queue_one",
        "create": {"agent": "parrot"},
    }
    made = await door.client.post("/v1/schedules", json=body)
    assert made.status_code == 201, made.text
    schedule = made.json()
    path = f"/v1/schedules/{schedule['id']}"
    assert made.headers["location"] == path
    assert {name: schedule[name] for name in body if name != "create"} == {
        name: value for name, value in body.items() if name != "create"
    }
    assert (schedule["agent"], schedule["state"], schedule["last_run"], len(schedule["next_runs"])) == (
        "parrot", "active", None, 5,
    )  # fmt: skip
    assert (await door.client.get(path)).json()["id"] == schedule["id"]
    listed = (await door.client.get("/v1/schedules?session=planned")).json()["items"]
    assert [each["id"] for each in listed] == [schedule["id"]]
    assert (await door.client.get("/v1/schedules?session=other")).json()["items"] == []
    paused = (await door.client.post(f"{path}/pause")).json()
    assert (paused["state"], paused["next_runs"]) == ("paused", [])
    assert len((await door.client.post(f"{path}/resume")).json()["next_runs"]) == 5
    assert (await door.client.delete(path)).status_code == 204
    assert (await door.client.get(path)).json()["code"] == "schedule_not_found"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "every day"}, "cron"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"session": "a\nb"}, "session"),
        ({"missed": "never"}, "missed"),
        ({"text": ""}, "text"),
    ],
)
async def test_what_can_not_be_a_schedule_is_refused_by_its_name(
    door: Door, fields: dict[str, str], field: str
) -> None:
    body = {"session": "x", "text": "t", "cron": "0 7 * * *", "create": {"agent": "parrot"}}
    answer = await door.client.post("/v1/schedules", json=body | fields)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert field in answer.text
