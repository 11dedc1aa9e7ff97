"""The delivery of what an outbox holds: in lanes, one for each receiver, so that none waits for another."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from antiphon import __version__
from antiphon.core.errors import StoreUnavailable
from antiphon.host.tasks import Tasks
from antiphon.ports.clock import Clock
from antiphon.ports.outbox import Delivery, Due, Outbox, Webhook
from antiphon.webhooks import payload
from antiphon.webhooks.plan import GONE, Answer, NoAnswer, Pace, after_try
from antiphon.webhooks.signing import signed
from antiphon.webhooks.targets import Target, parse_url

log = logging.getLogger("antiphon.webhooks")

LANE = 4
"""So many tries at once for a receiver that answers; one for a receiver whose last try failed."""
TRIES = 256
"""So many tries at once in all: a receiver that hangs has one of them."""
LOOK_S = 5.0
"""So often to look for what other hosts have left."""
UPKEEP_S = 60.0
SETTLES = 5
GONE_WORDS = "The receiver answered 410 Gone."


class Meters(Protocol):
    """Where deliveries are counted."""

    def webhook_tried(self, outcome: str) -> None:
        """Count a try: `delivered`, `failed` or `dead`."""
        ...

    def webhooks_kept(self, counts: Mapping[str, int]) -> None:
        """Note how many deliveries are `pending` and `dead`."""
        ...


class Transport(Protocol):
    """What makes a try; see `antiphon.webhooks.sending.Sender`."""

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer | NoAnswer: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How deliveries are made.

    Attributes:
        pace: When tries are made.
        claim_s: For how long a host has what it has taken: longer than any try.
        keep_s: For how long what is settled is kept.
    """

    pace: Pace = Pace()
    claim_s: float = 60.0
    keep_s: float = 7 * 24 * 3600.0


class Lane:
    """The way to one receiver."""

    def __init__(self) -> None:
        self.busy = 0
        self.sound = True

    @property
    def room(self) -> int:
        """How many more tries it takes now."""
        return (LANE if self.sound else 1) - self.busy


