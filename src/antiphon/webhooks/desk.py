"""What can be asked about webhooks: add, list, remove, enable; their deliveries, and trying those again."""

import msgspec

from antiphon.core.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.host.service import Service
from antiphon.host.views import Page, View, rfc3339
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids
from antiphon.ports.outbox import EVENTS, Delivery, DeliveryState, Outbox, TooMany, Webhook
from antiphon.webhooks.signing import new_secret, secret_problem
from antiphon.webhooks.targets import Policy, parse_url, shown

WEBHOOKS_MAX = 1000


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to be told of what. `session` is an id or key; without it the webhook is for all sessions."""

    url: str
    events: tuple[str, ...] = ("message.ended",)
    session: str | None = None
    secret: str | None = None
    description: str | None = None


class WebhookView(View, frozen=True, kw_only=True):
    """A webhook, but for its secret. `state` is `active` or `disabled`; of the URL nothing behind `?` is shown."""

    id: str
    url: str
    events: tuple[str, ...]
    session_id: str | None
    message_id: str | None
    description: str | None
    state: str
    disabled_because: str | None
    created_at: str | None


class NewWebhookView(View, frozen=True, kw_only=True):
    """A webhook that was made just now. `secret` is what its deliveries are signed with; it is never shown again."""

    id: str
    url: str
    events: tuple[str, ...]
    session_id: str | None
    message_id: str | None
    description: str | None
    state: str
    disabled_because: str | None
    created_at: str | None
    secret: str


class DeliveryView(View, frozen=True, kw_only=True):
    """A delivery. `id` is the `webhook-id` of every try; `state` is `pending`, `delivered` or `dead`."""

    id: str
    webhook_id: str
    type: str
    session_id: str
    message_id: str | None
    state: str
    attempts: int
    status: int | None
    error: str | None
    happened_at: str | None
    next_at: str | None
    settled_at: str | None


class Retried(View, frozen=True, kw_only=True):
    """How many dead deliveries are tried again."""

    retried: int


class DeliveryNotDead(AntiphonError):
    """The delivery is still tried, or was made: there is nothing to try again."""

    code = "delivery_not_dead"


class Webhooks:
    """The webhooks of a host, for its doors. Every method raises errors of `antiphon.core.errors` and no others."""

    def __init__(self, outbox: Outbox, service: Service, *, clock: Clock, ids: Ids, policy: Policy) -> None:
        self._outbox = outbox
        self._service = service
        self._clock = clock
        self._ids = ids
        self._policy = policy

    async def add(self, new: NewWebhook) -> NewWebhookView:
        """Tell somebody of events from now on.

        Raises:
            InvalidRequest: The URL is not allowed, the secret is none, or there are too many webhooks.
            NotFound: There is no such session.
        """
        session_id = (await self._service.session(new.session)).id if new.session is not None else None
        webhook = self._made(new, session_id=session_id, message_id=None)
        try:
            kept = await self._outbox.add(webhook, limit=WEBHOOKS_MAX, rewrite_secret=False)
        except TooMany:
            detail = f"There are {WEBHOOKS_MAX} webhooks already. Remove one that is no longer used."
            raise InvalidRequest(detail) from None
        return _new_view(kept or webhook)

    async def send_on(
        self, message_id: str, *, url: str, secret: str | None
    ) -> tuple[NewWebhookView | WebhookView, bool]:
        """Send a message's receipt on once it has ended, which it may have long ago. True when that is new.

        Asking again for the same URL is the same request; only a secret that is given replaces the one before.

        Raises:
            InvalidRequest, NotFound: As `add`; of the message.
        """
        session_id = (await self._service.receipt(message_id)).session_id
        new = NewWebhook(url=url, secret=secret)
        webhook = self._made(new, session_id=session_id, message_id=message_id)
        kept = await self._outbox.add(webhook, limit=0, rewrite_secret=secret is not None)
        if kept is None:
            raise NotFound("message", message_id)
        if kept.id != webhook.id:
            return _view(kept), False
        return _new_view(kept), True

    def _made(self, new: NewWebhook, *, session_id: str | None, message_id: str | None) -> Webhook:
        try:
            target = parse_url(new.url)
        except ValueError as error:
            raise InvalidRequest(str(error), field="url") from None
        if problem := self._policy.refusal_of(target):
            raise InvalidRequest(problem, field="url")
        if new.secret is not None and (problem := secret_problem(new.secret)):
            raise InvalidRequest(problem, field="secret")
        unknown = [event for event in new.events if event not in EVENTS]
        if unknown or not new.events:
            raise InvalidRequest(f"A webhook's events are some of {', '.join(EVENTS)}.", field="events")
        return Webhook(
            id=self._ids.new("hook"),
            url=new.url,
            target=target.origin,
            secret=new.secret or new_secret(),
            events=tuple(dict.fromkeys(new.events)),
            session_id=session_id,
            message_id=message_id,
            description=new.description,
            created_at=self._clock.now(),
        )

    async def webhook(self, webhook_id: str) -> WebhookView:
        """A webhook."""
        return _view(await self._kept(webhook_id))

    async def _kept(self, webhook_id: str) -> Webhook:
        webhook = await self._outbox.webhook(webhook_id)
        if webhook is None:
            raise NotFound("webhook", webhook_id)
        return webhook

    async def webhooks(self, *, message_id: str | None = None, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of `WebhookView`, oldest first: those for one message, or all that are for no single message."""
        try:
            found = await self._outbox.webhooks(message_id=message_id, cursor=cursor, limit=limit)
        except ValueError as error:
            raise _bad_cursor() from error
        return Page(items=tuple(_view(webhook) for webhook in found.items), next_cursor=found.next_cursor)

    async def remove(self, webhook_id: str) -> None:
        """Forget a webhook, and what was still to be told to it."""
        if not await self._outbox.remove(webhook_id):
            raise NotFound("webhook", webhook_id)

    async def enable(self, webhook_id: str) -> WebhookView:
        """Tell a disabled webhook of events again, from now on."""
        if not await self._outbox.enable(webhook_id):
            raise NotFound("webhook", webhook_id)
        return await self.webhook(webhook_id)

    async def deliveries(
        self,
        *,
        webhook_id: str | None = None,
        message_id: str | None = None,
        state: DeliveryState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of `DeliveryView`, newest first. The dead ones are the dead-letter list."""
        try:
            found = await self._outbox.deliveries(
                webhook_id=webhook_id, message_id=message_id, state=state, cursor=cursor, limit=limit
            )
        except ValueError as error:
            raise _bad_cursor() from error
        return Page(items=tuple(_delivery_view(delivery) for delivery in found.items), next_cursor=found.next_cursor)

    async def retry_webhook(self, webhook_id: str) -> Retried:
        """Try every dead delivery of a webhook again; one that is disabled is enabled first."""
        await self.enable(webhook_id)
        made = await self._outbox.retry(webhook_id=webhook_id, delivery_id=None, now=self._clock.now())
        return Retried(retried=made)

    async def retry_delivery(self, delivery_id: str) -> Retried:
        """Try a dead delivery again, to every webhook for which it is dead.

        Raises:
            NotFound: Nobody was to be told of this.
            DeliveryNotDead: It is not dead.
        """
        made = await self._outbox.retry(webhook_id=None, delivery_id=delivery_id, now=self._clock.now())
        if not made:
            await self._require_dead(delivery_id)
        return Retried(retried=made)

    async def _require_dead(self, delivery_id: str) -> None:
        if not (await self._outbox.deliveries(delivery_id=delivery_id, cursor=None, limit=1)).items:
            raise NotFound("delivery", delivery_id)
        detail = "It is delivered already, or still tried: `GET /v1/deliveries` shows which."
        raise DeliveryNotDead(detail, delivery_id=delivery_id)


def _bad_cursor() -> InvalidRequest:
    return InvalidRequest("The cursor must be one that a page of this list gave as `next_cursor`.")


def _view(webhook: Webhook) -> WebhookView:
    return WebhookView(
        id=webhook.id,
        url=shown(webhook.url),
        events=webhook.events,
        session_id=webhook.session_id,
        message_id=webhook.message_id,
        description=webhook.description,
        state="active" if webhook.disabled_at is None else "disabled",
        disabled_because=webhook.disabled_because,
        created_at=rfc3339(webhook.created_at),
    )


def _new_view(webhook: Webhook) -> NewWebhookView:
    return NewWebhookView(**msgspec.structs.asdict(_view(webhook)), secret=webhook.secret)


def _delivery_view(delivery: Delivery) -> DeliveryView:
    return DeliveryView(
        id=delivery.id,
        webhook_id=delivery.webhook_id,
        type=delivery.type,
        session_id=delivery.session_id,
        message_id=delivery.message_id,
        state=delivery.state,
        attempts=delivery.attempts,
        status=delivery.status,
        error=delivery.error,
        happened_at=rfc3339(delivery.at),
        next_at=rfc3339(delivery.next_at) if delivery.state == "pending" else None,
        settled_at=rfc3339(delivery.settled_at),
    )
