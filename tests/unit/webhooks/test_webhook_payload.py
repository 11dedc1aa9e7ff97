"""What a delivery says."""

import json
from typing import Any

import msgspec
import pytest

from antiphon.core.errors import NotFound, StoreUnavailable
from antiphon.core.session import Message
from antiphon.host.views import Receipt, receipt
from antiphon.ports.outbox import Delivery
from antiphon.ports.store import StoreDamaged
from antiphon.webhooks.payload import REPLY_MAX, body

MESSAGE = Message(
    id="msg_1",
    session_id="ses_1",
    generation=1,
    sequence=2,
    state="answered",
    when_busy="queue",
    turn_id="turn_1",
    accepted_at=1000,
    ended_at=2000,
)


def delivery(**fields: Any) -> Delivery:
    made: dict[str, Any] = {
        "id": "evt_1",
        "webhook_id": "hook_1",
        "target": "https://x:443",
        "type": "message.ended",
        "at": 2000,
        "session_id": "ses_1",
        "message_id": "msg_1",
        "subject": msgspec.to_builtins(MESSAGE),
        "since": 2000,
        "next_at": 2000,
    }
    return Delivery(**(made | fields))


def shown(reply: str | None) -> Receipt:
    return receipt(MESSAGE, reply=reply, position=None, waiting_for=None)


async def said(of: Receipt | Exception, **fields: Any) -> dict[str, Any]:
    async def receipt_of(message_id: str) -> Receipt:
        assert message_id == "msg_1"
        if isinstance(of, Exception):
            raise of
        return of

    return json.loads(await body(delivery(**fields), receipt_of))


async def test_it_is_the_receipt_that_clients_see() -> None:
    told = await said(shown("grüße"))

    assert told == {
        "type": "message.ended",
        "timestamp": "1970-01-01T00:00:02.000Z",
        "data": msgspec.to_builtins(shown("grüße")),
    }


async def test_a_reply_that_is_too_long_is_left_out_and_that_is_said() -> None:
    told = await said(shown("x" * (REPLY_MAX + 1)))

    assert (told["data"]["reply"], told["omitted"], told["data"]["state"]) == (None, ["reply"], "answered")


@pytest.mark.parametrize("trouble", [NotFound("message", "msg_1"), StoreDamaged("A stored turn can't be read.")])
async def test_of_what_can_not_be_read_any_more_the_commits_own_words_are_told(trouble: Exception) -> None:
    told = await said(trouble)

    assert told["data"] == msgspec.to_builtins(shown(None))
    assert told["omitted"] == ["reply"]


async def test_and_if_even_these_are_damaged_its_id() -> None:
    told = await said(NotFound("message", "msg_1"), subject={})

    assert told["data"] == {"id": "msg_1", "session_id": "ses_1"}


async def test_a_store_that_is_away_for_a_moment_makes_nothing_up() -> None:
    with pytest.raises(StoreUnavailable):
        await said(StoreUnavailable("Later."))


async def test_nor_does_a_host_that_has_not_taken_in_the_end_yet() -> None:
    still = msgspec.structs.replace(shown("so far"), state="running", ended_at=None)

    with pytest.raises(StoreUnavailable):
        await said(still)


async def test_of_a_session_it_tells_what_names_it() -> None:
    told = await said(shown(None), message_id=None, type="session.deleted", subject={"id": "ses_1", "key": "k"})

    assert (told["type"], told["data"]) == ("session.deleted", {"id": "ses_1", "key": "k"})
