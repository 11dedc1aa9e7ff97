"""A turn as pi runs it: what it says, does and costs, and how it ends."""

from collections.abc import Callable

from antiphon.agents.excerpts import shortened
from antiphon.agents.pi.protocol import Block, Delta, Line, Message
from antiphon.agents.reply import Reply
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import Ended, Said, Text, Thought, ToolEnded, ToolStarted, Used

DETAIL_MAX = 2_000


class Turn:
    """What is known of a turn that has not ended.

    Attributes:
        turn_id: The host's id.
        active: pi works on it.
        pending: pi has stopped for a while and says that it goes on: it tries again, or puts a summary in the place of
            what was said.
        begun: It has worked on it.
        stopping: It is to stop.
        failure: Why it can't count as completed any more.
    """

    def __init__(self, turn_id: str, say: Callable[[Said], None]) -> None:
        self.turn_id = turn_id
        self.active = False
        self.pending = False
        self.begun = False
        self.stopping = False
        self.failure: str | None = None
        self._say = say
        self._reply = Reply()
        self._thoughts = Reply()
        self._messages = 0
        self._last_stop: str | None = None
        self._last_error: str | None = None
        self._usage = Usage()
        self._tools: set[str] = set()

    def hear_piece(self, delta: Delta) -> None:
        """The model says a piece."""
        key = f"{self._messages}/{delta.content_index}"
        if delta.type == "text_delta":
            self._utter(self._reply.piece(key, delta.delta))
        elif delta.type == "thinking_delta":
            self._think(self._thoughts.piece(key, delta.delta))

    def hear_whole(self, message: Message) -> None:
        """The model has said a message: what of it did not come in pieces is said now.

        One that broke off may come again from its beginning.
        """
        self._last_stop, self._last_error = message.stop_reason, message.error_message
        self._count(message)
        if message.stop_reason == "error":
            self._reply.broke_off()
            self._thoughts.broke_off()
            self._messages += 1
            return
        blocks = [Block(type="text", text=message.content)] if isinstance(message.content, str) else message.content
        for index, block in enumerate(blocks):
            key = f"{self._messages}/{index}"
            if block.type == "text":
                self._utter(self._reply.whole(key, block.text))
            elif block.type == "thinking":
                self._think(self._thoughts.whole(key, block.thinking))
        self._messages += 1

    def start_tool(self, line: Line) -> None:
        """A tool runs."""
        self._tools.add(line.tool_call_id)
        self._say(ToolStarted(turn_id=self.turn_id, tool_id=line.tool_call_id, name=line.tool_name, input=line.args))

    def end_tool(self, line: Line) -> None:
        """A tool has ended."""
        if line.tool_call_id in self._tools:
            self._tools.discard(line.tool_call_id)
            outcome = "failed" if line.is_error else "completed"
            output = shortened(line.output())
            self._say(ToolEnded(turn_id=self.turn_id, tool_id=line.tool_call_id, outcome=outcome, output=output))

    def end(self) -> None:
        """Say the last word on it."""
        usage = self._usage if self._usage != Usage() else None
        if usage is not None:
            self._say(Used(turn_id=self.turn_id, usage=usage))
        cancelled = self.failure is None and self.stopping and self._last_stop != "stop"
        failure = self.failure
        if failure is None and not cancelled and self._last_stop in ("error", "aborted"):
            failure = self._last_error or "pi says that the turn failed, but not why."
        error = Problem(code="agent_failed", detail=failure[:DETAIL_MAX]) if failure else None
        self._say(Ended(turn_id=self.turn_id, error=error, cancelled=cancelled, usage=usage))

    def _count(self, message: Message) -> None:
        if message.usage is not None:
            spent = message.usage
            self._usage = Usage(
                input_tokens=self._usage.input_tokens + spent.input + spent.cache_read + spent.cache_write,
                output_tokens=self._usage.output_tokens + spent.output,
                cost_usd=self._usage.cost_usd + spent.cost.total,
            )

    def _utter(self, text: str) -> None:
        if text:
            self._say(Text(turn_id=self.turn_id, text=text))

    def _think(self, text: str) -> None:
        if text:
            self._say(Thought(turn_id=self.turn_id, text=text))
