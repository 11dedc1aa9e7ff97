"""Echo, driven as every agent is: a child process, lines both ways."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.loopback import Loopback
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import LINE_LIMIT, AgentProcess, StartFailed
from antiphon.agents.prompts import as_text
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import (
    MEMORYLESS,
    AgentSpec,
    Asked,
    Capabilities,
    Ended,
    Exited,
    OpenFailed,
    Part,
    Said,
    Steered,
    Text,
    ToolEnded,
    ToolStarted,
    Used,
    Wrote,
)

DIRECTORY = str(Path(__file__).resolve().parent)
PROGRAM = f"import sys; sys.path.append({DIRECTORY!r}); import program; program.main()"
"""Imported, and not run as a script, it need not be compiled each time."""
STDERR_TAIL = 2000
LAST_WORDS_S = 1.0
OPTIONS = (
    {"id": "allow", "name": "Allow", "kind": "allow_once"},
    {"id": "deny", "name": "Deny", "kind": "reject_once"},
)


class EchoAgent:
    """The `echo` agent.

    Args:
        name: Its name in the configuration.
        options: Its table of the configuration. `line_limit`: bytes; a longer line of it fails the turn.

    Raises:
        ValueError: An option is unknown or has a bad value.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        if unknown := set(options) - {"adapter", "line_limit"}:
            raise ValueError(f"echo takes no option {', '.join(sorted(unknown))}")
        limit = options.get("line_limit", LINE_LIMIT)
        if not isinstance(limit, int) or limit < 1:
            raise ValueError("line_limit is a number of bytes")
        self.name = name
        self.capabilities = Capabilities(
            steer=True, interrupt=True, resume=True, permissions=True, rollback=True, usage=True, fork=True
        )
        self._line_limit = limit

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:  # noqa: ARG003
        """Echo has no model: its prompts hold what it is to do. It remembers nothing."""
        return Loopback(
            options=options,
            model=None,
            says=str,
            recalls=None,
            asks=lambda question: f"[[ask {question}]] done",
            fails=lambda reason: f"[[fail {reason}]]",
            dies=lambda code: f"[[exit {code}]]",
            stubborn=lambda gate: f"[[ignore-cancel]] [[stream 1 every 0]] [[hold {gate}]]",
            late=lambda gate, word: f"[[late 0.05]] [[stream 1 every 0]] [[hold {gate}]] {word}",
            spawns=lambda: "[[spawn]]",
        )

    async def missing(self) -> str | None:
        """Nothing ever is: it comes with antiphon."""
        return None

    async def open(self, spec: AgentSpec, resume_token: str | None) -> "RunningEcho":  # noqa: ARG002
        """Start the program. It remembers nothing, so going on with a conversation is the same as beginning one."""
        argv = [sys.executable, "-I", "-S", "-c", PROGRAM]
        try:
            process = await AgentProcess.start(
                argv,
                cwd=spec.cwd,
                environment=spec.environment,
                line_limit=self._line_limit,
                stderr_tail=STDERR_TAIL,
            )
        except StartFailed as error:
            raise OpenFailed(str(error)) from error
        return RunningEcho(process, spec.session_id)


class RunningEcho:
    """A `RunningAgent`. What the program says is read when `said` is."""

    def __init__(self, process: AgentProcess, session_id: str) -> None:
        self._process = process
        self._session_id = session_id
        self._turn_id: str | None = None
        self._steers: dict[str, str] = {}
        """The steers that were not told about yet: message id -> turn id."""
        self._closing = False
        self._reading = False
        self._told = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def resume_token(self) -> str | None:
        return self._session_id

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        self._turn_id = turn_id
        await self._tell("prompt", turn_id, as_text(parts))

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        self._steers[message_id] = turn_id
        await self._tell("steer", turn_id, message_id, as_text(parts))

    async def cancel(self, turn_id: str) -> None:
        await self._tell("cancel", turn_id)

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:  # noqa: ARG002
        await self._tell("answer", request_id, "allow" if allow else "deny", note or "")

    async def close(self, patience_s: float) -> None:
        self._closing = True
        await self._process.end(patience_s, self._process.end_input)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S if self._reading else 0):
                await self._told.wait()

    async def said(self) -> AsyncGenerator[Said]:
        self._reading = True
        try:
            async for line in self._process.lines():
                for said in self._overlong() if isinstance(line, Overlong) else self._translate(line):
                    yield said
            await self._process.end(LAST_WORDS_S)  # it may live on, but it can't say any more
            reason, detail = "closed" if self._closing else "died", self._process.stderr().strip()
            self._told.set()
            yield Exited(exit_code=self._process.exit_code, reason=reason, detail=detail)
        finally:
            self._reading = False

    async def _tell(self, *words: str) -> None:
        line = json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
        if not self._process.write_line(line) and not self._process.gone:
            await self._process.end(0)  # it does not read what it is told: it can't be trusted on

    def _translate(self, line: bytes) -> Iterator[Said]:
        match json.loads(line):
            case ["text", turn_id, text]:
                yield Text(turn_id=turn_id, text=text)
            case ["tool", turn_id, tool_id, name]:
                yield ToolStarted(turn_id=turn_id, tool_id=tool_id, name=name)
            case ["tool_ended", turn_id, tool_id, output]:
                yield ToolEnded(turn_id=turn_id, tool_id=tool_id, output=output)
            case ["ask", turn_id, request_id, question]:
                yield Asked(turn_id=turn_id, request_id=request_id, question=question, tool="ask", options=OPTIONS)
            case ["steered", turn_id, message_id, outcome]:
                if self._steers.pop(message_id, None):
                    yield Steered(turn_id=turn_id, message_id=message_id, taken=outcome == "taken")
            case ["ended", turn_id, outcome, detail, words_in, words_out]:
                usage = Usage(input_tokens=int(words_in), output_tokens=int(words_out))
                error = Problem(code="agent_failed", detail=detail) if outcome == "failed" else None
                yield from self._end(turn_id, error=error, cancelled=outcome == "cancelled", usage=usage)
            case _:
                yield Wrote(text="echo said something that means nothing.")

    def _overlong(self) -> Iterator[Said]:
        """A line that was too long to be read belongs to the turn that runs: its answer can't be whole any more."""
        if self._turn_id:
            detail = "It said a line over the limit, which was not read."
            yield from self._end(self._turn_id, error=Problem(code="agent_failed", detail=detail))

    def _end(
        self, turn_id: str, *, error: Problem | None, cancelled: bool = False, usage: Usage | None = None
    ) -> Iterator[Said]:
        if turn_id != self._turn_id:
            return  # told already
        self._turn_id = None
        for message_id in [each for each, its_turn in self._steers.items() if its_turn == turn_id]:
            del self._steers[message_id]
            yield Steered(turn_id=turn_id, message_id=message_id, taken=False)
        if usage:
            yield Used(turn_id=turn_id, usage=usage)
        yield Ended(turn_id=turn_id, error=error, cancelled=cancelled, usage=usage, mark=MEMORYLESS)
