"""A person at a Claude Code session, with the real binary and the loopback model server."""

from pathlib import Path
from typing import Any

from antiphon.agents.claude import ClaudeAgent
from antiphon.ports.agent import AgentSpec, RunningAgent
from integration.codex.talk import PATIENCE_S, Talk, environment

__all__ = ["OPENING_PATIENCE_S", "PATIENCE_S", "Desk", "Talk", "claude_options", "environment"]

OPENING_PATIENCE_S = 20.0
"""The binary has 400 MB: on a busy machine it takes a while to begin."""


def claude_options(home: Path, model_url: str) -> dict[str, Any]:
    """The options of a Claude Code whose model is the loopback server, which asks nobody and may do anything."""
    home.mkdir(exist_ok=True)
    return {
        "home": str(home),
        "permission_mode": "bypassPermissions",
        "environment": {
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "not a key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "IS_SANDBOX": "1",
        },
    }


class Desk:
    """Opens sessions of one Claude Code agent, and closes them all in the end."""

    def __init__(self, directory: Path, options: dict[str, Any]) -> None:
        self.cwd = directory / "work"
        self.cwd.mkdir(exist_ok=True)
        self.options = options
        self.environment = environment(directory)
        self._open: list[RunningAgent] = []

    def conversations(self) -> list[Path]:
        """The files in which Claude Code keeps its conversations."""
        return list(Path(self.options["home"], "projects").glob("*/*.jsonl"))

    def written(self, words: str) -> bool:
        """Whether these words are in one of them: it writes some time after it has taken a message."""
        return any(words in file.read_text() for file in self.conversations())

    async def open(
        self,
        resume_token: str | None = None,
        extra: dict[str, str] | None = None,
        model: str | None = None,
        **more: Any,
    ) -> Talk:
        """Open a session; `extra` is added to the environment."""
        spec = AgentSpec(
            name="claude",
            session_id="ses_1",
            cwd=str(self.cwd),
            model=model,
            environment={**self.environment, **(extra or {})},
            options=more,
        )
        running = await ClaudeAgent("claude", self.options).open(spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        """End every session at once."""
        for running in self._open:
            await running.close(0)
