"""Deliveries to receivers that are down, fail, hang or cut the line: at least once, under one id, blocking nobody."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import standardwebhooks

from antiphon.core.errors import StoreUnavailable
from antiphon.errands import WholeStore
from antiphon.host.views import Receipt
from antiphon.ports.outbox import Delivery, Webhook
from antiphon.store.postgres import PostgresStore
from antiphon.store.sqlite import SqliteStore
from antiphon.system import SystemClock
from antiphon.webhooks.delivering import LANE, Settings
from antiphon.webhooks.plan import NoAnswer, Pace
from antiphon.webhooks.targets import Target
from doubles.receiver import DROP, HANG, Receiver, Reply, Request, receiving
from real_postgres import RealPostgres
from webhooklab.office import BRISK, Office, until


async def arrived(receiver: Receiver, count: int = 1) -> list[Request]:
    """What a receiver was told, once it is so much."""
    return await asyncio.to_thread(receiver.wait, count)


async def tried(office: Office, count: int) -> bool:
    return len(office.counts.tries) >= count


async def settled(office: Office) -> Sequence[Delivery] | None:
    """The deliveries, once what came of the first try of each is written down."""
    found = await office.deliveries()
    return found if all(delivery.attempts for delivery in found) else None


async def disabled(office: Office, webhook_id: str) -> Webhook | None:
    kept = await office.outbox.webhook(webhook_id)
    return kept if kept and kept.disabled_at else None


def in_turn(*replies: Reply) -> Callable[[Request], Reply]:
    """Answers one after the other, then success."""
    left = list(replies)
    return lambda _request: left.pop(0) if left else Reply()


async def test_a_delivery_is_signed_and_holds_the_receipt(office: Office) -> None:
    with receiving() as receiver:
        webhook = await office.hook(receiver.url + "?q=1")
        async with office.delivering():
            await office.end("msg_1")
            [request] = await arrived(receiver)
            [delivery] = await office.until(state="delivered")

    assert (request.path, request.id) == ("/hook?q=1", "evt_1")
    assert request.headers["content-type"] == "application/json"
    assert standardwebhooks.Webhook(webhook.secret).verify(request.body, request.headers)
    told = json.loads(request.body)
    assert (told["type"], set(told)) == ("message.ended", {"type", "timestamp", "data"})
    assert (told["data"]["id"], told["data"]["state"]) == ("msg_1", "answered")
    assert (told["data"]["reply"], told["data"]["session_key"]) == ("answer to msg_1", "k")
    assert told["timestamp"] == told["data"]["ended_at"]
    assert (delivery.status, delivery.attempts, delivery.error) == (204, 1, None)


async def test_a_receiver_that_is_down_for_a_while_is_told_once_it_is_back(office: Office) -> None:
    with receiving() as receiver:
        port, url = receiver.port, receiver.url
    await office.hook(url)
    async with office.delivering():
        await office.end("msg_1", "msg_2")
        await until(lambda: tried(office, 4))
        assert set(office.counts.tries) == {"failed"}
        with receiving(port=port) as receiver:
            requests = await arrived(receiver, 2)
            await office.until(2, state="delivered")

    assert {request.id for request in requests} == {"evt_1", "evt_2"}


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Reply(500), "The receiver answered 500."),
        (Reply(404, {}, b"no"), "The receiver answered 404."),
        (Reply(302, {"location": "/hook"}), "The receiver answered 302."),
        (DROP, "The receiver did not answer in HTTP."),
    ],
)
async def test_a_receiver_that_fails_or_cuts_the_line_is_told_again_under_the_same_id(
    office: Office, failure: Reply, told: str
) -> None:
    with receiving(in_turn(failure, failure)) as receiver:
        webhook = await office.hook(receiver.url)
        async with office.delivering():
            await office.end("msg_1")
            requests = await arrived(receiver, 3)
            [delivery] = await office.until(state="delivered")

    assert len({(request.path, request.id, request.body) for request in requests}) == 1
    for request in requests:
        assert standardwebhooks.Webhook(webhook.secret).verify(request.body, request.headers)
    assert delivery.attempts == 3
    assert office.counts.tries == ["failed", "failed", "delivered"]


async def test_why_the_last_try_failed_is_told(office: Office) -> None:
    with receiving(lambda _request: Reply(503, {"retry-after": "3600"}, b"secret words of the receiver")) as receiver:
        await office.hook(receiver.url)
        async with office.delivering():
            await office.end("msg_1")
            await arrived(receiver)
            [delivery] = await until(lambda: settled(office))

    assert (delivery.state, delivery.status, delivery.error) == ("pending", 503, "The receiver answered 503.")
    assert delivery.next_at >= delivery.at + 59_000, "it asked to be left alone, up to the last try"


async def test_a_receiver_that_hangs_holds_up_nobody_else(office: Office) -> None:
    with receiving(lambda _request: HANG) as hanging, receiving() as sound:
        await office.hook(hanging.url)
        await office.hook(sound.url)
        ids = [f"msg_{number}" for number in range(40)]
        async with office.delivering(timeout_s=30):
            await office.end(*ids)
            requests = await arrived(sound, len(ids))
            assert len(hanging.requests) == LANE

    assert len({request.id for request in requests}) == len(ids)
    assert sound.at_once <= LANE


class Failing:
    """Every try hangs until `go` is set, and fails."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.at_once: list[int] = []
        self._open = 0

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> NoAnswer:
        self._open += 1
        self.begun += 1
        self.at_once.append(self._open)
        await self.go.wait()
        await asyncio.sleep(0)
        self._open -= 1
        return NoAnswer("down")


