"""Sending and waiting over HTTP, against a real host."""

import asyncio

import pytest

from doubles.door import Door, events_of, until

RECEIPT = {
    "id", "session_id", "session_key", "generation", "turn_id", "state", "reply", "error", "when_busy", "delivered_as",
    "position", "waiting_for", "accepted_at", "started_at", "ended_at", "usage", "substitute", "sender", "deadline_at",
}  # fmt: skip


async def test_a_message_is_accepted_at_once_and_its_location_leads_to_its_receipt(door: Door) -> None:
    await door.session()
    answer = await door.send("hello")
    assert answer.status_code == 202
    assert set(answer.json()) == RECEIPT
    location = answer.headers["location"]
    assert location == f"/v1/messages/{answer.json()['id']}"
    assert (await door.until(location, state="answered"))["reply"] == "parrot: hello"


async def test_a_wait_gives_the_receipt_at_its_end(door: Door) -> None:
    await door.session()
    answer = await door.send("hello", Prefer="wait=5")
    assert (answer.status_code, answer.json()["reply"]) == (200, "parrot: hello")
    assert answer.headers["preference-applied"] == "wait=5"
    again = await door.client.get(answer.headers["location"], headers={"Prefer": "wait=5"})
    assert (again.status_code, again.json()) == (200, answer.json())


async def test_a_wait_that_ends_first_gives_the_receipt_as_it_stands_and_the_turn_goes_on(door: Door) -> None:
    await door.session()
    answer = await door.send("[[hold]] late", Prefer="wait=0.05")
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    location = answer.headers["location"]
    assert (await door.client.get(location, headers={"Prefer": "wait=0.05"})).status_code == 202
    assert (await door.client.get(location)).status_code == 200
    door.parrot.release()
    assert (await door.until(location, state="answered"))["reply"] == "parrot: late"


async def test_a_client_that_goes_while_it_waits_leaves_nothing_waiting_and_its_turn_running(door: Door) -> None:
    await door.session()
    body = b'{"text": "[[hold]] kept"}'
    head = door.head("POST", "/v1/sessions/s/messages", "Prefer: wait=60", f"Content-Length: {len(body)}")
    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(head + body)
    session = await door.until("/v1/sessions/s", status="running")
    waiting = door.app.edge.closing._waiting
    await until(lambda: waiting)
    writer.close()
    await until(lambda: not waiting)
    turn = (await door.client.get(f"/v1/turns/{session['turn_id']}")).json()
    assert turn["state"] == "running"
    door.parrot.release()
    await door.until(f"/v1/messages/{turn['message_ids'][0]}", state="answered", reply="parrot: kept")


