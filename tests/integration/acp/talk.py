"""A person at a session of a program that speaks ACP."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.acp import AcpAgent
from antiphon.ports.agent import AgentSpec, RunningAgent
from integration.codex.talk import Talk, environment
from real_acp import OPENING_PATIENCE_S

__all__ = ["Desk", "Talk"]


class Desk:
    """Opens sessions of one ACP agent, and closes them all in the end."""

    def __init__(self, directory: Path, table: Mapping[str, Any]) -> None:
        self.cwd = directory / "work"
        self.cwd.mkdir(exist_ok=True)
        self.agent = AcpAgent("acp", table)
        self.environment = environment(directory)
        self._open: list[RunningAgent] = []

    async def open(
        self,
        resume_token: str | None = None,
        extra: Mapping[str, str] | None = None,
        model: str | None = None,
        **more: Any,
    ) -> Talk:
        """Open a session; `extra` is added to the environment."""
        spec = AgentSpec(
            name="acp",
            session_id="ses_1",
            cwd=str(self.cwd),
            model=model,
            environment={**self.environment, **(extra or {})},
            options=more,
        )
        async with asyncio.timeout(OPENING_PATIENCE_S):
            running = await self.agent.open(spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        """End every session at once."""
        for running in self._open:
            await running.close(0)
