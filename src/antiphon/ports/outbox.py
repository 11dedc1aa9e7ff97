"""Where webhooks are kept, and what is to be told to them: the outbox of a store."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from antiphon.core.session import Value
from antiphon.ports.store import Listed

DeliveryState = Literal["pending", "delivered", "dead"]

EVENTS = ("message.ended", "session.stopped", "session.deleted")
"""The events of a journal that webhooks can be told."""


class TooMany(Exception):
    """As many are kept as the limit allows. Nothing was written."""


class Webhook(Value, frozen=True, kw_only=True):
    """Somebody who wants to be told of ends.

    Attributes:
        target: The origin of the URL (`https://host:port`): one receiver, however many webhooks lead there.
        secret: What deliveries are signed with, as `whsec_…`. It is shown to nobody but whoever made the webhook.
        events: Which of `EVENTS` it is told.
        session_id: Of this session only; None for all.
        message_id: Of this message's end only, once.
        disabled_at: Since when it is told nothing more, and in `disabled_because` why.
    """

    id: str
    url: str
    target: str
    secret: str
    events: tuple[str, ...]
    session_id: str | None = None
    message_id: str | None = None
    description: str | None = None
    created_at: int
    disabled_at: int | None = None
    disabled_because: str | None = None


class Delivery(Value, frozen=True, kw_only=True):
    """An event on its way to a webhook. All times are milliseconds since the epoch.

    Attributes:
        id: The event's id (`evt_…`): the same in every try, and for every webhook that is told of it.
        at: When it happened.
        subject: What it happened to, as of its commit: the record of a message, or what names a session.
        since: From when on its time counts: `at`, or the last `retry`.
        next_at: When the next try is due, while it is pending.
        status: The HTTP status of the last try that had one.
        error: Why the last try failed, in words that quote nobody.
    """

    id: str
    webhook_id: str
    target: str
    type: str
    at: int
    session_id: str
    message_id: str | None = None
    subject: dict[str, Any]
    state: DeliveryState = "pending"
    attempts: int = 0
    since: int
    next_at: int
    settled_at: int | None = None
    status: int | None = None
    error: str | None = None


class Due(Value, frozen=True, kw_only=True):
    """What is to be delivered: targets that something is due for, and when the next is due that is not yet (ms)."""

    targets: tuple[str, ...]
    next_at: int | None = None


class Outbox(Protocol):
    """The webhooks, and an obligation for each event that one of them is to be told.

    A commit (`Store.commit`) that holds one of `EVENTS` makes the deliveries for all webhooks that want it, in the same
    transaction: a message has its end if and only if its webhooks will be told. For each webhook and event there is
    one delivery, ever. Any method may raise `StoreUnavailable`.
    """

    @property
    def stirred(self) -> asyncio.Event:
        """Set when this object has made something to deliver. Whoever delivers clears it."""
        ...

    # Webhooks

    async def add(self, webhook: Webhook, *, limit: int, rewrite_secret: bool) -> Webhook | None:
        """Keep a webhook.

        One for a message is there once for each URL: a further one is the one that is there, with the new secret if
        `rewrite_secret`. If the message has ended already, its delivery is made in the same step.

        Returns:
            What is kept; None when there is no such message.

        Raises:
            TooMany: There are `limit` webhooks already, not counting those for a single message.
        """
        ...

    async def webhook(self, webhook_id: str) -> Webhook | None: ...

    async def webhooks(self, *, message_id: str | None, cursor: str | None, limit: int) -> Listed:
        """Webhooks (`Webhook`), oldest first: those for one message, or those for no single message.

        Raises:
            ValueError: The cursor is not one of this list's.
        """
        ...

    async def remove(self, webhook_id: str) -> bool:
        """Forget a webhook with its deliveries; whether it was there."""
        ...

    async def disable(self, webhook_id: str, *, because: str, now: int) -> None:
        """Tell it nothing more. What is pending for it is dead."""
        ...

    async def enable(self, webhook_id: str) -> bool:
        """Tell it what happens from now on; whether it is there."""
        ...

    # Deliveries

    async def due(self, now: int) -> Due:
        """Which targets something unclaimed is due for, at most some hundreds, those that wait longest first."""
        ...

    async def take(self, target: str, *, host: str, now: int, until: int, limit: int) -> Sequence[Delivery]:
        """Claim what is due for a target, the longest due first. Nobody else is given it before `until`."""
        ...

    async def settle(self, delivery: Delivery) -> None:
        """Write how a claimed delivery stands after a try, and give up the claim. What is settled stays so."""
        ...

    async def release(self, host: str | None) -> None:
        """Give up the claims of a host that delivers no more; of all, with None."""
        ...

    async def deliveries(
        self,
        *,
        delivery_id: str | None = None,
        webhook_id: str | None = None,
        message_id: str | None = None,
        state: DeliveryState | None = None,
        cursor: str | None,
        limit: int,
    ) -> Listed:
        """Deliveries (`Delivery`), newest first.

        Raises:
            ValueError: The cursor is not one of this list's.
        """
        ...

    async def retry(self, *, webhook_id: str | None, delivery_id: str | None, now: int) -> int:
        """Make dead deliveries pending and due again, under their old ids, with their whole time before them.

        Of one webhook, of one event, or of both. How many.
        """
        ...

    async def reconcile(self) -> int:
        """Make the deliveries of messages that ended in the very moment in which their webhook was added. How many."""
        ...

    async def tidy(self, *, before: int) -> int:
        """Take away what was settled before a time, and webhooks that nothing can happen to any more. How many rows."""
        ...

    async def counts(self) -> dict[str, int]:
        """How many deliveries are `pending` and `dead`."""
        ...
