"""A running `codex app-server`: keeps the time that Codex may try in vain to reach its model."""

import asyncio
from collections.abc import AsyncIterator

from antiphon.agents.codex.conversation import Conversation
from antiphon.agents.conversing import RunningConversation
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess


class RunningCodex(RunningConversation[Conversation]):
    """A `RunningAgent`. At the end of its input Codex leaves within milliseconds, also in the middle of a turn.

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
        super().__init__("Codex", process, lines, conversation)
        self._network_patience_s = network_patience_s
        self._impatience: asyncio.TimerHandle | None = None

    def heard(self) -> None:
        """Start the time, or stop it."""
        turn_id = self._conversation.retrying
        if turn_id is None:
            self.over()
        elif self._impatience is None:
            loop = asyncio.get_running_loop()
            self._impatience = loop.call_later(self._network_patience_s, self._lose_patience, turn_id)

    def over(self) -> None:
        """Stop the time."""
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _lose_patience(self, turn_id: str) -> None:
        self._impatience = None
        self._conversation.lose_patience(turn_id, self._network_patience_s)
        self._pass_on()
