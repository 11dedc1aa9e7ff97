"""A running Claude Code: ends the shells that survive an interrupt."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from antiphon.agents import guard
from antiphon.agents.claude.conversation import Conversation
from antiphon.agents.conversing import RunningConversation
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess
from antiphon.ports.agent import Began, Part


class RunningClaude(RunningConversation[Conversation]):
    """A `RunningAgent`. At the end of its input Claude Code leaves when its turn is over, which may take long.

    An interrupt sends SIGTERM to the shell of a running tool, and Claude Code does not look whether it obeys. So what
    is still there of the shells that were begun in that turn is killed before the turn's end is told. What is older
    was left running on purpose.

    Args:
        process: Claude Code, past its opening.
        lines: What it says from now on.
        conversation: The session.
    """

    def __init__(
        self, process: AgentProcess, lines: AsyncIterator[bytes | Overlong], conversation: Conversation
    ) -> None:
        super().__init__("Claude Code", process, lines, conversation)
        self._turn_began: int | None = None

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        self._turn_began = _ticks_since_boot()
        await super().prompt(turn_id, parts)

    def heard(self) -> None:
        """End what a turn that was cut short left running."""
        if any(isinstance(said, Began) for said in self._conversation.said):
            self._turn_began = _ticks_since_boot()
        if not self._conversation.cut_short:
            return
        self._conversation.cut_short = False
        if self.pid is not None and self._turn_began is not None:
            for pid, started in list(_shells(self.pid, self._turn_began)):
                for below, its_start in guard.processes_below(pid).items():
                    guard.signal_process(below, its_start, signal.SIGKILL)
                guard.signal_process(pid, started, signal.SIGKILL)


def _ticks_since_boot() -> int | None:
    """Now, in the unit of a process's start time (proc_pid_stat(5), field 22); None on other systems than Linux."""
    try:
        seconds = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    return int(seconds * os.sysconf("SC_CLK_TCK"))


def _shells(claude: int, since: int) -> Iterator[tuple[int, int]]:
    """The shells of tools that were begun since then, and their start times: each leads a session of its own."""
    for pid, started in guard.processes_below(claude).items():
        try:
            leads = os.getsid(pid) == pid
        except ProcessLookupError:
            continue
        if leads and started >= since:
            yield pid, started
