"""One turn of Codex's while it runs."""

from antiphon.agents.codex.approvals import Question
from antiphon.agents.codex.protocol import TokenCounts, TokenUsage, TurnError
from antiphon.agents.codex.reply import Reply
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import Part


class Turn:
    """What is known of a turn that has not ended.

    Attributes:
        turn_id: The host's id.
        codex_id: Codex's id; None until Codex has told it.
        reply, thoughts: What of its answer and of its thinking was said.
        tools: The items that are tools and have not ended.
        commands: Those of them that are shell commands.
        steers: The messages handed to it of whose fate nothing was said yet, by id. True once Codex noted one down.
        unsent_steers: Those that wait for `codex_id`.
        questions: The requests that wait for a person, by the id that the host knows.
        usage: What it has cost so far.
        stopping: Codex is to stop it, or was asked to.
        shells_ending: How many of its shells were asked to end and have not been reported ended.
        over: Codex has ended it; only its shells are still to be ended.
        failure: Why the host gave it up.
        output_lost: Something that it said could not be read, so that it can't count as completed any more.
        trouble: What Codex said last about an error.
        retrying: Codex tries to reach its model without an end and has not heard from it since.
    """

    def __init__(self, turn_id: str, spent_before: TokenCounts | None) -> None:
        self.turn_id = turn_id
        self.codex_id: str | None = None
        self.reply = Reply()
        self.thoughts = Reply()
        self.tools: set[str] = set()
        self.commands: set[str] = set()
        self.steers: dict[str, bool] = {}
        self.unsent_steers: list[tuple[str, tuple[Part, ...]]] = []
        self.questions: dict[str, Question] = {}
        self.usage: Usage | None = None
        self.stopping = False
        self.shells_ending = 0
        self.over = False
        self.failure: Problem | None = None
        self.output_lost = False
        self.trouble: TurnError | None = None
        self.retrying = False
        self._spent_before = spent_before

    def count(self, spent: TokenUsage) -> bool:
        """Take in the tokens of the whole thread; returns whether this turn's have changed.

        Codex counts a thread's tokens over its life. Of a thread that was resumed it tells the count at once, so what
        was spent before is known but for the very first turn, before which there was nothing but `last`.
        """
        if self._spent_before is None:
            self._spent_before = TokenCounts(
                input_tokens=spent.total.input_tokens - spent.last.input_tokens,
                output_tokens=spent.total.output_tokens - spent.last.output_tokens,
            )
        before, self.usage = (
            self.usage or Usage(),
            Usage(
                input_tokens=max(0, spent.total.input_tokens - self._spent_before.input_tokens),
                output_tokens=max(0, spent.total.output_tokens - self._spent_before.output_tokens),
            ),
        )
        return before != self.usage
