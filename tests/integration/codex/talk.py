"""A person at a Codex session: says something, listens to what is said, all within half a minute."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from antiphon.agents.codex import CodexAgent
from antiphon.agents.environment import clean_environment
from antiphon.ports.agent import AgentSpec, Ended, Exited, Part, RunningAgent, Said, Text

PATIENCE_S = 30.0
S = TypeVar("S", bound=Said)

CONFIG = """
model = "fake-model"
model_provider = "loop"
[model_providers.loop]
name = "loop"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
[features]
plugins = false
"""


def codex_home(directory: Path, model_url: str) -> Path:
    """A home of Codex's whose model is the loopback server."""
    directory.mkdir(exist_ok=True)
    (directory / "config.toml").write_text(CONFIG.format(url=model_url))
    return directory


def environment(home: Path) -> dict[str, str]:
    """What a host would give an agent, with a home that is nobody's."""
    return clean_environment({"HOME": str(home)}, {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})


class Talk:
    """One open session; everything that was said in it, in order."""

    def __init__(self, running: RunningAgent) -> None:
        self.running = running
        self.heard: list[Said] = []
        self._said: AsyncIterator[Said] = running.said()
        self._turns = 0

    async def until(self, kind: type[S], fits: Callable[[S], bool] = lambda _: True) -> S:
        """Listen until something of that kind is said that fits."""
        async with asyncio.timeout(PATIENCE_S):
            async for said in self._said:
                self.heard.append(said)
                if isinstance(said, kind) and fits(said):
                    return said
        raise AssertionError(f"nothing more is said, and there was no {kind.__name__} in {self.heard}")

    async def say(self, text: str, turn_id: str | None = None) -> str:
        """Prompt; the id of the turn."""
        self._turns += 1
        turn_id = turn_id or f"turn_{self._turns}"
        await self.running.prompt(turn_id, (Part(text=text, message_id=f"msg_{self._turns}"),))
        return turn_id

    async def end(self, turn_id: str) -> Ended:
        """Listen until the turn ends."""
        return await self.until(Ended, lambda ended: ended.turn_id == turn_id)

    async def turn(self, text: str, during: Callable[[str], Awaitable[Any]] | None = None) -> tuple[Ended, str]:
        """A whole turn: how it ended, and the reply. `during` is called with its id once it was accepted."""
        turn_id = await self.say(text)
        if during is not None:
            await during(turn_id)
        ended = await self.end(turn_id)
        return ended, self.reply(turn_id)

    def reply(self, turn_id: str) -> str:
        """What was said in that turn."""
        return "".join(said.text for said in self.heard if isinstance(said, Text) and said.turn_id == turn_id)

    def of(self, kind: type[S]) -> list[S]:
        """Everything of that kind that was heard."""
        return [said for said in self.heard if isinstance(said, kind)]

    async def rest(self) -> list[Said]:
        """Listen to the end; what was said until then and had not been heard."""
        before = len(self.heard)
        async with asyncio.timeout(PATIENCE_S):
            async for said in self._said:
                self.heard.append(said)
        return self.heard[before:]

    async def exit(self) -> Exited:
        """Listen to the end, which is `Exited` and nothing else."""
        said = await self.rest()
        assert [each for each in self.heard if isinstance(each, Exited)] == said[-1:]
        assert isinstance(said[-1], Exited)
        return said[-1]


class Desk:
    """Opens sessions of one Codex agent, and closes them all in the end."""

    def __init__(self, directory: Path, options: dict[str, Any]) -> None:
        self.cwd = directory / "work"
        self.cwd.mkdir(exist_ok=True)
        self.options = options
        self.environment = environment(directory)
        self._open: list[RunningAgent] = []

    async def open(self, resume_token: str | None = None, **more: Any) -> Talk:
        """Open a session."""
        spec = AgentSpec(
            name="codex", session_id="ses_1", cwd=str(self.cwd), environment=self.environment, options=more
        )
        async with asyncio.timeout(2 * PATIENCE_S):
            running = await CodexAgent("codex", self.options).open(spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        """End every session at once."""
        for running in self._open:
            await running.close(0)
