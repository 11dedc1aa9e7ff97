"""Runs a program for each message."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.command.options import CommandOptions
from antiphon.agents.command.turn import Turn
from antiphon.agents.environment import clean_environment
from antiphon.agents.loopback import Loopback
from antiphon.agents.prompts import as_text
from antiphon.ports.agent import AgentSpec, Capabilities, Exited, Part, Said

LAST_WORDS_S = 1.0


class CommandAgent:
    """A program as an agent.

    Its stdin gets the message as it is, and its end; files are named by their paths, a line each, after the text. Its
    stdout is the answer, as it comes. Exit code 0 completes the turn, any other fails it. Between two messages nothing
    runs. `ANTIPHON_SESSION_ID`, `ANTIPHON_SESSION_KEY` and `ANTIPHON_TURN_ID` are in its environment.

    Args:
        name: Its name in the configuration.
        options: Its table of the configuration; see `CommandOptions`.

    Raises:
        ValueError: An option is missing, unknown or bad.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self.capabilities = Capabilities(interrupt=True, fork=True)
        self._options = CommandOptions.read(options)

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:  # noqa: ARG003
        """The program as it is configured: what it answers, nobody can know, and it need not know any model."""
        return Loopback(
            options=options, model=None, says=str, holds=None, recalls=None, fails=None, answers=None, verbatim=False
        )

    async def missing(self) -> str | None:
        """Whether the program is there, as far as that can be told without a working directory."""
        program, path = self._options.command[0], clean_environment(self._options.environment).get("PATH")
        relative = "/" in program and not Path(program).is_absolute()
        if relative or shutil.which(program, path=path):
            return None
        return f"There is no program {program!r} on this machine's PATH. Install it, or change `command`."

    async def open(self, spec: AgentSpec, resume_token: str | None) -> "RunningCommand":  # noqa: ARG002
        """Take messages. Nothing is started yet, so nothing can fail."""
        return RunningCommand(self._options, spec)


class RunningCommand:
    """A `RunningAgent`. Its programs are run by whoever reads `said`."""

    def __init__(self, options: CommandOptions, spec: AgentSpec) -> None:
        self._options = options
        self._spec = spec
        self._turn: Turn | None = None
        self._closing = False
        self._reading = False
        self._changed = asyncio.Event()
        """A turn was begun, or the end was asked for."""
        self._told = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._turn.pid if self._turn else None

    @property
    def resume_token(self) -> str | None:
        """None: what a program remembers from one message to the next is its own affair."""
        return None

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        if not self._closing:
            self._turn = Turn(turn_id, as_text(parts), self._options, self._spec)
            self._changed.set()

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Do nothing: a program has been told all that it will be told, and `Capabilities.steer` is not declared."""

    async def cancel(self, turn_id: str) -> None:
        if self._turn and self._turn.id == turn_id:
            self._turn.cancel()

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        """Do nothing: a program asks nothing."""

    async def close(self, patience_s: float) -> None:
        self._closing = True
        self._changed.set()
        if self._turn:
            await self._turn.close(patience_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S if self._reading else 0):
                await self._told.wait()

    async def said(self) -> AsyncGenerator[Said]:
        self._reading = True
        try:
            while not self._closing:
                if self._turn is None:
                    self._changed.clear()
                    await self._changed.wait()
                    continue
                async with contextlib.aclosing(self._turn.run()) as pieces:
                    async for said in pieces:
                        yield said
                if not self._closing:
                    ended, self._turn = self._turn.ended(), None
                    yield ended
            self._told.set()
            yield Exited(reason="closed")
        finally:
            self._reading = False
