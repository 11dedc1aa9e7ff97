"""The outbox of the store in memory."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from antiphon.core.session import Message
from antiphon.ports.outbox import Delivery, DeliveryState, Due, TooMany, Webhook
from antiphon.ports.store import Listed
from antiphon.store.cursors import cursor as cursor_at
from antiphon.store.cursors import place
from antiphon.store.telling import Telling, end_of


class Kept:
    """A delivery, with its place in lists and who has claimed it."""

    def __init__(self, number: int, delivery: Delivery) -> None:
        self.number = number
        self.delivery = delivery
        self.host = ""
        self.until = 0

    def is_due(self, now: int) -> bool:
        """Whether it waits for anybody to deliver it."""
        return self.delivery.state == "pending" and self.delivery.next_at <= now and self.until <= now


class MemoryOutbox:
    """See `antiphon.ports.outbox.Outbox`. Every method is done before it first awaits."""

    def __init__(self, message: Callable[[str], Message | None], living: Callable[[str], bool]) -> None:
        """Args:
        message: Looks a message up, also one of a deleted session.
        living: Whether a session is there.
        """
        self._message = message
        self._living = living
        self._webhooks: dict[str, tuple[int, Webhook]] = {}
        self._kept: dict[tuple[str, str], Kept] = {}
        self._number = 0
        self._stirred = asyncio.Event()

    @property
    def stirred(self) -> asyncio.Event:
        return self._stirred

    def tell(self, tellings: Iterable[Telling]) -> None:
        """Make the deliveries of a commit's events."""
        for telling in tellings:
            for _, webhook in self._webhooks.values():
                if _wants(webhook, telling):
                    self._deliver(telling, webhook)

    def _deliver(self, telling: Telling, webhook: Webhook) -> bool:
        if (webhook.id, telling.id) in self._kept:
            return False
        delivery = Delivery(
            id=telling.id,
            webhook_id=webhook.id,
            target=webhook.target,
            type=telling.type,
            at=telling.at,
            session_id=telling.session_id,
            message_id=telling.message_id,
            subject=msgspec.to_builtins(telling.subject),
            since=telling.at,
            next_at=telling.at,
        )
        self._kept[webhook.id, telling.id] = Kept(self._next(), delivery)
        self._stirred.set()
        return True

    def _next(self) -> int:
        self._number += 1
        return self._number

    # Webhooks

    async def add(self, webhook: Webhook, *, limit: int, rewrite_secret: bool) -> Webhook | None:
        if webhook.message_id is None:
            if sum(each.message_id is None for _, each in self._webhooks.values()) >= limit:
                raise TooMany
            self._webhooks[webhook.id] = self._next(), webhook
            return webhook
        message = self._message(webhook.message_id)
        if message is None or not self._living(message.session_id):
            return None
        kept = self._add_for_message(webhook, rewrite_secret=rewrite_secret)
        if message.ended_at is not None:
            self._deliver(end_of(message), kept)
        return kept

    def _add_for_message(self, webhook: Webhook, *, rewrite_secret: bool) -> Webhook:
        for number, there in self._webhooks.values():
            if (there.message_id, there.url) == (webhook.message_id, webhook.url):
                kept = replace(there, secret=webhook.secret) if rewrite_secret else there
                self._webhooks[there.id] = number, kept
                return kept
        self._webhooks[webhook.id] = self._next(), webhook
        return webhook

    async def webhook(self, webhook_id: str) -> Webhook | None:
        return self._webhooks[webhook_id][1] if webhook_id in self._webhooks else None

    async def webhooks(self, *, message_id: str | None, cursor: str | None, limit: int) -> Listed:
        after = place("webhooks", cursor, int)[0] if cursor is not None else 0
        found = [(n, each) for n, each in self._webhooks.values() if each.message_id == message_id and n > after]
        return _page("webhooks", sorted(found, key=lambda pair: pair[0]), limit)

    async def remove(self, webhook_id: str) -> bool:
        for key in [key for key in self._kept if key[0] == webhook_id]:
            del self._kept[key]
        return self._webhooks.pop(webhook_id, None) is not None

    async def disable(self, webhook_id: str, *, because: str, now: int) -> None:
        if webhook_id in self._webhooks:
            number, webhook = self._webhooks[webhook_id]
            if webhook.disabled_at is None:
                self._webhooks[webhook_id] = number, replace(webhook, disabled_at=now, disabled_because=because)
        for kept in self._kept.values():
            if kept.delivery.webhook_id == webhook_id and kept.delivery.state == "pending":
                kept.delivery = replace(kept.delivery, state="dead", settled_at=now, error=because)
                kept.until = 0

    async def enable(self, webhook_id: str) -> bool:
        if webhook_id not in self._webhooks:
            return False
        number, webhook = self._webhooks[webhook_id]
        self._webhooks[webhook_id] = number, replace(webhook, disabled_at=None, disabled_because=None)
        return True

    # Deliveries

    async def due(self, now: int) -> Due:
        first: dict[str, int] = {}
        later: list[int] = []
        for kept in self._kept.values():
            if kept.is_due(now):
                target, at = kept.delivery.target, kept.delivery.next_at
                first[target] = min(at, first.get(target, at))
            elif kept.delivery.state == "pending":
                later.append(max(kept.delivery.next_at, kept.until))
        return Due(targets=tuple(sorted(first, key=lambda target: first[target])), next_at=min(later, default=None))

    async def take(self, target: str, *, host: str, now: int, until: int, limit: int) -> Sequence[Delivery]:
        found = [kept for kept in self._kept.values() if kept.delivery.target == target and kept.is_due(now)]
        found.sort(key=lambda kept: (kept.delivery.next_at, kept.number))
        for kept in found[:limit]:
            kept.host, kept.until = host, until
        return [kept.delivery for kept in found[:limit]]

    async def settle(self, delivery: Delivery) -> None:
        kept = self._kept.get((delivery.webhook_id, delivery.id))
        if kept and kept.delivery.state == "pending":
            kept.delivery, kept.until = delivery, 0

    async def release(self, host: str | None) -> None:
        for kept in self._kept.values():
            if host in {None, kept.host}:
                kept.until = 0

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
        before = place("deliveries", cursor, int)[0] if cursor is not None else self._number + 1
        found = [
            (kept.number, kept.delivery)
            for kept in self._kept.values()
            if delivery_id in {None, kept.delivery.id}
            and webhook_id in {None, kept.delivery.webhook_id}
            and message_id in {None, kept.delivery.message_id}
            and state in {None, kept.delivery.state}
            and kept.number < before
        ]
        return _page("deliveries", sorted(found, key=lambda pair: -pair[0]), limit)

    async def retry(self, *, webhook_id: str | None, delivery_id: str | None, now: int) -> int:
        made = 0
        for kept in self._kept.values():
            delivery = kept.delivery
            asked = webhook_id in {None, delivery.webhook_id} and delivery_id in {None, delivery.id}
            if asked and delivery.state == "dead":
                kept.delivery = replace(delivery, state="pending", attempts=0, since=now, next_at=now, settled_at=None)
                kept.until = 0
                made += 1
                self._stirred.set()
        return made

    async def reconcile(self) -> int:
        """Nothing happens at the same moment here."""
        return 0

    async def tidy(self, *, before: int) -> int:
        gone = [key for key, kept in self._kept.items() if (kept.delivery.settled_at or before) < before]
        told = {webhook_id for webhook_id, _ in self._kept}
        spent = {key[0] for key in gone if key[0] in self._webhooks and self._webhooks[key[0]][1].message_id}
        for key in gone:
            del self._kept[key]
        spent |= {
            webhook.id
            for _, webhook in self._webhooks.values()
            if webhook.session_id
            and not self._living(webhook.session_id)
            and webhook.created_at < before
            and webhook.id not in told
        }
        for webhook_id in spent:
            del self._webhooks[webhook_id]
        return len(gone) + len(spent)

    async def counts(self) -> dict[str, int]:
        states = [kept.delivery.state for kept in self._kept.values()]
        return {"pending": states.count("pending"), "dead": states.count("dead")}


def _wants(webhook: Webhook, telling: Telling) -> bool:
    if webhook.disabled_at is not None or telling.type not in webhook.events:
        return False
    if webhook.message_id is not None:
        return webhook.message_id == telling.message_id
    return webhook.session_id in {None, telling.session_id}


def _page(kind: str, found: Sequence[tuple[int, Webhook | Delivery]], limit: int) -> Listed:
    next_cursor = cursor_at(kind, found[limit - 1][0]) if len(found) > limit else None
    return Listed(items=tuple(each for _, each in found[:limit]), next_cursor=next_cursor)
