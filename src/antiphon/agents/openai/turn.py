"""One turn: asks the model, runs the tools that it calls, asks again, until it has answered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from antiphon.agents.excerpts import shortened
from antiphon.agents.openai.completion import Call, Completion, Piece
from antiphon.agents.openai.context import left_out, tokens
from antiphon.agents.openai.endpoint import Endpoint
from antiphon.agents.openai.prompts import as_content
from antiphon.agents.openai.protocol import Answer, Open, Prompt, Steer
from antiphon.agents.openai.toolbox import Outcome, Tool, Toolbox, may_run_unasked
from antiphon.agents.openai.transcript import Transcript
from antiphon.agents.openai.troubles import Failed, TooLong
from antiphon.core.session import Usage
from antiphon.ports.agent import Asked, Said, Steered, Text, Thought, ToolEnded, ToolStarted, Used, Wrote

ONCE = {"id": "allow", "name": "Allow", "kind": "allow_once"}
SESSION = {"id": "allow_session", "name": "Allow this tool until the agent ends", "kind": "allow_always"}
DENY = {"id": "deny", "name": "Deny", "kind": "reject_once"}
DENIED = "This call was denied."
INSTEAD = "Don't try it in another way; go on without it, or say what you can't do."
SEPARATOR = "\n\n"
NOTHING = "[There was no answer.]"


class Conversation(msgspec.Struct, kw_only=True, eq=False):
    """What the turns of a conversation share.

    Attributes:
        settings: What the host wants.
        endpoint, toolbox, transcript: Where the model, the tools and the past are.
        say: Takes what is for the host.
        begun: Called when a turn's beginning is on disk.
        heed: Takes in everything that the host has said so far.
        allowed: The tools that a person has let run without being asked again.
    """

    settings: Open
    endpoint: Endpoint
    toolbox: Toolbox
    transcript: Transcript
    say: Callable[[Said], None]
    begun: Callable[[], None]
    heed: Callable[[], Awaitable[None]]
    allowed: set[str]


class Turn:
    """A turn from its prompt to its end, which its owner tells.

    Attributes:
        turn_id: The host's id.
        usage: What it took so far; None when the server does not tell.
        started: It has begun to run.
        cancelled: A person wants it to stop.
    """

    def __init__(self, conversation: Conversation, prompt: Prompt) -> None:
        self.turn_id = prompt.turn_id
        self.usage: Usage | None = None
        self.started = False
        self.cancelled = False
        self._prompt = prompt
        self._conversation = conversation
        self._say = conversation.say
        self._transcript = conversation.transcript
        self._steers: list[Steer] = []
        self._spoke = False
        self._apart = False
        """The next text begins a new message after one that was said."""
        self._tools = 0
        self._answers: dict[str, asyncio.Future[Answer]] = {}

    async def run(self) -> None:
        """Answer.

        Raises:
            Failed: It can't be answered.
            asyncio.CancelledError: It was cancelled.
        """
        self.started = True
        if self.cancelled:
            raise asyncio.CancelledError
        message = {"role": "user", "content": as_content(self._prompt.parts)}
        tools = await self._conversation.toolbox.tools()
        self._make_room([message], tools)
        self._transcript.begin(self.turn_id, message)
        self._conversation.begun()
        for _ in range(self._conversation.settings.max_steps):
            completion = await self._ask(tools)
            for call in completion.calls:
                self._transcript.add(await self._call(call, tools))
            await self._conversation.heed()  # a steer that was sent before the answer's end is part of the turn
            if not self._take_steers() and not completion.calls:
                return
            tools = await self._conversation.toolbox.tools()
        limit = self._conversation.settings.max_steps
        raise Failed(f"The model was asked {limit} times in this turn and is not done. See the `max_steps` option.")

    def steer(self, steer: Steer) -> None:
        """Take a message in, at the next place between two requests."""
        self._steers.append(steer)

    def answer(self, answer: Answer) -> None:
        """Answer a question. One that is gone is ignored."""
        waiting = self._answers.pop(answer.request_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def over(self) -> None:
        """No more steers are taken: say so of those that wait."""
        for steer in self._steers:
            self._say(Steered(turn_id=self.turn_id, message_id=steer.message_id, taken=False))
        self._steers.clear()

    # Asking the model

    async def _ask(self, tools: dict[str, Tool]) -> Completion:
        present = self._transcript.present
        self._make_room(present.messages if present else [], tools)
        self._apart = self._spoke
        completion = await self._conversation.endpoint.ask(
            self._messages(), [tool.offer for tool in tools.values()], self._hear
        )
        self._count(completion)
        self._transcript.add(_spoken(completion))
        if completion.finish_reason == "length":
            self._say(Wrote(text="The answer was cut off where the model's limit of words for an answer is reached."))
        if completion.finish_reason == "content_filter":
            raise Failed("The provider's filter cut the answer off.")
        return completion

    def _messages(self) -> list[dict[str, Any]]:
        system = self._conversation.settings.system_prompt
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        for turn in self._transcript.past:
            messages += turn.messages
        return messages + (self._transcript.present.messages if self._transcript.present else [])

    def _make_room(self, present: list[dict[str, Any]], tools: dict[str, Tool]) -> None:
        """Leave out as many of the oldest turns as it takes.

        Raises:
            TooLong: Even without them it does not fit.
        """
        settings, past = self._conversation.settings, self._transcript.past
        fixed = [settings.system_prompt or "", *(tool.offer for tool in tools.values())]
        needed = sum(map(tokens, [*present, *fixed]))
        turns = left_out([turn.size for turn in past], needed, settings.context_tokens)
        if turns is None:
            what = "This message is" if len(present) == 1 else "This turn has become"
            raise TooLong(
                f"{what} too long for the model: about {needed} tokens with what always goes before it, and "
                f"{settings.context_tokens} may be sent. Say it in fewer words, or see the `context_tokens` option."
            )
        if turns:
            self._transcript.leave_out(turns)
            words = "The conversation has grown too long for the model: its oldest "
            self._say(Wrote(text=words + (f"{turns} turns are" if turns > 1 else "turn is") + " no longer sent to it."))

    def _hear(self, piece: Piece) -> None:
        if piece.thought:
            self._say(Thought(turn_id=self.turn_id, text=piece.thought))
        if piece.text:
            self._transcript.say(piece.text)
            self._say(Text(turn_id=self.turn_id, text=f"{SEPARATOR if self._apart else ''}{piece.text}"))
            self._apart, self._spoke = False, True

    def _count(self, completion: Completion) -> None:
        if completion.usage is not None:
            before = self.usage or Usage()
            self.usage = Usage(
                input_tokens=before.input_tokens + completion.usage.input_tokens,
                output_tokens=before.output_tokens + completion.usage.output_tokens,
            )
            self._say(Used(turn_id=self.turn_id, usage=self.usage))

    def _take_steers(self) -> bool:
        """Put what came meanwhile into the conversation, as one message: many models want theirs in turn."""
        steers, self._steers = self._steers, []
        if steers:
            words = SEPARATOR.join(as_content(steer.parts) for steer in steers)
            self._transcript.add({"role": "user", "content": words})
        for steer in steers:
            self._say(Steered(turn_id=self.turn_id, message_id=steer.message_id, taken=True))
        return bool(steers)

    # Calling tools

    async def _call(self, call: Call, tools: dict[str, Tool]) -> dict[str, Any]:
        """Run a tool; the message with its result."""
        self._tools += 1
        tool_id, tool = f"tool_{self._tools}", tools.get(call.name)
        label = tool.label if tool else call.name
        arguments = _arguments(call.arguments)
        self._say(ToolStarted(turn_id=self.turn_id, tool_id=tool_id, name=label, input=_shown(call, arguments)))
        outcome = Outcome("[cancelled]", failed=True)
        try:
            outcome = await self._outcome(tool, call, arguments)
        finally:
            state = "failed" if outcome.failed else "completed"
            self._say(ToolEnded(turn_id=self.turn_id, tool_id=tool_id, outcome=state, output=outcome.text))
        return {"role": "tool", "tool_call_id": call.id, "content": outcome.text}

    async def _outcome(self, tool: Tool | None, call: Call, arguments: dict[str, Any] | None) -> Outcome:
        if tool is None:
            return Outcome(f"There is no tool {call.name!r} now.", failed=True)
        if arguments is None:
            return Outcome("The arguments are no JSON object.", failed=True)
        denied = await self._denied(tool, call)
        if denied is not None:
            return Outcome(denied, failed=True)
        return await self._conversation.toolbox.call(tool, arguments)

    async def _denied(self, tool: Tool, call: Call) -> str | None:
        """Why a call may not be made, for the model; None when it may."""
        conversation = self._conversation
        if tool.label in conversation.allowed or may_run_unasked(tool.label, conversation.settings.approve):
            return None
        request_id = f"{self.turn_id}:{self._tools}"
        self._answers[request_id] = asyncio.get_running_loop().create_future()
        question = f"Use {tool.label}? {shortened(call.arguments or '{}')}"
        options = (ONCE, SESSION, DENY)
        waiting = self._answers[request_id]
        self._say(
            Asked(turn_id=self.turn_id, request_id=request_id, question=question, tool=tool.label, options=options)
        )
        try:
            answer = await waiting
        finally:
            self._answers.pop(request_id, None)
        if answer.allow and answer.option_id == SESSION["id"]:
            conversation.allowed.add(tool.label)
        return None if answer.allow else " ".join(filter(None, (DENIED, answer.note, INSTEAD)))


def _spoken(completion: Completion) -> dict[str, Any]:
    """What the model said, as a message of the conversation. Many servers take none whose text is empty."""
    message: dict[str, Any] = {"role": "assistant", "content": completion.text or NOTHING}
    if completion.calls:
        message["content"] = completion.text or None
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in completion.calls
        ]
    return message


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call; None when the model gave no JSON object."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def _shown(call: Call, arguments: dict[str, Any] | None) -> Any:
    """The arguments as a person is shown them."""
    long = len(call.arguments) != len(shown := shortened(call.arguments))
    return shown if long or arguments is None else arguments
