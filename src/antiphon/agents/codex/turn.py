"""One turn of Codex's while it runs: what it says, does and costs, and what became of the messages handed to it."""

from collections.abc import Callable

from antiphon.agents import jsonrpc
from antiphon.agents.codex import protocol, tools, troubles
from antiphon.agents.codex.approvals import Question
from antiphon.agents.codex.protocol import Item, TokenCounts
from antiphon.agents.reply import Reply
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import Ended, Part, Said, Steered, Text, Thought, Used, Wrote


class Turn:
    """What is known of a turn that has not ended.

    Attributes:
        turn_id: The host's id.
        codex_id: Codex's id; None until Codex has told it.
        active: Codex has begun it.
        commands: Its shell commands that have not ended.
        steers: The messages handed to it of whose fate nothing was said yet, by id. True once Codex noted one down.
        unsent_steers: Those that wait for it to be active.
        questions: The requests that wait for a person, by the id that the host knows.
        stopping: Codex is to stop it, or was asked to.
        shells_awaited: How many answers about its shells are awaited, when they are being ended.
        over: Codex has ended it; only its shells may still have to be ended.
        failure: Why the host gave it up.
        output_lost: Something that it said could not be read, so that it can't count as completed any more.
        trouble: What Codex said last about an error.
        retrying: Codex tries to reach its model without an end and has not heard from it since.
    """

    def __init__(self, turn_id: str, spent_before: TokenCounts | None, say: Callable[[Said], None]) -> None:
        self.turn_id = turn_id
        self.codex_id: str | None = None
        self.active = False
        self.commands: set[str] = set()
        self.steers: dict[str, bool] = {}
        self.unsent_steers: list[tuple[str, tuple[Part, ...]]] = []
        self.questions: dict[str, Question] = {}
        self.stopping = False
        self.shells_awaited = 0
        self.over = False
        self.failure: Problem | None = None
        self.output_lost = False
        self.trouble: protocol.TurnError | None = None
        self.retrying = False
        self._say = say
        self._reply = Reply()
        self._thoughts = Reply()
        self._tools: set[str] = set()
        self._usage: Usage | None = None
        self._spent_before = spent_before

    def hear(self, call: jsonrpc.Call) -> bool:
        """Take in what Codex tells about this turn; false when it is nothing that is understood here.

        Raises:
            BadLine: It does not have the form that its method promises.
        """
        match call.method:
            case "item/agentMessage/delta":
                delta = call.read(protocol.Delta)
                self._go_on()
                self._say_text(self._reply.piece(delta.item_id, delta.delta))
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                delta = call.read(protocol.Delta)
                self._go_on()
                self._say_thought(self._thoughts.piece(_thought_id(delta), delta.delta))
            case "item/started":
                self._item_started(call.read(protocol.ItemChanged).item)
            case "item/completed":
                self._item_completed(call.read(protocol.ItemChanged).item)
            case "thread/tokenUsage/updated":
                self._count(call.read(protocol.UsageChanged).token_usage)
            case "error":
                self._hear_trouble(call.read(protocol.Trouble))
            case _:
                return False
        return True

    def end(self, status: str, problem: Problem | None, mark: str | None) -> None:
        """Say the last word on it; `mark` is where the thread stands then.

        A steer that Codex noted down without going on afterwards is not taken: the answer was complete already, so it
        needs a turn of its own. When the turn was cut short, what is noted down is part of what was cut.
        """
        self.over = True
        for message_id, noted in self.steers.items():
            taken = noted and status != "completed"
            self._say(Steered(turn_id=self.turn_id, message_id=message_id, taken=taken))
        self.steers.clear()
        failure = self.failure if self.output_lost or status != "completed" else None
        error = failure or problem
        cancelled = status == "interrupted" and error is None
        self._say(Ended(turn_id=self.turn_id, error=error, cancelled=cancelled, usage=self._usage, mark=mark))

    def say_missed(self, items: list[Item]) -> None:
        """Say what only the end of the turn tells."""
        for item in items:
            if item.type == "agentMessage":
                self._say_text(self._reply.whole(item.id, item.text or ""))

    def _item_started(self, item: Item) -> None:
        if item.type == "userMessage":
            self._note(item)
        else:
            self._go_on()
            self._start_tool(item)

    def _item_completed(self, item: Item) -> None:
        match item.type:
            case "userMessage":
                self._note(item)
            case "agentMessage":
                self._go_on()
                self._say_text(self._reply.whole(item.id, item.text or ""))
            case "reasoning":
                self._go_on()
                for index, text in enumerate(item.summary):
                    self._say_thought(self._thoughts.whole(f"{item.id}/summary/{index}", text))
            case _:
                self._start_tool(item)
                self._end_tool(item)

    def _start_tool(self, item: Item) -> None:
        started = tools.started(self.turn_id, item)
        if started is not None and item.id not in self._tools:
            self._tools.add(item.id)
            if item.type == tools.SHELL:
                self.commands.add(item.id)
            self._say(started)

    def _end_tool(self, item: Item) -> None:
        if item.id in self._tools:
            self._tools.discard(item.id)
            self.commands.discard(item.id)
            self._say(tools.ended(self.turn_id, item))

    def _hear_trouble(self, trouble: protocol.Trouble) -> None:
        self.trouble = trouble.error
        if trouble.will_retry:
            self.retrying = troubles.endless(trouble.error)
            self._break_off()
            self._say(Wrote(text=troubles.told(trouble.error)))

    def _go_on(self) -> None:
        """The model was heard: it is reached again, and has taken up what was noted down before."""
        self.retrying = False
        for message_id in [message_id for message_id, noted in self.steers.items() if noted]:
            del self.steers[message_id]
            self._say(Steered(turn_id=self.turn_id, message_id=message_id, taken=True))

    def _note(self, item: Item) -> None:
        """Codex put a message of the user into the thread: the one that opened the turn, or a steer.

        For a steer it breaks off what the model is saying, forgets what was not complete, and asks anew.
        """
        if item.client_id in self.steers:
            self.steers[item.client_id] = True
            self._break_off()

    def _break_off(self) -> None:
        self._reply.broke_off()
        self._thoughts.broke_off()

    def _count(self, spent: protocol.TokenUsage) -> None:
        """Take in the tokens that the whole thread has spent.

        Codex counts over a thread's life. Of a thread that was resumed it tells the count at once, so what was spent
        before is known but for the very first turn, before which there was nothing but `last`.
        """
        if self._spent_before is None:
            self._spent_before = TokenCounts(
                input_tokens=spent.total.input_tokens - spent.last.input_tokens,
                output_tokens=spent.total.output_tokens - spent.last.output_tokens,
            )
        usage = Usage(
            input_tokens=max(0, spent.total.input_tokens - self._spent_before.input_tokens),
            output_tokens=max(0, spent.total.output_tokens - self._spent_before.output_tokens),
        )
        if usage != (self._usage or Usage()):
            self._usage = usage
            self._say(Used(turn_id=self.turn_id, usage=usage))

    def _say_text(self, text: str) -> None:
        if text:
            self._say(Text(turn_id=self.turn_id, text=text))

    def _say_thought(self, text: str) -> None:
        if text:
            self._say(Thought(turn_id=self.turn_id, text=text))


def _thought_id(delta: protocol.Delta) -> str:
    if delta.summary_index is not None:
        return f"{delta.item_id}/summary/{delta.summary_index}"
    return f"{delta.item_id}/content/{delta.content_index}"
