"""One message, one process."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Callable

from antiphon.agents.command.options import CommandOptions
from antiphon.agents.environment import clean_environment
from antiphon.agents.process import AgentProcess, StartFailed
from antiphon.core.session import Problem
from antiphon.ports.agent import MEMORYLESS, AgentSpec, Ended, Text

STDERR_TAIL = 4000


class Turn:
    """A run of the program. `run` it to its end, then ask how it `ended`."""

    def __init__(self, turn_id: str, text: str, options: CommandOptions, spec: AgentSpec) -> None:
        self.id = turn_id
        self._text = text
        self._options = options
        self._spec = spec
        self._process: AgentProcess | None = None
        self._start_failed: str | None = None
        self._cancelled = False
        self._timed_out = False
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def pid(self) -> int | None:
        """The program, while it runs."""
        return self._process.pid if self._process else None

    async def run(self) -> AsyncGenerator[Text]:
        """The answer, piece by piece, until nothing of the program runs any more.

        Pieces are whole characters; bytes that are not UTF-8 become U+FFFD.
        """
        if self._cancelled:
            return
        try:
            self._process = await self._start()
        except StartFailed as error:
            self._start_failed = str(error)
            return
        try:
            self._begin(self._process)
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            async for chunk in self._process.chunks():
                if text := decoder.decode(chunk):
                    yield Text(turn_id=self.id, text=text)
            if text := decoder.decode(b"", final=True):
                yield Text(turn_id=self.id, text=text)
            await self._process.wait()
        finally:
            for timer in self._timers:
                timer.cancel()
            self._process.kill()

    def cancel(self) -> None:
        """End the program, politely first. One that has come to its end by itself has not been cancelled."""
        if self._cancelled or self._timed_out or (self._process and self._process.exit_code is not None):
            return
        self._cancelled = True
        if self._process:
            self._end(self._process)

    async def close(self, patience_s: float) -> None:
        """End the program; nothing of it runs afterwards."""
        self._cancelled = True
        if self._process:
            await self._process.end(patience_s)

    def ended(self) -> Ended:
        """How it ended, once `run` is over."""
        if self._cancelled:
            return Ended(turn_id=self.id, cancelled=True)
        if self._start_failed:
            return self._failed(self._start_failed, "agent_unavailable")
        program = repr(self._options.command[0])
        if self._timed_out:
            return self._failed(f"{program} did not come to an end within {self._options.timeout_s:g} s.")
        if self._process and self._process.exit_code == 0:
            return Ended(turn_id=self.id, mark=MEMORYLESS)
        ending = self._process.ending if self._process else "it was not started"
        return self._failed(f"{program} failed: {ending}.")

    def _failed(self, why: str, code: str = "agent_failed") -> Ended:
        stderr = self._process.stderr().strip() if self._process else ""
        return Ended(turn_id=self.id, error=Problem(code=code, detail=f"{why} {stderr}".strip()))

    async def _start(self) -> AgentProcess:
        told = {
            "ANTIPHON_SESSION_ID": self._spec.session_id,
            "ANTIPHON_SESSION_KEY": self._spec.session_key,
            "ANTIPHON_TURN_ID": self.id,
        }
        extra = {**self._options.environment, **{name: value for name, value in told.items() if value is not None}}
        return await AgentProcess.start(
            self._options.command,
            cwd=self._spec.cwd,
            environment={**(self._spec.environment or clean_environment()), **clean_environment(extra, host={})},
            stderr_tail=STDERR_TAIL,
        )

    def _begin(self, process: AgentProcess) -> None:
        """Say the message, and set the clock. A cancel may have come while the program started."""
        process.write(self._text.encode(errors="replace"))
        process.end_input()
        if self._cancelled:
            self._end(process)
        elif self._options.timeout_s is not None:
            self._later(self._options.timeout_s, self._time_up, process)

    def _time_up(self, process: AgentProcess) -> None:
        if not self._cancelled:
            self._timed_out = True
            self._end(process)

    def _end(self, process: AgentProcess) -> None:
        process.terminate()
        self._later(self._options.patience_s, process.kill)

    def _later(self, delay_s: float, act: Callable[..., None], *arguments: AgentProcess) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, act, *arguments))
