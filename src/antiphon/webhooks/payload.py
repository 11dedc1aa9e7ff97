"""What a delivery says: the event in the form of Standard Webhooks, with the receipt of a message as its data."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.core.errors import NotFound, StoreUnavailable
from antiphon.core.session import Message
from antiphon.host.views import Receipt, receipt, rfc3339
from antiphon.ports.outbox import Delivery
from antiphon.ports.store import StoreDamaged

REPLY_MAX = 1 << 20
"""A longer reply (in characters) is not sent along: the receipt says where to get it."""

ReceiptOf = Callable[[str], Awaitable[Receipt]]


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a delivery.

    Attributes:
        type: The event's type.
        timestamp: When it happened.
        data: The receipt of the message, or what names the session.
        omitted: Fields of `data` that are null because they could not be sent along.
    """

    type: str
    timestamp: str | None
    data: dict[str, Any]
    omitted: tuple[str, ...] = ()


async def body(delivery: Delivery, receipt_of: ReceiptOf) -> bytes:
    """The body of a delivery, the same in every try for as long as the session is kept.

    Raises:
        StoreUnavailable: The receipt can't be read just now, or its host has not taken in yet that it has ended.
    """
    if delivery.message_id is None:
        return _encoded(delivery, delivery.subject)
    try:
        now = await receipt_of(delivery.message_id)
    except (NotFound, StoreDamaged):  # the session was deleted, or can't be read: what the commit said of it remains
        return _encoded(delivery, _as_committed(delivery), ("reply",))
    if now.ended_at is None:
        raise StoreUnavailable("The message's end is not known to its host yet.")
    if now.reply is not None and len(now.reply) > REPLY_MAX:
        return _encoded(delivery, msgspec.to_builtins(replace(now, reply=None)), ("reply",))
    return _encoded(delivery, msgspec.to_builtins(now))


def _as_committed(delivery: Delivery) -> dict[str, Any]:
    """The receipt without its reply, from what the commit said of the message; its id alone if that is damaged."""
    try:
        message = msgspec.convert(delivery.subject, Message)
    except msgspec.ValidationError:
        return {"id": delivery.message_id, "session_id": delivery.session_id}
    return msgspec.to_builtins(receipt(message, reply=None, position=None, waiting_for=None))


def _encoded(delivery: Delivery, data: dict[str, Any], omitted: tuple[str, ...] = ()) -> bytes:
    payload = Payload(type=delivery.type, timestamp=rfc3339(delivery.at), data=data, omitted=omitted)
    return msgspec.json.encode(payload)
