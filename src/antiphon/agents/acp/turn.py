"""One turn of an ACP agent's while it runs: what it says, does, asks and costs."""

from collections.abc import Callable

from antiphon.agents.acp import tools, troubles
from antiphon.agents.acp.protocol import Chunk, PermissionRequest, PlanUpdate, TokenCounts, ToolCall
from antiphon.agents.acp.questions import Question
from antiphon.agents.acp.tools import Tool
from antiphon.agents.reply import Reply
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import Asked, Ended, Said, Text, Thought


class Turn:
    """What is known of a turn that has not ended.

    Attributes:
        turn_id: The host's id.
        number: The id of the request that began it; its answer ends it.
        stopping: The agent was asked to stop it.
        failure: Why the host gave it up.
        questions: The requests that wait for a person, by the id that the host knows.
        tools: Its tool calls, by the agent's id.
        messages: The agent's ids of the messages that it said.
        acted: Whether anything came of it.
        unsayable: The kinds of content that came and are no text.
    """

    def __init__(self, turn_id: str, number: int, say: Callable[[Said], None]) -> None:
        self.turn_id = turn_id
        self.number = number
        self.stopping = False
        self.failure: Problem | None = None
        self.questions: dict[str, Question] = {}
        self.tools: dict[str, Tool] = {}
        self.messages: set[str] = set()
        self.acted = False
        self.unsayable: set[str] = set()
        self._say = say
        self._reply = Reply()
        self._thoughts = Reply()
        self._part = 0
        """Which part of the answer comes: where messages have no ids, a tool call is what parts them."""
        self._plans = 0

    @property
    def waiting_tools(self) -> list[Tool]:
        """Those whose start was not said yet."""
        return [tool for tool in self.tools.values() if not tool.started]

    def speak(self, chunk: Chunk) -> None:
        """A piece of the answer came."""
        if words := self._words(chunk):
            self.start_tools()
            if text := self._reply.piece(self._message(chunk), words):
                self._say(Text(turn_id=self.turn_id, text=text))

    def think(self, chunk: Chunk) -> None:
        """A piece of a thought came."""
        if (words := self._words(chunk)) and (text := self._thoughts.piece(self._message(chunk), words)):
            self._say(Thought(turn_id=self.turn_id, text=text))

    def use(self, told: ToolCall) -> None:
        """A tool call was told of for the first time, or has changed."""
        tool, known = self._tool(told)
        if tool.ended:
            return
        if tool.status in tools.ENDS:
            self._start(tool)
            self._say(tool.end(self.turn_id))
        elif tool.status == "in_progress" or (known and told.raw_input):
            self._start(tool)

    def ask(self, number: int | str, request: PermissionRequest) -> Question:
        """The agent asks a person. It is not asked yet: `wait_for` does that."""
        tool, _ = self._tool(request.tool_call)
        return Question(number=number, tool=tool, offered=request.options)

    def wait_for(self, question: Question) -> None:
        """Put a question to a person."""
        self._start(question.tool)
        self.questions[question.request_id] = question
        self._say(
            Asked(
                turn_id=self.turn_id,
                request_id=question.request_id,
                question=question.text,
                tool=question.tool.name,
                options=question.options,
            )
        )

    def plan(self, update: PlanUpdate) -> None:
        """The agent has made a plan, or changed it."""
        self._plans += 1
        self.acted = True
        for said in tools.plan(self.turn_id, f"plan-{self._plans}", update.entries):
            self._say(said)

    def start_tools(self) -> None:
        """Say the starts that waited for more to be known."""
        for tool in self.waiting_tools:
            self._start(tool)

    def end(self, stop_reason: str, problem: Problem | None, spent: TokenCounts | None, cost_usd: float) -> None:
        """Say the last word on it."""
        self.start_tools()
        error = self.failure or problem
        if error is None and stop_reason not in ("end_turn", "cancelled"):
            unknown = f"The agent stopped for a reason that is not known here: {stop_reason}."
            error = troubles.failed(troubles.CUT.get(stop_reason, unknown))
        usage = Usage(
            input_tokens=spent.given if spent else 0,
            output_tokens=spent.output_tokens if spent else 0,
            cost_usd=cost_usd,
        )
        cancelled = error is None and stop_reason == "cancelled"
        told = usage if usage != Usage() and usage.sound else None
        self._say(Ended(turn_id=self.turn_id, error=error, cancelled=cancelled, usage=told))

    def _words(self, chunk: Chunk) -> str:
        words = chunk.content.words
        if words is None:
            self.unsayable.add(chunk.content.type)
            return ""
        self.acted = self.acted or bool(words)
        if chunk.message_id is not None:
            self.messages.add(chunk.message_id)
        return words

    def _message(self, chunk: Chunk) -> str:
        return chunk.message_id or f"#{self._part}"

    def _tool(self, told: ToolCall) -> tuple[Tool, bool]:
        """The tool call that is told of, with what is new of it, and whether it was known."""
        self.acted = True
        known = told.tool_call_id in self.tools
        if not known:
            self._part += 1
        tool = self.tools.setdefault(told.tool_call_id, Tool(told.tool_call_id))
        tool.take(told)
        return tool, known

    def _start(self, tool: Tool) -> None:
        if not tool.started:
            self._say(tool.start(self.turn_id))