async def test_a_receiver_that_fails_has_one_try_at_a_time(office: Office) -> None:
    failing = Failing()
    await office.hook("https://example.com/")
    await office.end(*[f"msg_{number}" for number in range(10)])
    async with office.delivering(transport=failing):
        await until(lambda: begun(failing, LANE))
        failing.go.set()
        await until(lambda: begun(failing, LANE + 10))

    assert failing.at_once[:LANE] == [1, 2, 3, 4]
    assert set(failing.at_once[2 * LANE :]) == {1}


async def begun(failing: Failing, count: int) -> bool:
    return failing.begun >= count


async def test_of_a_receiver_that_hangs_no_more_than_the_time_limit_is_waited_for(office: Office) -> None:
    with receiving(lambda _request: HANG) as hanging:
        await office.hook(hanging.url)
        async with office.delivering(timeout_s=0.2):
            await office.end("msg_1")
            await arrived(hanging, 2)
            [delivery] = await until(lambda: settled(office))

    assert (delivery.state, delivery.error) == ("pending", "There was no answer within 0.2 s.")


async def test_a_try_that_is_cut_short_is_made_again_by_the_next_host(office: Office) -> None:
    with receiving(in_turn(HANG)) as receiver:
        await office.hook(receiver.url)
        async with office.delivering():
            await office.end("msg_1")
            await arrived(receiver)
        assert [delivery.state for delivery in await office.deliveries()] == ["pending"]
        async with office.delivering():
            requests = await arrived(receiver, 2)
            await office.until(state="delivered")

    assert requests[0].id == requests[1].id == "evt_1"


async def test_a_receiver_that_is_gone_is_told_nothing_more_until_it_is_enabled(office: Office) -> None:
    answers = {"status": 410}
    with receiving(lambda _request: Reply(answers["status"])) as receiver:
        webhook = await office.hook(receiver.url)
        async with office.delivering():
            await office.end("msg_1")
            await office.until(state="dead")
            kept = await until(lambda: disabled(office, webhook.id))
            await office.end("msg_2")
            assert len(await office.deliveries()) == 1
            answers["status"] = 200
            assert await office.outbox.enable(webhook.id)
            assert await office.outbox.retry(webhook_id=webhook.id, delivery_id=None, now=office.clock.now()) == 1
            await office.until(state="delivered")

    assert kept.disabled_because == "The receiver answered 410 Gone."
    assert [request.id for request in receiver.requests] == ["evt_1", "evt_1"]


async def test_what_was_given_up_is_on_the_list_and_can_be_tried_again_under_its_id(office: Office) -> None:
    answers = {"status": 500}
    brief = Settings(pace=Pace(first_s=0.02, longest_s=0.05, give_up_s=0.3))
    with receiving(lambda _request: Reply(answers["status"])) as receiver:
        await office.hook(receiver.url)
        async with office.delivering(settings=brief):
            await office.end("msg_1")
            [dead] = await office.until(state="dead")
            answers["status"] = 200
            tried = len(receiver.requests)
            assert await office.outbox.retry(webhook_id=None, delivery_id="evt_1", now=office.clock.now()) == 1
            [done] = await office.until(state="delivered")

    assert (dead.id, dead.error, dead.attempts) == ("evt_1", "The receiver answered 500.", tried)
    assert dead.settled_at is not None
    assert dead.settled_at >= dead.since + 300
    assert office.counts.tries[-2:] == ["dead", "delivered"]
    assert {request.id for request in receiver.requests} == {"evt_1"}
    assert done.attempts == 1


