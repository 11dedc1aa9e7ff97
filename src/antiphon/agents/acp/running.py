"""A running ACP agent: says what waited for more to come, when nothing more comes."""

import asyncio
from collections.abc import AsyncIterator

from antiphon.agents.acp.conversation import Conversation
from antiphon.agents.conversing import RunningConversation
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess

HELD_BACK_S = 0.5
"""How long what an agent tells in pieces waits for the next of them."""


class RunningAcp(RunningConversation[Conversation]):
    """A `RunningAgent`. Programs that speak ACP leave at the end of their input; those that don't are ended."""

    def __init__(
        self, program: str, process: AgentProcess, lines: AsyncIterator[bytes | Overlong], conversation: Conversation
    ) -> None:
        super().__init__(program, process, lines, conversation)
        self._letting_go: asyncio.TimerHandle | None = None

    def heard(self) -> None:
        """Start the time, or stop it."""
        if not self._conversation.holds_back:
            self.over()
        elif self._letting_go is None:
            self._letting_go = asyncio.get_running_loop().call_later(HELD_BACK_S, self._let_go)

    def over(self) -> None:
        """Stop the time."""
        if self._letting_go is not None:
            self._letting_go.cancel()
            self._letting_go = None

    def _let_go(self) -> None:
        self._letting_go = None
        self._conversation.let_go()
        self._pass_on()
