"""A running `codex app-server` and the conversation in it: moves the lines and keeps the time."""

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator

from antiphon.agents.codex.conversation import Conversation
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess
from antiphon.ports.agent import Exited, Part, Said

log = logging.getLogger("antiphon.agents.codex")

UNREAD_MAX = 1_000
"""How many things may have been said and not been read until Codex is made to wait."""
LAST_WORDS_S = 1.0
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class RunningCodex:
    """A `RunningAgent`. Its reader is a task that `close` ends and awaits.

    Args:
        process: Codex, past its opening.
        lines: What it says from now on.
        conversation: The thread.
        network_patience_s: How long it may try to reach its model in vain.
    """

    def __init__(
        self,
        process: AgentProcess,
        lines: AsyncIterator[bytes | Overlong],
        conversation: Conversation,
        network_patience_s: float,
    ) -> None:
        self._process = process
        self._lines = lines
        self._conversation = conversation
        self._network_patience_s = network_patience_s
        self._unread: deque[Said] = deque()
        self._changed = asyncio.Event()
        """Something was said, or something that was said was read."""
        self._closing = False
        self._impatience: asyncio.TimerHandle | None = None
        self._reader = asyncio.get_running_loop().create_task(self._read(), name=f"codex:{conversation.thread_id}")

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def resume_token(self) -> str | None:
        return self._conversation.resume_token

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        self._conversation.prompt(turn_id, parts)
        self._pass_on()

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        self._conversation.steer(turn_id, message_id, parts)
        self._pass_on()

    async def cancel(self, turn_id: str) -> None:
        self._conversation.cancel(turn_id)
        self._pass_on()

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:  # noqa: ARG002
        """Answer a permission request. Codex takes no words with the answer: the note is for the journal alone."""
        self._conversation.answer(request_id, allow, option_id)
        self._pass_on()

    async def close(self, patience_s: float) -> None:
        """End Codex. At the end of its input it leaves by itself within milliseconds, also in the middle of a turn."""
        self._closing = True
        self._changed.set()
        await self._process.end(patience_s, self._process.end_input)
        await asyncio.wait([self._reader], timeout=LAST_WORDS_S)
        if not self._reader.done():  # something below it does not die and holds the pipe
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def said(self) -> AsyncIterator[Said]:
        while True:
            while self._unread:
                said = self._unread.popleft()
                self._changed.set()
                yield said
                if isinstance(said, Exited):
                    return
            self._changed.clear()
            if not self._unread:
                await self._changed.wait()

    async def _read(self) -> None:
        """Read until the end, which is told in any case."""
        reason = "adapter_failed"
        try:
            reason = await self._read_lines()
        except Exception:
            log.exception("the reader failed", extra={"action": "codex_reader_failed"})
        finally:
            self._disarm()
            await self._finish("protocol" if self._conversation.broken else reason)

    async def _read_lines(self) -> str:
        """Take in every line; returns why there are no more."""
        self._pass_on()
        async for line in self._lines:
            self._conversation.receive(line)
            self._pass_on()
            if self._conversation.broken:
                break
            while len(self._unread) > UNREAD_MAX and not self._closing:
                self._changed.clear()
                await self._changed.wait()
        return "closed" if self._closing else "died"

    async def _finish(self, reason: str) -> None:
        """See to it that nothing of Codex runs any more, then say so."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._process.wait()
            await self._process.end(0)
        finally:
            stderr = "" if self._closing else COLOURS.sub("", self._process.stderr()).strip()
            words = filter(None, (self._conversation.broken, stderr))
            exited = Exited(exit_code=self._process.exit_code, reason=reason, detail="\n".join(words))
            self._unread.append(exited)
            self._changed.set()

    def _pass_on(self) -> None:
        """Send what the conversation wants sent, and have read what it wants said."""
        outbox, self._conversation.outbox = self._conversation.outbox, []
        sent = sum(self._process.write_line(line) for line in outbox)
        if sent < len(outbox) and self._process.pid is not None and not self._closing:
            self._conversation.broken = "Codex does not read what it is told."
            self._reader.cancel()
        self._unread.extend(self._conversation.said)
        self._conversation.said.clear()
        self._changed.set()
        self._keep_time()

    def _keep_time(self) -> None:
        turn_id = self._conversation.retrying
        if turn_id is None:
            self._disarm()
        elif self._impatience is None:
            loop = asyncio.get_running_loop()
            self._impatience = loop.call_later(self._network_patience_s, self._lose_patience, turn_id)

    def _lose_patience(self, turn_id: str) -> None:
        self._impatience = None
        self._conversation.lose_patience(turn_id, self._network_patience_s)
        self._pass_on()

    def _disarm(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