async def test_a_receipt_that_can_not_be_read_now_is_read_in_a_moment(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, read = [True, True], office.receipt

    async def receipt_of(message_id: str) -> Receipt:
        if away:
            away.pop()
            raise StoreUnavailable("The disk is slow.")
        return await read(message_id)

    monkeypatch.setattr(office, "receipt", receipt_of)
    with receiving() as receiver:
        await office.hook(receiver.url)
        async with office.delivering():
            await office.end("msg_1")
            [request] = await arrived(receiver)
            [delivery] = await office.until(state="delivered")

    assert json.loads(request.body)["data"]["reply"] == "answer to msg_1"
    assert delivery.attempts == 1


async def test_a_webhook_for_a_message_that_ended_long_ago_is_told_now(office: Office) -> None:
    with receiving() as receiver:
        async with office.delivering():
            await office.end("msg_1")
            await office.hook(receiver.url, message_id="msg_1", session_id="ses_1")
            [request] = await arrived(receiver)

    assert request.id == "evt_1"


async def test_the_end_of_a_deleted_session_is_told_without_the_reply(office: Office) -> None:
    with receiving() as receiver:
        events = ("message.ended", "session.deleted")
        await office.hook(receiver.url, events=events)
        await office.end("msg_1")
        await office.store.commit(office.draft.delete())
        async with office.delivering():
            told = {request.id: json.loads(request.body) for request in await arrived(receiver, 2)}

    ended = told.pop("evt_1")
    assert (ended["data"]["state"], ended["data"]["reply"], ended["omitted"]) == ("answered", None, ["reply"])
    [deleted] = told.values()
    assert (deleted["type"], deleted["data"]["id"], deleted["data"]["key"]) == ("session.deleted", "ses_1", "k")


async def test_neither_urls_nor_secrets_nor_answers_are_logged(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving(in_turn(Reply(500), DROP)) as receiver:
        webhook = await office.hook(receiver.url + "?token=hidden")
        async with office.delivering():
            await office.end("msg_1")
            await office.until(state="delivered")

    ours = [record for record in caplog.records if record.name.startswith("antiphon")]
    assert len(ours) == 2
    written = " ".join(str(record.__dict__) for record in caplog.records)
    assert not [word for word in (webhook.secret, "hidden", "answer to", receiver.url) if word in written]


async def test_two_hosts_on_one_store_share_the_work_and_tell_nothing_twice(
    real_postgres: RealPostgres, tmp_path: Path
) -> None:
    stores = [
        await PostgresStore.open(
            real_postgres.url, clock=SystemClock(), schema_name="webhooks_shared", connections=6, timeout_s=20
        )
        for _ in range(2)
    ]
    try:
        one, two = (Office(store) for store in stores)
        await one.open()
        ids = [f"msg_{number}" for number in range(30)]
        with receiving() as receiver:
            await one.hook(receiver.url)
            await one.end(*ids)
            async with one.delivering(), two.delivering():
                await arrived(receiver, len(ids))
                await one.until(len(ids), state="delivered")
        assert sorted(request.id for request in receiver.requests) == sorted(f"evt_{number}" for number in range(30))
    finally:
        for store in stores:
            await store.close()


async def test_what_a_dead_host_had_claimed_is_delivered_when_its_store_is_opened_again(tmp_path: Path) -> None:
    store: WholeStore = await SqliteStore.open(tmp_path / "data", clock=SystemClock())
    office = Office(store)
    await office.open()
    with receiving() as receiver:
        await office.hook(receiver.url)
        await office.end("msg_1")
        now = office.clock.now()
        target = (await office.outbox.due(now)).targets[0]
        assert await office.outbox.take(target, host="dead", now=now, until=now + 3_600_000, limit=1)
        await store.close()

        store = await SqliteStore.open(tmp_path / "data", clock=SystemClock())
        try:
            async with Office(store).delivering(settings=BRISK):
                [request] = await arrived(receiver)
        finally:
            await store.close()

    assert request.id == "evt_1"