class Deliverer:
    """Delivers what is in an outbox, each delivery at least once. `start` it, and `stop` it in the end.

    Several hosts may deliver from one outbox: what one has claimed the others leave alone until the claim runs out.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        receipt_of: payload.ReceiptOf,
        transport: Transport,
        clock: Clock,
        host: str,
        meters: Meters,
        settings: Settings | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Args:
        outbox: Where to take from.
        receipt_of: Reads a message's receipt.
        transport: Makes the tries.
        clock: Time.
        host: The name to claim under.
        meters: Where to count.
        settings: How; the defaults when None.
        chance: The source of jitter.
        """
        self._outbox = outbox
        self._receipt_of = receipt_of
        self._transport = transport
        self._clock = clock
        self._host = host
        self._meters = meters
        self._settings = settings or Settings()
        self._chance = chance or random.Random()  # noqa: S311  # jitter, not secrets
        self._tasks = Tasks("webhooks")
        self._lanes: dict[str, Lane] = {}
        self._tries = 0

    def start(self) -> None:
        """Begin. What an earlier host left is taken up."""
        self._tasks.start(self._run(), "deliver")
        self._tasks.start(self._keep_up(), "upkeep")

    async def stop(self) -> None:
        """End at once. A try that is cut short is made again, by the next host, under the same id. Idempotent."""
        await self._tasks.close()
        try:
            await self._outbox.release(self._host)
        except StoreUnavailable as error:  # the claims run out by themselves
            log.warning("claims could not be given up", extra={"action": "webhook_release", "code": error.code})

    # What is due

    async def _run(self) -> None:
        while True:
            self._outbox.stirred.clear()
            try:
                due = await self._take()
            except StoreUnavailable as error:
                log.warning("deliveries could not be read", extra={"action": "webhook_take", "code": error.code})
                due = Due(targets=())
            await self._pause(due.next_at)

    async def _take(self) -> Due:
        """Begin the tries that are due and have room."""
        now = self._clock.now()
        due = await self._outbox.due(now)
        until = now + int(self._settings.claim_s * 1000)
        self._forget_lanes()
        for target in due.targets:
            lane = self._lanes.setdefault(target, Lane())
            room = min(lane.room, TRIES - self._tries)
            taken = room > 0 and await self._outbox.take(target, host=self._host, now=now, until=until, limit=room)
            for delivery in taken or ():
                lane.busy += 1
                self._tries += 1
                self._tasks.start(self._deliver(delivery, lane), "try")
        return due

    def _forget_lanes(self) -> None:
        if len(self._lanes) > 4 * TRIES:
            self._lanes = {target: lane for target, lane in self._lanes.items() if lane.busy}

    async def _pause(self, next_at: int | None) -> None:
        """Wait until something is stirred, a delivery is due, or it is time to look again."""
        seconds = LOOK_S if next_at is None else min(LOOK_S, max(0.0, (next_at - self._clock.now()) / 1000))
        waits = {
            self._tasks.start(self._outbox.stirred.wait(), "stirred"),
            self._tasks.start(self._clock.sleep(seconds), "pause"),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # One delivery

    async def _deliver(self, delivery: Delivery, lane: Lane) -> None:
        try:
            webhook = await self._outbox.webhook(delivery.webhook_id)
            if webhook is not None:
                await self._try(delivery, webhook, lane)
        except StoreUnavailable as error:
            extra = {"action": "webhook_try", "webhook_id": delivery.webhook_id, "code": error.code}
            log.warning("a delivery could not be made", extra=extra)
            await self._put_off(delivery)
        finally:
            lane.busy -= 1
            self._tries -= 1
            self._outbox.stirred.set()

    async def _try(self, delivery: Delivery, webhook: Webhook, lane: Lane) -> None:
        body = await payload.body(delivery, self._receipt_of)
        headers = signed(webhook.secret, id=delivery.id, at_s=self._clock.now() // 1000, body=body)
        headers |= {"content-type": "application/json", "user-agent": f"antiphon/{__version__}"}
        outcome = await self._transport.post(parse_url(webhook.url), headers, body)
        after = after_try(
            delivery, outcome, now=self._clock.now(), pace=self._settings.pace, chance=self._chance.random()
        )
        lane.sound = isinstance(outcome, Answer) and outcome.status < 500
        self._note(after)
        await self._settle(after)
        if after.status == GONE and after.state == "dead":
            await self._outbox.disable(webhook.id, because=GONE_WORDS, now=self._clock.now())

    def _note(self, after: Delivery) -> None:
        outcome = "failed" if after.state == "pending" else after.state
        self._meters.webhook_tried(outcome)
        if outcome != "delivered":
            extra = {
                "action": f"webhook_{outcome}",
                "webhook_id": after.webhook_id,
                "delivery_id": after.id,
                "status": after.status,
                "attempt": after.attempts,
            }
            log.log(logging.ERROR if outcome == "dead" else logging.INFO, "a delivery did not succeed", extra=extra)

    async def _settle(self, after: Delivery) -> None:
        """Write what came of a try. If that can't be done, the delivery is made again once its claim has run out."""
        for pause_s in (0.1, 0.5, 1.0, 2.0):
            try:
                return await self._outbox.settle(after)
            except StoreUnavailable:
                await self._clock.sleep(pause_s * (0.5 + self._chance.random()))
        return await self._outbox.settle(after)

    async def _put_off(self, delivery: Delivery) -> None:
        """Have a delivery made anew in a moment. If not even that can be written, its claim runs out."""
        next_at = self._clock.now() + int(self._settings.pace.first_s * 1000)
        with contextlib.suppress(StoreUnavailable):
            await self._outbox.settle(replace(delivery, next_at=next_at))

    # Upkeep

    async def _keep_up(self) -> None:
        """Once a minute: see to what fell between two steps, take away what is old, count what is kept."""
        while True:
            try:
                await self._outbox.reconcile()
                await self._outbox.tidy(before=self._clock.now() - int(self._settings.keep_s * 1000))
                self._meters.webhooks_kept(await self._outbox.counts())
            except StoreUnavailable as error:
                log.warning("the outbox could not be tidied", extra={"action": "webhook_upkeep", "code": error.code})
            await self._clock.sleep(UPKEEP_S)
