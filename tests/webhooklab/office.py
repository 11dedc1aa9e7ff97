"""What delivers, over a store of its own, to real receivers: ends of messages are made by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from antiphon.core import events as e
from antiphon.core.errors import NotFound
from antiphon.errands import WholeStore
from antiphon.host.views import Receipt, receipt
from antiphon.ports.outbox import Delivery, Webhook
from antiphon.system import SystemClock, SystemIds
from antiphon.testing.drafts import Draft
from antiphon.webhooks.delivering import Deliverer, Settings, Transport
from antiphon.webhooks.plan import Pace
from antiphon.webhooks.sending import Sender
from antiphon.webhooks.signing import new_secret
from antiphon.webhooks.targets import Policy, parse_url, read_networks

T = TypeVar("T")
LOCAL = Policy(networks=read_networks(("127.0.0.0/8",)), http=True)
WAIT_S = 40.0
BRISK = Settings(pace=Pace(first_s=0.05, longest_s=0.2, give_up_s=60.0), claim_s=30.0)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something."""
    async with asyncio.timeout(WAIT_S):
        while not (found := await look()):  # noqa: ASYNC110  # what is looked at has no event
            await asyncio.sleep(0.02)
    return found


class Counts:
    """What was counted."""

    def __init__(self) -> None:
        self.tries: list[str] = []
        self.kept: dict[str, int] = {}

    def webhook_tried(self, outcome: str) -> None:
        self.tries.append(outcome)

    def webhooks_kept(self, counts: Mapping[str, int]) -> None:
        self.kept = dict(counts)


class Office:
    """A store with one session, and webhooks."""

    def __init__(self, store: WholeStore) -> None:
        self.store = store
        self.outbox = store.outbox
        self.draft = Draft("ses_1", key="k")
        self.counts = Counts()
        self.clock = SystemClock()
        self._ids = SystemIds()

    async def open(self) -> None:
        await self.store.commit(self.draft.create())

    def deliverer(
        self, *, timeout_s: float = 10.0, settings: Settings = BRISK, transport: Transport | None = None
    ) -> Deliverer:
        """What delivers; the caller starts and stops it."""
        return Deliverer(
            self.outbox,
            receipt_of=self.receipt,
            transport=transport or Sender(LOCAL, timeout_s=timeout_s),
            clock=self.clock,
            host=self._ids.new("host"),
            meters=self.counts,
            settings=settings,
        )

    @contextlib.asynccontextmanager
    async def delivering(self, **how: Any) -> AsyncIterator[Deliverer]:
        """Deliver within the block."""
        deliverer = self.deliverer(**how)
        deliverer.start()
        try:
            yield deliverer
        finally:
            await deliverer.stop()

    async def receipt(self, message_id: str) -> Receipt:
        stored = await self.store.message(message_id)
        if stored is None:
            raise NotFound("message", message_id)
        return receipt(stored.message, reply=f"answer to {message_id}", position=None, waiting_for=None)

    async def hook(self, url: str, **fields: Any) -> Webhook:
        """A webhook for every end of a message."""
        webhook = Webhook(
            id=self._ids.new("hook"),
            url=url,
            target=parse_url(url).origin,
            secret=new_secret(),
            events=("message.ended",),
            created_at=self.clock.now(),
        )
        webhook = replace(webhook, **fields)
        assert await self.outbox.add(webhook, limit=100, rewrite_secret=False) == webhook
        return webhook

    async def end(self, *ids: str) -> None:
        """Have messages accepted and answered."""
        for id in ids:
            message = self.draft.message(id)
            await self.store.commit(self.draft.accept(id))
            ended = replace(message, state="answered", ended_at=self.clock.now(), turn_id="turn_1")
            event = e.MessageEnded(message_id=id, state="answered")
            await self.store.commit(self.draft.step(event, messages=(ended,)))

    async def deliveries(self, **which: Any) -> Sequence[Delivery]:
        """The deliveries, newest first."""
        return (await self.outbox.deliveries(cursor=None, limit=1000, **which)).items

    async def until(self, count: int = 1, **which: Any) -> Sequence[Delivery]:
        """The deliveries of a kind, once there are so many."""

        async def look() -> Sequence[Delivery] | None:
            found = await self.deliveries(**which)
            return found if len(found) >= count else None

        return await until(look)
