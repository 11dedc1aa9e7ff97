"""An agent in memory that does what a script says: for simulations, benchmarks, and tests of what drives agents.

    agent = ScriptedAgent(lambda text: [Say("thinking… "), Hold("gate"), Say(f"done with {text}")])
    ...
    agent.release("gate")

It keeps the port's contract as every adapter does, and runs the same suite. It starts no process, and by itself it
takes no time: only `Wait` does, and asks a `Clock` for it. A step of your own is a `Step` with a `play`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable

import msgspec

from antiphon.agents.prompts import as_text
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import (
    AgentSpec,
    Asked,
    Began,
    Capabilities,
    Ended,
    Exited,
    OpenFailed,
    Part,
    Said,
    Steered,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Used,
    Wrote,
)
from antiphon.ports.clock import Clock


class Step(msgspec.Struct, frozen=True):
    """Something that the agent does in a turn."""

    def play(self, turn: "Turn") -> bool:
        """Do it; false while there is something to wait for: then it is played again when something has changed."""
        raise NotImplementedError


class Say(Step, frozen=True):
    """Say a piece of the answer."""

    text: str

    def play(self, turn: "Turn") -> bool:
        turn.words_out += len(self.text.split())
        turn.tell(Text(turn_id=turn.id, text=self.text))
        return True


class Think(Step, frozen=True):
    """Say a thought."""

    text: str

    def play(self, turn: "Turn") -> bool:
        turn.tell(Thought(turn_id=turn.id, text=self.text))
        return True


class UseTool(Step, frozen=True):
    """Start a tool, do the steps, end the tool."""

    name: str
    steps: tuple[Step, ...] = ()

    def play(self, turn: "Turn") -> bool:
        tool_id = f"tool_{turn.number()}"
        turn.tell(ToolStarted(turn_id=turn.id, tool_id=tool_id, name=self.name))
        turn.steps.extendleft(reversed((*self.steps, _EndTool(tool_id))))
        return True


class _EndTool(Step, frozen=True):
    tool_id: str

    def play(self, turn: "Turn") -> bool:
        turn.tell(ToolEnded(turn_id=turn.id, tool_id=self.tool_id))
        return True


class Hold(Step, frozen=True):
    """Wait until `ScriptedAgent.release` names the gate."""

    gate: str

    def play(self, turn: "Turn") -> bool:
        return turn.agent.released(self.gate)


class Wait(Step, frozen=True):
    """Let time pass by the agent's clock."""

    seconds: float

    def play(self, turn: "Turn") -> bool:
        return turn.slept(self.seconds)


class Ask(Step, frozen=True):
    """Ask a person; denied, say `denied` and go on."""

    question: str
    denied: str = "denied\n"

    def play(self, turn: "Turn") -> bool:
        if turn.request_id is None:
            turn.request_id = f"{turn.id}:{turn.number()}"
            turn.tell(Asked(turn_id=turn.id, request_id=turn.request_id, question=self.question))
        answer = turn.conversation.answers.get(turn.request_id)
        if answer is None:
            return False
        turn.request_id = None
        allowed, _ = answer
        return allowed or Say(self.denied).play(turn)


class Fail(Step, frozen=True):
    """End the turn with this error."""

    detail: str
    code: str = "agent_failed"

    def play(self, turn: "Turn") -> bool:
        turn.error = Problem(code=self.code, detail=self.detail)
        turn.steps.clear()
        return True


class Die(Step, frozen=True):
    """Exit in the middle of the turn."""

    exit_code: int = 1

    def play(self, turn: "Turn") -> bool:
        turn.conversation.die(self.exit_code)
        return True


class IgnoreCancel(Step, frozen=True):
    """Take no notice of a cancel from here on; only `close` ends the turn then."""

    def play(self, turn: "Turn") -> bool:
        turn.stubborn = True
        return True


class AnswerLate(Step, frozen=True):
    """After a cancel, do these steps before the turn ends."""

    steps: tuple[Step, ...]

    def play(self, turn: "Turn") -> bool:
        turn.late = self.steps
        return True


class SayAfterEnd(Step, frozen=True):
    """Say a piece of this turn's answer when the turn has ended already."""

    text: str

    def play(self, turn: "Turn") -> bool:
        turn.afterthoughts.append(Text(turn_id=turn.id, text=self.text))
        return True


Script = Callable[[str], Iterable[Step]]


def echo(text: str) -> Iterable[Step]:
    """The script of an agent that says what it hears."""
    return (Say(f"echo: {text}"),)


