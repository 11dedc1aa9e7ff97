"""Who keeps a session busy: sends, queues, cancels, stops and resumes, and writes down what it was told.

A call that gets no answer is no finding: nothing promises how soon a busy machine answers. What it was about must come
to its end all the same, so its caller lets go of everything that it had under way, and goes on.
"""

import asyncio
import contextlib
import random
from collections import Counter

import msgspec

from antiphon.client import ApiError, AsyncClient, ClientError, HostNotReached, TurnEnded
from antiphon.client.documents import Receipt
from antiphon.testing.endurance.fleet import Member

WAYS = ("say",) * 12 + ("queue",) * 4 + ("refuse",) * 2 + ("cancel",) * 2 + ("interrupt", "stop")
END_WAIT_S = 600.0
START_WAIT_S = 60.0
LOOK_AGAIN_S = 0.5
LET_GO_WITHIN_S = 300.0
"""For how long a caller that got no answer tries to reach the host again."""


class Account(msgspec.Struct):
    """What was sent and what became of it.

    Attributes:
        words: The word that each message's answer must hold, by message id.
        ends: The state of each message that has ended, by message id.
        refused: How often a message was refused because one ran.
        unheard: How many calls got no answer in time.
        findings: What is wrong.
    """

    words: dict[str, str] = {}
    ends: dict[str, str] = {}
    refused: int = 0
    unheard: int = 0
    findings: list[str] = []

    def close(self, receipt: Receipt, *, certain: bool) -> None:
        """Note the end of a message. `certain`: it must have been answered, as nobody disturbed it."""
        self.ends[receipt.id] = receipt.state
        word = self.words[receipt.id]
        if receipt.state == "answered" and word and word not in (receipt.reply or ""):
            self.findings.append(f"{receipt.id}: answered {(receipt.reply or '')[:80]!r} without its word {word} (P4)")
        if receipt.state == "failed" or (certain and receipt.state != "answered"):
            detail = receipt.error.detail if receipt.error else ""
            self.findings.append(f"{receipt.id}: {receipt.state}: {(detail or '')[:200]}")

    @property
    def states(self) -> dict[str, int]:
        """How many messages came to which end."""
        return dict(Counter(self.ends.values()))


class Caller:
    """One session and the one who talks in it, one thing after the other."""

    def __init__(self, number: int, member: Member, client: AsyncClient, account: Account, seed: int) -> None:
        self._key = f"endurance:{number}"
        self._member = member
        self._client = client
        self._account = account
        self._chance = random.Random(seed * 10_007 + number)  # noqa: S311 - a seed, not a secret
        self._count = 0
        self._name = number
        self._begun = False
        self._sent: set[str] = set()

    async def run(self, ended: asyncio.Event) -> None:
        """Talk until `ended`, then see every message to its end."""
        while not ended.is_set():
            try:
                if not self._begun:
                    await self._client.session_start(self._member.name, self._key, if_exists="return")
                    self._begun = True
                await self._one()
            except HostNotReached:
                self._account.unheard += 1
                if not await self._let_go():
                    self._find(f"no answer for {LET_GO_WITHIN_S:g} s")
                    return
            except ClientError as error:
                self._find(f"{type(error).__name__}: {error}")
                await self._let_go()
                return

    def _find(self, what: str) -> None:
        self._account.findings.append(f"{self._key} ({self._member.name}): {what}")

    async def _let_go(self) -> bool:
        """Cancel whatever this session has under way, heard of or not, and note its ends; False if nobody answers."""
        deadline = asyncio.get_running_loop().time() + LET_GO_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            try:
                await self._cancel_all()
            except HostNotReached:
                await asyncio.sleep(LOOK_AGAIN_S)
            except ClientError as error:
                self._find(f"letting go: {type(error).__name__}: {error}")
                return True
            else:
                return True
        return False

    async def _cancel_all(self) -> None:
        if not self._begun:
            return
        await self._client.queue_cancel(self._key)
        session = await self._client.session(self._key)
        if session.turn_id is not None:
            with contextlib.suppress(TurnEnded):
                await self._client.turn_cancel(session.turn_id)
        if session.status == "stopped":
            await self._client.session_resume(self._key)
        for message_id in self._sent - self._account.ends.keys():
            await self._close(await self._client.message(message_id), certain=False)

    async def _one(self) -> None:
        way = self._chance.choice(WAYS)
        if way in ("cancel", "interrupt") and self._member.pointed.holds is None:
            way = "say"
        match way:
            case "queue":
                receipts = [await self._send(self._says()) for _ in range(3)]
                for receipt in receipts:
                    await self._close(receipt, certain=True)
            case "refuse":
                await self._refuse()
            case "cancel":
                await self._cancel()
            case "interrupt":
                await self._interrupt()
            case "stop":
                receipt = await self._send(self._says())
                await self._client.session_stop(self._key)
                await self._client.session_resume(self._key)
                await self._close(receipt, certain=False)
            case _:
                await self._close(await self._send(self._says()), certain=True)

    async def _refuse(self) -> None:
        receipt = await self._send(self._says())
        try:
            other = await self._send(self._says(), "refuse")
        except ApiError as error:
            if error.code != "session_busy":
                raise
            self._account.refused += 1
        else:
            await self._close(other, certain=True)
        await self._close(receipt, certain=True)

    async def _cancel(self) -> None:
        """Cancel a turn that is held, once it runs."""
        receipt = await self._send(self._holds())
        turn_id = await self._running(receipt)
        if turn_id is not None:
            await self._client.turn_cancel(turn_id)
        await self._close(receipt, certain=False)

    async def _interrupt(self) -> None:
        """Interrupt a turn that is held, once it runs: before that, the other message would only run first."""
        receipt = await self._send(self._holds())
        if await self._running(receipt) is not None:
            await self._close(await self._send(self._says(), "interrupt"), certain=True)
        await self._close(receipt, certain=False)

    async def _running(self, receipt: Receipt) -> str | None:
        """The turn of a message that is held, once it runs; None when it waited for a place so long that it ended."""
        deadline = asyncio.get_running_loop().time() + START_WAIT_S
        while (now := await self._client.message(receipt.id)).turn_id is None:
            if asyncio.get_running_loop().time() > deadline:
                await self._client.message_cancel(receipt.id)
                return None
            await asyncio.sleep(LOOK_AGAIN_S)
        return now.turn_id

    def _word(self) -> str:
        self._count += 1
        return f"w{self._name}x{self._count}z"

    def _says(self) -> tuple[str, str]:
        word = self._word()
        return self._member.pointed.says(word), word

    def _holds(self) -> tuple[str, str]:
        assert self._member.pointed.holds, "whoever calls has looked"
        word = self._word()
        return self._member.pointed.holds(f"never-{word}", word), word

    async def _send(self, said: tuple[str, str], when_busy: str | None = None) -> Receipt:
        text, word = said
        mode = {"when_busy": when_busy} if when_busy else {}
        receipt = await self._client.send(self._key, text, wait_s=0, **mode)  # pyright: ignore[reportArgumentType]
        self._account.words[receipt.id] = word
        self._sent.add(receipt.id)
        return receipt

    async def _close(self, receipt: Receipt, *, certain: bool) -> None:
        """Wait for a message's end, and note it."""
        now = receipt if receipt.ended else await self._client.wait(receipt.id, END_WAIT_S)
        if now.ended:
            self._account.close(now, certain=certain)
        else:
            self._account.findings.append(f"{now.id}: {now.state} after {END_WAIT_S:g} s: {now.waiting_for} (P3)")
