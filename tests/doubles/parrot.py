"""An agent in this process that repeats what it hears, so that a real host can be driven without child processes.

A text may begin with one directive: `[[hold]]` (until released or cancelled), `[[ask QUESTION]]` (a permission
request), `[[fail]]`, `[[stream N]]` (N further pieces).
"""

import asyncio
import re
from collections.abc import AsyncIterator

from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import AgentSpec, Asked, Capabilities, Ended, Exited, Part, Said, Text

DIRECTIVE = re.compile(r"\[\[(\w+) ?([^\]]*)\]\] ?")
USAGE = Usage(input_tokens=1, output_tokens=1)


class Parrot:
    """The adapter. `release` lets every held turn, of all its sessions, end."""

    def __init__(self) -> None:
        self.name = "parrot"
        self.capabilities = Capabilities(interrupt=True, permissions=True, usage=True)
        self.running: list[RunningParrot] = []

    async def open(self, spec: AgentSpec, resume_token: str | None) -> "RunningParrot":
        self.running.append(RunningParrot())
        return self.running[-1]

    async def missing(self) -> str | None:
        return None

    def release(self) -> None:
        for agent in self.running:
            for turn_id, text in list(agent.held.items()):
                del agent.held[turn_id]
                agent.end(turn_id, text)


class RunningParrot:
    pid = None
    resume_token = None

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self._said: asyncio.Queue[Said] = asyncio.Queue()
        self._exited = False

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        text = "\n".join(part.text for part in parts if part.path is None)
        found = DIRECTIVE.match(text)
        directive, rest = (found[1], text[found.end() :]) if found else ("", text)
        if directive == "hold":
            self.held[turn_id] = rest
        elif directive == "ask":
            self.held[turn_id] = rest
            self._said.put_nowait(Asked(turn_id=turn_id, request_id=turn_id, question=found[2] if found else ""))
        elif directive == "fail":
            problem = Problem(code="agent_failed", detail="The parrot was told to fail.")
            self._said.put_nowait(Ended(turn_id=turn_id, error=problem))
        else:
            for number in range(int(found[2]) if found and directive == "stream" else 0):
                self._said.put_nowait(Text(turn_id=turn_id, text=f"{number} "))
            self.end(turn_id, rest)

    def end(self, turn_id: str, text: str) -> None:
        self._said.put_nowait(Text(turn_id=turn_id, text=f"parrot: {text}"))
        self._said.put_nowait(Ended(turn_id=turn_id, usage=USAGE))

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        raise AssertionError("a parrot can't be steered")

    async def cancel(self, turn_id: str) -> None:
        if self.held.pop(turn_id, None) is not None:
            self._said.put_nowait(Ended(turn_id=turn_id, cancelled=True))

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        if (text := self.held.pop(request_id, None)) is not None:
            self.end(request_id, text if allow else "denied")

    async def close(self, patience_s: float) -> None:
        if not self._exited:
            self._exited = True
            self._said.put_nowait(Exited(reason="closed"))

    async def said(self) -> AsyncIterator[Said]:
        while True:
            said = await self._said.get()
            yield said
            if isinstance(said, Exited):
                return
