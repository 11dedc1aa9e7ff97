"""What a host does beside its sessions: it tells webhooks of their ends, and sends what schedules say."""

import asyncio
from typing import Protocol

from antiphon.host.service import Service
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids
from antiphon.ports.outbox import Outbox
from antiphon.ports.peers import Peers
from antiphon.ports.store import Store
from antiphon.ports.timetable import Timetable
from antiphon.schedules.desk import Schedules
from antiphon.schedules.running import Runner
from antiphon.telemetry.metrics import Metrics
from antiphon.webhooks.delivering import Deliverer
from antiphon.webhooks.desk import Webhooks
from antiphon.webhooks.sending import Sender
from antiphon.webhooks.settings import WebhooksTable


class WholeStore(Store, Protocol):
    """A store with an outbox and a timetable in it, as every one that is opened has, and with peers if it has any."""

    @property
    def outbox(self) -> Outbox: ...

    @property
    def timetable(self) -> Timetable: ...

    @property
    def peers(self) -> Peers | None: ...


class Errands:
    """Webhooks and schedules, put together. `start` them once the host has started, and `stop` them after it.

    Attributes:
        webhooks, schedules: What doors ask.
    """

    def __init__(
        self, store: WholeStore, service: Service, *, clock: Clock, ids: Ids, table: WebhooksTable, metrics: Metrics
    ) -> None:
        """Args:
        store: Where both are kept.
        service: The host.
        clock, ids: Time, and names for new things.
        table: The configuration of webhooks.
        metrics: Where to count.
        """
        self._deliverer = Deliverer(
            store.outbox,
            receipt_of=service.receipt,
            transport=Sender(table.policy, timeout_s=table.timeout_s),
            clock=clock,
            host=ids.new("host"),
            meters=metrics,
            settings=table.settings,
        )
        self._runner = Runner(store.timetable, service, store, clock=clock, counted=metrics.schedule_ran)
        self.webhooks = Webhooks(store.outbox, service, clock=clock, ids=ids, policy=table.policy)
        self.schedules = Schedules(store.timetable, service, clock=clock, ids=ids, stir=self._runner.stir)

    def start(self) -> None:
        """Begin."""
        self._deliverer.start()
        self._runner.start()

    async def stop(self) -> None:
        """End at once; the next host takes up what is cut short. Idempotent."""
        await asyncio.gather(self._runner.stop(), self._deliverer.stop())
