"""A person at a session with a model behind an OpenAI-compatible endpoint."""

import sys
from pathlib import Path
from typing import Any

from antiphon.agents.openai import OpenAIAgent
from antiphon.ports.agent import AgentSpec, RunningAgent
from integration.codex.talk import PATIENCE_S, Talk, environment

__all__ = ["LAB", "PATIENCE_S", "Desk", "Talk", "environment", "lab"]

LAB = str(Path(__file__).resolve().parents[2] / "doubles" / "mcp_lab.py")


def lab(*arguments: str) -> dict[str, Any]:
    """The table of the MCP server for tests."""
    return {"command": [sys.executable, "-S", LAB, *arguments]}


class Desk:
    """Opens sessions of one agent, and closes them all in the end."""

    def __init__(self, directory: Path, options: dict[str, Any]) -> None:
        self.cwd = directory / "work"
        self.cwd.mkdir(exist_ok=True)
        self.place = directory / "place"
        self.options = {"api_key_env": "", "model": "fake-model", "retries": 1, **options}
        self.environment = environment(directory)
        self._open: list[RunningAgent] = []

    async def open(
        self, resume_token: str | None = None, *, keeps: bool = True, fork_from: str | None = None, **more: Any
    ) -> Talk:
        """Open a session; `more` is added to the agent's table."""
        spec = AgentSpec(
            name="openai",
            session_id="ses_1",
            cwd=str(self.cwd),
            environment=self.environment,
            place=str(self.place) if keeps else None,
            fork_from=fork_from,
        )
        running = await OpenAIAgent("openai", {**self.options, **more}).open(spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        """End every session at once."""
        for running in self._open:
            await running.close(0)
