"""A turn as Claude Code runs it: what it says, does and costs, and which messages of ours it answers."""

from collections.abc import Callable
from typing import Any

from antiphon.agents.claude.protocol import Assistant, Block, Event, Result, StreamEvent
from antiphon.agents.excerpts import shortened
from antiphon.agents.reply import Reply
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import Ended, Said, Steered, Text, Thought, ToolEnded, ToolStarted, Used


class Turn:
    """What is known of a turn that has not ended.

    It may take several turns of Claude Code's: a message that is handed to it while the model speaks is answered in a
    turn of Claude Code's of its own, right after, and here both are one.

    Attributes:
        turn_id: The host's id.
        waiting: The messages of ours that Claude Code has not taken up: by uuid, the id of the steer, or None for the
            message that opens the turn.
        running: Those that it is answering.
        steers: Of which steers nothing was said yet.
        stopping: It is to stop.
        muted: What is said now belongs to a message that was taken back too late: it is not an answer.
        cut: Claude Code says that it was cut short.
        failure: Why it can't count as completed any more.
        last_word: The uuid of the last whole block that the model said in it.
        tools: Its tool calls that have no result.
    """

    def __init__(self, turn_id: str, say: Callable[[Said], None]) -> None:
        self.turn_id = turn_id
        self.waiting: dict[str, str | None] = {}
        self.running: set[str] = set()
        self.steers: set[str] = set()
        self.stopping = False
        self.muted = False
        self.cut = False
        self.failure: Problem | None = None
        self.last_word = ""
        self.tools: set[str] = set()
        self._say = say
        self._reply = Reply()
        self._thoughts = Reply()
        self._message_id = ""
        self._streamed: dict[str, list[str]] = {"text": [], "thinking": []}
        """The blocks of a message that came in pieces and have not come as a whole, by kind."""
        self._wholes = 0
        self._usage = Usage()

    @property
    def owed(self) -> bool:
        """Whether Claude Code still has to say something for a message of ours."""
        return bool(self.waiting or self.running)

    def hear_piece(self, line: StreamEvent) -> None:
        """The model says a piece."""
        event = line.event
        if event.type == "message_start" and event.message is not None:
            self._begin_message(event.message.id)
        elif event.type == "content_block_delta":
            self._hear_delta(line.api_message_id or self._message_id, event)

    def hear_whole(self, line: Assistant) -> None:
        """A block of an answer is complete."""
        main = line.parent_tool_use_id is None
        for block in line.message.blocks:
            if block.type == "tool_use":
                self._start_tool(block)
            elif block.type in self._streamed and main:
                self._hear_block(line.message.id, block)

    def hear_results(self, blocks: list[Block]) -> None:
        """Tools have ended."""
        for block in blocks:
            if block.type == "tool_result" and block.tool_use_id in self.tools:
                self.tools.discard(block.tool_use_id)
                outcome = "failed" if block.is_error else "completed"
                output = shortened(_words(block.content))
                self._say(ToolEnded(turn_id=self.turn_id, tool_id=block.tool_use_id, outcome=outcome, output=output))

    def broke_off(self) -> None:
        """The model is asked again: what is not complete may come again from its beginning."""
        self._reply.broke_off()
        self._thoughts.broke_off()
        for keys in self._streamed.values():
            keys.clear()

    def count(self, result: Result, cost_usd: float) -> None:
        """Take in what a turn of Claude Code's has cost."""
        spent = result.usage
        given = spent.input_tokens + spent.cache_creation_input_tokens + spent.cache_read_input_tokens if spent else 0
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + given,
            output_tokens=self._usage.output_tokens + (spent.output_tokens if spent else 0),
            cost_usd=self._usage.cost_usd + cost_usd,
        )

    def tell_steer(self, message_id: str, taken: bool) -> None:
        """Say, once, what became of a steer."""
        if message_id in self.steers:
            self.steers.discard(message_id)
            self._say(Steered(turn_id=self.turn_id, message_id=message_id, taken=taken))

    def end(self, mark: str | None) -> None:
        """Say the last word on it; `mark` is where the conversation stands then."""
        for message_id in sorted(self.steers):
            self.tell_steer(message_id, taken=False)
        usage = self._usage if self._usage != Usage() else None
        if usage is not None:
            self._say(Used(turn_id=self.turn_id, usage=usage))
        cancelled = self.cut and self.failure is None
        self._say(Ended(turn_id=self.turn_id, error=self.failure, cancelled=cancelled, usage=usage, mark=mark))

    def _begin_message(self, message_id: str) -> None:
        if message_id != self._message_id:
            self._message_id = message_id
            for keys in self._streamed.values():
                keys.clear()

    def _hear_delta(self, message_id: str, event: Event) -> None:
        kind, text = ("text", event.delta.text) if event.delta.text else ("thinking", event.delta.thinking)
        if not text:
            return
        self._begin_message(message_id)
        key = f"{message_id}/{event.index}"
        if key not in self._streamed[kind]:
            self._streamed[kind].append(key)
        self._utter(kind, self._reply_of(kind).piece(key, text))

    def _hear_block(self, message_id: str, block: Block) -> None:
        """Blocks become complete in the order in which they were begun; one that was not streamed comes as it is."""
        streamed = self._streamed[block.type]
        if message_id == self._message_id and streamed:
            key = streamed.pop(0)
        else:
            self._wholes += 1
            key = f"{message_id}/whole/{self._wholes}"
        text = block.text if block.type == "text" else block.thinking
        self._utter(block.type, self._reply_of(block.type).whole(key, text))

    def _reply_of(self, kind: str) -> Reply:
        return self._reply if kind == "text" else self._thoughts

    def _utter(self, kind: str, text: str) -> None:
        if text and not self.muted:
            said = Text(turn_id=self.turn_id, text=text) if kind == "text" else Thought(turn_id=self.turn_id, text=text)
            self._say(said)

    def _start_tool(self, block: Block) -> None:
        if block.id not in self.tools and not self.muted:
            self.tools.add(block.id)
            self._say(ToolStarted(turn_id=self.turn_id, tool_id=block.id, name=block.name, input=block.input))


def _words(content: Any) -> str:
    """The content of a tool's result, which is a text or a list of blocks, as a text."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return str(content)
    return "\n".join(map(_word, content))  # pyright: ignore[reportUnknownArgumentType]


def _word(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return str(block)
