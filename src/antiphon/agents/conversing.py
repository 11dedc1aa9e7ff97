"""A conversation with a program that talks in lines: moves the lines, hands on what is said, sees to the end.

What the lines mean is the affair of a `Conversation`, which does no I/O and so can be tried with every order of lines.
"""

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess
from antiphon.ports.agent import Exited, Part, Said

log = logging.getLogger("antiphon.agents")

UNREAD_MAX = 1_000
"""How many things may have been said and not been read until the agent is made to wait."""
LAST_WORDS_S = 1.0
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Conversation(Protocol):
    """What an agent's lines mean, and what is to be told it.

    After each call of a method, what is in `outbox` must be sent and what is in `said` handed on, both in their order.

    Attributes:
        outbox: Lines for the agent.
        said: What it said, for the host.
        broken: Why this conversation can't be gone on with in this process; then the process is ended.
    """

    outbox: list[bytes]
    said: deque[Said]
    broken: str | None

    @property
    def resume_token(self) -> str | None:
        """As `RunningAgent.resume_token`."""
        ...

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """As `RunningAgent.prompt`."""
        ...

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """As `RunningAgent.steer`."""
        ...

    def cancel(self, turn_id: str) -> None:
        """As `RunningAgent.cancel`."""
        ...

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        """As `RunningAgent.answer`."""
        ...

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        ...


Talk = TypeVar("Talk", bound=Conversation)


class RunningConversation(Generic[Talk]):
    """A `RunningAgent` made of a process and a conversation. Its reader is a task that `close` ends and awaits.

    The program must leave by itself, sooner or later, when its input ends.

    Args:
        program: What it is called, for a person.
        process: The program, past its opening.
        lines: What it says from now on.
        conversation: What that means.
    """

    def __init__(
        self, program: str, process: AgentProcess, lines: AsyncIterator[bytes | Overlong], conversation: Talk
    ) -> None:
        self._program = program
        self._process = process
        self._lines = lines
        self._conversation = conversation
        self._unread: deque[Said] = deque()
        self._changed = asyncio.Event()
        """Something was said, or something that was said was read."""
        self._closing = False
        self._deaf: asyncio.TimerHandle | None = None
        self._reader = asyncio.get_running_loop().create_task(self._read(), name=f"agent reader: {program}")

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

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        self._conversation.answer(request_id, allow, option_id, note)
        self._pass_on()

    async def close(self, patience_s: float) -> None:
        """End the program: by the end of its input, then TERM, then KILL."""
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

    def heard(self) -> None:
        """Called after each change of the conversation, before what was said is handed on. An adapter may act on it."""

    def over(self) -> None:
        """Called when no more lines come. An adapter lets go of what it holds."""

    def _pass_on(self) -> None:
        """Send what the conversation wants sent, and have read what it wants said."""
        outbox, self._conversation.outbox = self._conversation.outbox, []
        sent = sum(self._process.write_line(line) for line in outbox)
        if sent < len(outbox) and self._process.pid is not None and not self._closing and self._deaf is None:
            # Most often it is just ending: then what it said before is still to be read.
            self._deaf = asyncio.get_running_loop().call_later(LAST_WORDS_S, self._give_up)
        self.heard()
        self._unread.extend(self._conversation.said)
        self._conversation.said.clear()
        self._changed.set()

    def _give_up(self) -> None:
        """It lives on, and something that it was told is lost."""
        self._conversation.broken = f"{self._program} does not read what it is told."
        self._reader.cancel()

    async def _read(self) -> None:
        """Read until the end, which is told in any case."""
        reason = "adapter_failed"
        try:
            reason = await self._read_lines()
        except Exception:
            log.exception("the reader failed", extra={"action": "agent_reader_failed", "agent": self._program})
        finally:
            if self._deaf is not None:
                self._deaf.cancel()
            self.over()
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
        """See to it that nothing of the program runs any more, then say so."""
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