class ScriptedAgent:
    """The adapter. All its conversations share the script and the gates.

    Args:
        script: The steps for the text of a prompt or of a steer (see `antiphon.agents.prompts.as_text`).
        name: Its name.
        capabilities: What it declares. It behaves accordingly.
        clock: By what it waits; without one `Wait` is not to be used.

    Attributes:
        conversations: Everything that was opened, in order.
        refusal: When set, `open` fails with it.
        opening: Cleared, it makes `open` wait until it is set again.
    """

    def __init__(
        self,
        script: Script = echo,
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities(
            steer=True, interrupt=True, resume=True, permissions=True, rollback=True, usage=True
        )
        self.script = script
        self.clock = clock
        self.conversations: list[ScriptedConversation] = []
        self.refusal: str | None = None
        self.opening = asyncio.Event()
        self.opening.set()
        self._released: set[str] = set()

    async def missing(self) -> str | None:
        return self.refusal

    async def open(self, spec: AgentSpec, resume_token: str | None) -> "ScriptedConversation":
        """Begin a conversation, or go on with one.

        Raises:
            OpenFailed: There is a `refusal`.
        """
        await self.opening.wait()
        if self.refusal:
            raise OpenFailed(self.refusal)
        conversation = ScriptedConversation(self, spec, resume_token)
        self.conversations.append(conversation)
        return conversation

    def release(self, gate: str) -> None:
        """Open a gate, for whoever waits at it and whoever comes later."""
        self._released.add(gate)
        for conversation in self.conversations:
            conversation.notice()

    def released(self, gate: str) -> bool:
        """Whether the gate is open."""
        return gate in self._released


class Turn:
    """A turn that is being played: what a `Step` acts on.

    Attributes:
        id: The turn's id.
        steps: What is still to be done.
        tell: Says something.
        error: Set, it is how the turn ends.
        stubborn: It takes no notice of a cancel.
        late: The steps that follow a cancel.
        afterthoughts: What is said after the end.
        request_id: The question that waits for its answer.
    """

    def __init__(self, conversation: "ScriptedConversation", turn_id: str, text: str, steps: Iterable[Step]) -> None:
        self.conversation = conversation
        self.agent = conversation.agent
        self.tell = conversation.tell
        self.id = turn_id
        self.steps = deque(steps)
        self.error: Problem | None = None
        self.cancelled = False
        self.stubborn = False
        self.late: tuple[Step, ...] = ()
        self.afterthoughts: list[Said] = []
        self.request_id: str | None = None
        self.words_in = len(text.split())
        self.words_out = 0
        self._numbers = 0
        self._sleep: asyncio.Task[None] | None = None

    def number(self) -> int:
        """A number that was not given in this turn before."""
        self._numbers += 1
        return self._numbers

    def slept(self, seconds: float) -> bool:
        """Begin to sleep, or tell whether the sleep is over."""
        if self._sleep is None:
            self._sleep = self.conversation.sleep(seconds)
        if not self._sleep.done():
            return False
        self._sleep = None
        return True

    def heed(self) -> None:
        """Turn off when there was a cancel."""
        if self.cancelled and not self.stubborn:
            self.stubborn = True
            self.request_id = None
            self.steps = deque(self.late)
            if self._sleep:
                self._sleep.cancel()
                self._sleep = None

    def ended(self) -> Iterable[Said]:
        """What is said at its end."""
        usage = Usage(input_tokens=self.words_in, output_tokens=self.words_out)
        told = usage if self.agent.capabilities.usage else None
        if told:
            yield Used(turn_id=self.id, usage=told)
        yield Ended(
            turn_id=self.id,
            error=self.error,
            cancelled=self.cancelled and not self.error,
            usage=told,
            mark=f"after {self.id}",
        )
        yield from self.afterthoughts


class ScriptedConversation:
    """A `RunningAgent`. Its script is played by whoever reads `said`: a step whenever all was read.

    Attributes:
        spec: What it was opened with.
        resumed_from: The token that it was opened with.
        prompts: The id and the text of every prompt.
        cancels: The turn id of every cancel.
        answers: Permission request id -> whether it was allowed, and the note.
    """

    def __init__(self, agent: ScriptedAgent, spec: AgentSpec, resume_token: str | None) -> None:
        self.agent = agent
        self.spec = spec
        self.resumed_from = resume_token
        self.prompts: list[tuple[str, str]] = []
        self.cancels: list[str] = []
        self.answers: dict[str, tuple[bool, str | None]] = {}
        self._waiting: deque[Turn] = deque()
        self._turn: Turn | None = None
        self._unread: deque[Said] = deque()
        self._exited: Exited | None = None
        self._sleeps: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._told = asyncio.Event()
        self._reading = False

    @property
    def pid(self) -> int | None:
        return None

    @property
    def resume_token(self) -> str | None:
        if not self.agent.capabilities.resume:
            return None
        return self.resumed_from or f"conversation of {self.spec.session_id}"

    # What its owner calls

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        text = as_text(parts)
        self.prompts.append((turn_id, text))
        self._waiting.append(Turn(self, turn_id, text, self.agent.script(text)))
        self.notice()

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        turn = next((turn for turn in self._turns() if turn.id == turn_id), None)
        taken = turn is not None and not turn.cancelled and not turn.error
        if turn and taken:
            text = as_text(parts)
            turn.words_in += len(text.split())
            turn.steps.extend((Say("\n"), *self.agent.script(text)))
        ends = (place for place, said in enumerate(self._unread) if isinstance(said, Ended) and said.turn_id == turn_id)
        place = next(ends, len(self._unread))  # the end may lie there unread: this comes before it
        self._unread.insert(place, Steered(turn_id=turn_id, message_id=message_id, taken=taken))
        self.notice()

    async def cancel(self, turn_id: str) -> None:
        self.cancels.append(turn_id)
        for turn in self._turns():
            turn.cancelled |= turn.id == turn_id and not turn.stubborn
        self.notice()

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        self.answers.setdefault(request_id, (allow, note))
        self.notice()

    async def close(self, patience_s: float) -> None:
        self._leave(Exited(reason="closed"))
        if self._reading:
            await self._told.wait()

    async def said(self) -> AsyncGenerator[Said]:
        self._reading = True
        try:
            while not self._exited:
                self._changed.clear()
                while self._unread and not self._exited:
                    yield self._unread.popleft()
                if not self._exited and not self._advance() and not self._unread:
                    await self._changed.wait()
            self._told.set()
            yield self._exited
        finally:
            self._reading = False
            await self._wake_up()

    # What a test calls

    def die(self, exit_code: int | None = 1, detail: str = "") -> None:
        """Exit at once, whatever it is doing."""
        self._leave(Exited(exit_code=exit_code, reason="died", detail=detail))

    def begin(self, turn_id: str, *steps: Step) -> None:
        """Begin a turn by itself, when no other runs."""
        self.tell(Began(turn_id=turn_id))
        self._waiting.append(Turn(self, turn_id, "", steps))
        self.notice()

    def write(self, text: str) -> None:
        """Make a remark that belongs to no turn."""
        self.tell(Wrote(text=text))
        self.notice()

    # The play

    def _turns(self) -> Iterable[Turn]:
        """The turn that runs, and those that were begun since it was last played."""
        return filter(None, (self._turn, *self._waiting))

    def tell(self, said: Said) -> None:
        """Say something."""
        self._unread.append(said)

    def notice(self) -> None:
        """Look again: something has changed."""
        self._changed.set()

    def sleep(self, seconds: float) -> asyncio.Task[None]:
        """Begin to sleep by the agent's clock; its end is noticed."""
        if self.agent.clock is None:
            raise TypeError("an agent that waits needs a clock")
        sleep = asyncio.get_running_loop().create_task(self.agent.clock.sleep(seconds))
        self._sleeps.add(sleep)
        sleep.add_done_callback(self._slept)
        return sleep

    def _slept(self, sleep: asyncio.Task[None]) -> None:
        self._sleeps.discard(sleep)
        self.notice()

    async def _wake_up(self) -> None:
        sleeps = list(self._sleeps)
        for sleep in sleeps:
            sleep.cancel()
        await asyncio.gather(*sleeps, return_exceptions=True)

    def _leave(self, exited: Exited) -> None:
        self._exited = self._exited or exited
        self.notice()

    def _advance(self) -> bool:
        """Play a step of the turn; false when there is nothing that could be done now."""
        if self._turn is None:
            if not self._waiting:
                return False
            self._turn = self._waiting.popleft()
        turn = self._turn
        turn.heed()
        if not turn.steps:
            self._turn = None
            for said in turn.ended():
                self.tell(said)
            return True
        step = turn.steps.popleft()
        done = step.play(turn)
        if not done:
            turn.steps.appendleft(step)
        return done