async def test_the_same_key_with_the_same_body_is_the_same_message(door: Door) -> None:
    await door.session()
    path, key = "/v1/sessions/s/messages", {"Idempotency-Key": "k"}
    first = await door.client.post(path, content=b'{"text": "x", "when_busy": null}', headers=key)
    again = await door.client.post(path, content=b'{ "text":"\\u0078" }', headers=key)
    assert first.json()["id"] == again.json()["id"]
    other = await door.client.post(path, json={"text": "y"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_an_idempotency_key_has_a_bounded_length(door: Door, key: str) -> None:
    await door.session()
    answer = await door.send("x", Idempotency_Key=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_a_message_can_make_its_session(door: Door) -> None:
    body = {"text": "hello", "create": {"agent": "parrot", "title": "made"}}
    answer = await door.client.post("/v1/sessions/fresh/messages", json=body, headers={"Prefer": "wait=5"})
    assert answer.json()["reply"] == "parrot: hello"
    assert (await door.client.get("/v1/sessions/fresh")).json()["title"] == "made"
    nobody = await door.client.post("/v1/sessions/other/messages", json={"text": "x", "create": {"agent": "nobody"}})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "agent_not_found")


async def test_a_refusal_tells_who_holds_the_session_and_when_to_try_again(door: Door) -> None:
    await door.session()
    await door.send("[[hold]]")
    session = await door.until("/v1/sessions/s", status="running")
    body = {"text": "no", "when_busy": "refuse"}
    answer = await door.client.post("/v1/sessions/s/messages", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (409, "session_busy", 409)
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 0
    assert problem["holder"]["turn_id"] == session["turn_id"]


async def test_a_send_that_accepts_events_gets_its_turn_and_at_last_its_receipt(door: Door) -> None:
    await door.session()
    answer = await door.send("[[stream 3]] x", Accept="application/json, text/event-stream;q=0.9")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    assert [each["event"] for each in events].count("turn.text") >= 1
    assert "".join(each["data"]["data"]["text"] for each in events if each["event"] == "turn.text") == (
        "0 1 2 parrot: x"
    )
    last = events[-1]
    assert (last["event"], "id" in last, last["data"]["state"]) == ("receipt", False, "answered")
    assert answer.headers["location"] == f"/v1/messages/{last['data']['id']}"
    assert all(each["id"] == each["data"]["cursor"] for each in events[:-1])


async def test_what_waits_can_be_edited_reordered_and_withdrawn(door: Door) -> None:
    await door.session()
    await door.send("[[hold]]")
    await door.until("/v1/sessions/s", status="running")
    a, b = [(await door.send(text)).json()["id"] for text in "ab"]
    edited = await door.client.patch(f"/v1/messages/{a}", json={"text": "edited"})
    assert (edited.status_code, edited.json()["position"]) == (200, 1)
    order = await door.client.post("/v1/sessions/s/queue", json={"order": [b, a]})
    assert [receipt["id"] for receipt in order.json()["items"]] == [b, a]
    queue = await door.client.get("/v1/sessions/s/queue")
    assert queue.json() == order.json()
    gone = await door.client.delete(f"/v1/messages/{b}", headers={"Prefer": "wait=5"})
    assert (gone.status_code, gone.json()["state"]) == (200, "withdrawn")
    late = await door.client.patch(f"/v1/messages/{b}", json={"text": "x"})
    assert (late.status_code, late.json()["code"]) == (409, "not_editable")
    door.parrot.release()
    assert (await door.until(f"/v1/messages/{a}", state="answered"))["reply"] == "parrot: edited"


async def test_a_turn_can_be_waited_for_and_cancelled(door: Door) -> None:
    await door.session()
    await door.send("[[hold]]")
    turn_id = (await door.until("/v1/sessions/s", status="running"))["turn_id"]
    waited = await door.client.get(f"/v1/turns/{turn_id}", headers={"Prefer": "wait=0.01"})
    assert (waited.status_code, waited.json()["state"]) == (202, "running")
    ended = asyncio.create_task(door.client.get(f"/v1/turns/{turn_id}", headers={"Prefer": "wait=5"}))
    cancelled = await door.client.post(f"/v1/turns/{turn_id}/cancel")
    assert cancelled.json() == {"turn_id": turn_id, "state": "cancelled", "confirmed": True, "message_ids": []}
    assert ((await ended).status_code, (await ended).json()["state"]) == (200, "cancelled")
    again = await door.client.post(f"/v1/turns/{turn_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "turn_ended")


async def test_a_question_waits_in_the_inbox_and_its_first_answer_counts(door: Door) -> None:
    await door.session()
    sent = (await door.send("[[ask may I]] done")).json()
    await door.until("/v1/sessions/s", status="asking")
    inbox = (await door.client.get("/v1/permissions?state=pending&session=s")).json()["items"]
    path = f"/v1/permissions/{inbox[0]['id']}"
    assert (await door.client.get(path)).json()["question"] == "may I"
    answer = await door.client.post(path, json={"decision": "allow", "note": "go"})
    assert (answer.json()["state"], answer.json()["by"]) == ("allowed", "local")
    again = await door.client.post(path, json={"decision": "deny"})
    assert (again.status_code, again.json()["code"]) == (409, "permission_answered")
    await door.until(f"/v1/messages/{sent['id']}", state="answered", reply="parrot: done")
