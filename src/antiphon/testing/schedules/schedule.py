"""One schedule: eight clients at one session, each doing a few things at its own pace."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from antiphon.client import AsyncClient
from antiphon.client.documents import Receipt
from antiphon.client.errors import ApiError, NotEditable, QueueFull, SessionBusy, TurnEnded
from antiphon.core.words import WhenBusy

CLIENTS = 8
END_S = 120.0
MODES: tuple[WhenBusy | None, ...] = (
    *[None, "queue", "queue", "steer", "steer", "collect", "collect", "collect"],
    *["interrupt", "rollback", "refuse"],
)
EXTRAS = ("", "", "", " [[sleep 0.02]]", " [[stream 3 every 5]]", " [[tool sh]]", " [[late 0.02]] [[sleep 0.05]]")
EXPECTED = (SessionBusy, QueueFull, NotEditable, TurnEnded)


class Sent(msgspec.Struct, kw_only=True):
    """A message that was accepted: its token, which no other has, and its receipt at its end."""

    token: str
    id: str
    end: Receipt | None = None


class Played(msgspec.Struct, kw_only=True):
    """What a schedule came to.

    Attributes:
        seed: What it was drawn from.
        sent: Every accepted message.
        refused: How many sends were refused.
        unexpected: Refusals that have no place in it.
        journal: The session's journal, as plain JSON entries.
    """

    seed: int
    sent: list[Sent]
    refused: int = 0
    unexpected: list[str]
    journal: list[dict[str, Any]]


async def play(client: AsyncClient, seed: int) -> Played:
    """Play the schedule of a seed in a new session, until all that was accepted has ended, or `END_S` are over."""
    dice = random.Random(seed)  # noqa: S311 - repeatable on purpose
    ref = f"schedule:{seed}"
    settings = {
        "collect_quiet_s": dice.choice((0, 0.02, 0.1)),
        "collect_senders": dice.choice(("apart", "together")),
        "collect_overflow": dice.choice(("refuse", "summarise")),
        "collect_max": dice.choice((3, 20)),
    }
    await client.session_start("echo", ref, settings=settings)
    played = Played(seed=seed, sent=[], unexpected=[], journal=[])
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(_Player(client, ref, played, seed, number).live())
    await client.queue_continue(ref)
    await asyncio.gather(*[_end(client, sent) for sent in played.sent])
    async for event in client.journal(ref):
        sequence = int(event.cursor.rpartition(":")[2])
        played.journal.append({"turn_id": None, "message_id": None, **event.document, "sequence": sequence})
    await client.session_delete(ref)
    return played


async def _end(client: AsyncClient, sent: Sent) -> None:
    sent.end = await client.wait(sent.id, END_S)


class _Player:
    """One of the clients."""

    def __init__(self, client: AsyncClient, ref: str, played: Played, seed: int, number: int) -> None:
        self._client, self._ref, self._played = client, ref, played
        self._dice = random.Random(f"{seed}/{number}")  # noqa: S311 - repeatable on purpose
        self._name, self._count = f"c{number}", 0
        self._acts: tuple[tuple[int, Callable[[], Awaitable[object]]], ...] = (
            (20, self._send),
            (2, self._edit),
            (2, self._withdraw),
            (1, self._reorder),
            (1, self._cancel),
            (1, self._cancel_turn),
            (1, self._pause),
            (2, self._go_on),
        )

    async def live(self) -> None:
        weights = [weight for weight, _ in self._acts]
        for _ in range(self._dice.randint(2, 5)):
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.01, 0.05)) * self._dice.random())
            act = self._dice.choices(self._acts, weights)[0][1]
            try:
                await act()
            except EXPECTED:
                continue
            except ApiError as refusal:
                self._played.unexpected.append(f"{act.__name__}: {refusal.code}")

    def _text(self, token: str) -> str:
        return f"{token}{self._dice.choice(EXTRAS)}"

    async def _send(self) -> None:
        self._count += 1
        token, mode = f"<{self._name}.{self._count}>", self._dice.choice(MODES)
        try:
            receipt = await self._client.send(
                self._ref, self._text(token), when_busy=mode, wait_s=0, sender=self._name, deadline_s=self._deadline()
            )
        except (SessionBusy, QueueFull):
            self._played.refused += 1
        else:
            self._played.sent.append(Sent(token=token, id=receipt.id))

    def _deadline(self) -> float | None:
        return self._dice.choice((*[None] * 8, 0.05, 30.0))

    def _some(self) -> list[Sent]:
        """One of the last that were sent, if any was."""
        return [self._dice.choice(self._played.sent[-6:])] if self._played.sent else []

    async def _edit(self) -> None:
        mode = cast("WhenBusy | None", self._dice.choice((None, "queue", "steer", "collect")))
        for sent in self._some():
            await self._client.message_edit(sent.id, text=self._text(sent.token), when_busy=mode)

    async def _withdraw(self) -> None:
        for sent in self._some():
            await self._client.message_withdraw(sent.id)

    async def _reorder(self) -> None:
        waiting = [receipt.id for receipt in await self._client.queue(self._ref)]
        self._dice.shuffle(waiting)
        try:
            await self._client.reorder(self._ref, waiting)
        except ApiError as refusal:
            if refusal.code != "invalid_request":  # somebody came, or ran, in between
                raise

    async def _cancel(self) -> None:
        for sent in self._some():
            await self._client.message_cancel(sent.id)

    async def _cancel_turn(self) -> None:
        turn_id = (await self._client.session(self._ref)).turn_id
        if turn_id:
            await self._client.turn_cancel(turn_id, queue=not self._dice.randrange(4))

    async def _pause(self) -> None:
        await self._client.queue_pause(self._ref)

    async def _go_on(self) -> None:
        await self._client.queue_continue(self._ref)
