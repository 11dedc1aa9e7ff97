"""A host that dies at any of its steps with the outbox: the next one tells everything, under the same ids."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from antiphon.store.memory import MemoryStore
from antiphon.webhooks.delivering import Deliverer
from antiphon.webhooks.plan import Answer, NoAnswer
from antiphon.webhooks.targets import Target
from webhooklab.office import BRISK, Counts, Office, until

MESSAGES = [f"msg_{number}" for number in range(3)]


class Doomed:
    """An outbox whose host dies before or after its n-th step there: from then on nothing of it goes through."""

    def __init__(self, outbox: Any, at: int, *, after: bool) -> None:
        self._outbox = outbox
        self._left = at
        self._after = after
        self.dead = asyncio.Event()

    @property
    def stirred(self) -> asyncio.Event:
        return self._outbox.stirred

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._outbox, name)

        async def step(*args: Any, **kwargs: Any) -> Any:
            if self.dead.is_set():
                await asyncio.Event().wait()
            self._left -= 1
            if self._left == 0 and not self._after:
                self.dead.set()
                await asyncio.Event().wait()
            result = await method(*args, **kwargs)
            if self._left == 0:
                self.dead.set()
                await asyncio.Event().wait()
            return result

        return step


class Receiver:
    """Takes everything, and remembers the ids in their order."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer | NoAnswer:
        self.ids.append(headers["webhook-id"])
        return Answer(200)


@pytest.mark.parametrize("after", [False, True])
async def test_a_host_that_dies_at_any_step_leaves_nothing_untold(after: bool) -> None:
    survived = False
    for at in range(1, 60):
        store, receiver = MemoryStore(), Receiver()
        office = Office(store)
        await office.open()
        await office.hook("https://example.com/")
        await office.end(*MESSAGES)
        doomed = Doomed(store.outbox, at, after=after)
        first = Deliverer(
            doomed,  # pyright: ignore[reportArgumentType]  # it hands on what it does not have
            receipt_of=office.receipt,
            transport=receiver,
            clock=office.clock,
            host="first",
            meters=Counts(),
            settings=BRISK,
        )
        first.start()
        survived = await told_or_dead(office, doomed)
        await first._tasks.close()  # pyright: ignore[reportPrivateUsage]  # not `stop`: it does not go in good order
        await store.outbox.release(None)  # as the next host does when it opens the store, or as time does
        async with office.delivering(transport=receiver):
            await office.until(len(MESSAGES), state="delivered")
        assert set(receiver.ids) == {"evt_0", "evt_1", "evt_2"}
        assert [delivery.state for delivery in await office.deliveries()] == ["delivered"] * len(MESSAGES)
        if survived:
            assert len(receiver.ids) == len(MESSAGES)
            break
    assert survived, "there were more steps than were tried"


async def told_or_dead(office: Office, doomed: Doomed) -> bool:
    """Whether everything was told before the host died."""

    async def look() -> str | None:
        if doomed.dead.is_set():
            return "dead"
        done = await office.deliveries(state="delivered")
        return "told" if len(done) == len(MESSAGES) else None

    return await until(look) == "told"
