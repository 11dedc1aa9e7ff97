"""A session of an ACP agent's as the port sees it: pairs what the agent says with the turns of the host. No I/O here.

Feed it every line with `receive` and call the port's methods on it; after each call send what is in `outbox` and hand
on what is in `said`, both in their order.

ACP has no turns: what an agent tells belongs to its session, and only the answer to `session/prompt` says that it is
done with a prompt. So there is never more than one prompt, what comes between its request and its answer is of its
turn, and what comes outside of one belongs to no turn. The ids of messages and tool calls tell what comes too late and
falls into the next turn, where the agent gives such ids.
"""

import math
from collections import deque

from antiphon.agents import jsonrpc
from antiphon.agents.acp import protocol, troubles
from antiphon.agents.acp.questions import CANCELLED, Question
from antiphon.agents.acp.turn import Turn
from antiphon.agents.pipes import Overlong
from antiphon.agents.prompts import as_text
from antiphon.core.session import Problem
from antiphon.ports.agent import Part, Resumable, Said, Steered, Wrote

PAST_MAX = 1_000
REMARKS_MAX = 100
UNASKED_MAX = 2_000
PERMISSION = "session/request_permission"
NOT_HERE = (
    "antiphon offers no {}: use the files and the shell of the machine that you run on, which is the one of the person."
)
OFFERS = {"fs/": "file access", "terminal/": "terminals", "elicitation/": "forms"}
"""What a client may offer and this one does not. See docs/decisions/009-acp-without-its-library.md."""


class Conversation:
    """One session.

    Attributes:
        outbox: Lines for the agent.
        said: What it said, for the host.
        broken: Why this conversation can't be gone on with in this process. Nothing that an agent says breaks it.
    """

    def __init__(self, session_id: str, *, requests: int, resumable: bool, resumed: bool, mode: str | None) -> None:
        """Take over a session that was made or resumed.

        Args:
            session_id: The agent's id of it, which is the resume token too.
            requests: How many requests were sent on this connection so far; their numbers are taken.
            resumable: The agent offers to load or to resume sessions.
            resumed: It is an old one. A new one can be resumed once there is an answer in it.
            mode: The mode that it is in, where it has modes.
        """
        self.session_id = session_id
        self.outbox: list[bytes] = []
        self.said: deque[Said] = deque()
        self.broken: str | None = None
        self.ways_to_log_in: list[protocol.AuthMethod] = []
        self._requests = requests
        self._resumable = resumable
        self._kept = resumed
        self._mode = mode
        self._turn: Turn | None = None
        self._past: dict[str, None] = {}
        """Messages and tool calls of turns that are over."""
        self._unasked = ""
        self._cost: float | None = None if resumed else 0.0
        """What the session had cost when the turn began; None when that is not known."""
        self._told_cost = self._cost
        self._remarks: set[str] = set()

    @property
    def resume_token(self) -> str | None:
        """The session's id, once it can be resumed."""
        return self.session_id if self._resumable and self._kept else None

    @property
    def holds_back(self) -> bool:
        """Whether something was told that waits for more of it, and is said by `let_go` if nothing more comes."""
        return bool(self._unasked or (self._turn and self._turn.waiting_tools))

    # What the host asks

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn."""
        self.let_go()
        self._requests += 1
        self._turn = Turn(turn_id, self._requests, self.said.append)
        self._cost = self._told_cost
        prompt = [{"type": "text", "text": as_text(parts)}]
        params = {"sessionId": self.session_id, "prompt": prompt}
        self.outbox.append(protocol.WRITE.request(self._requests, "session/prompt", params))

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:  # noqa: ARG002
        """ACP has no word for a message into a running turn."""
        self.said.append(Steered(turn_id=turn_id, message_id=message_id, taken=False))

    def cancel(self, turn_id: str) -> None:
        """Ask that the turn stop, and settle what it asks."""
        if self._turn is not None and self._turn.turn_id == turn_id:
            self._stop(self._turn)

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None = None) -> None:  # noqa: ARG002
        """Answer a question. One that is gone is ignored. ACP takes no words with it: the note is for the journal."""
        question = self._turn.questions.pop(request_id, None) if self._turn else None
        if question is not None:
            self.outbox.append(protocol.WRITE.answer(question.number, question.result(allow, option_id)))

    def let_go(self) -> None:
        """Say what was held back."""
        if self._turn is not None:
            self._turn.start_tools()
        if self._unasked:
            self._remark(f"The agent said what belongs to no turn: {self._unasked.strip()}")
            self._unasked = ""

    # What the agent says

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        if isinstance(line, Overlong):
            self._receive_head(line)
            return
        if not line.strip():
            return
        try:
            self._receive(line)
        except jsonrpc.BadLine as error:
            if (number := jsonrpc.answered(line)) is not None:
                self._hear_answer(jsonrpc.unread(number, f"The agent's answer can't be read: {error}"))
            else:
                self._remark(f"The agent wrote something that is not of its protocol: {error}.")

    def _receive(self, line: bytes) -> None:
        if (mended := jsonrpc.mended(line)) is not None:
            self._remark("The agent wrote bytes that are not UTF-8; \ufffd stands for them.")
            line = mended
        message = jsonrpc.read(line)
        if isinstance(message, jsonrpc.Response):
            self._hear_answer(message)
        elif message.id is not None:
            self._hear_request(message, message.id)
        elif message.method == "session/update":
            self._hear_update(message)

    def _receive_head(self, line: Overlong) -> None:
        """Of a line over the limit only the beginning is known: the turn can't complete any more.

        The agent is asked to stop, and its answer is awaited as ever: until then it would take no other prompt.
        """
        why = troubles.too_long(line.size)
        if (number := jsonrpc.answered(line.head)) is not None:
            self._hear_answer(jsonrpc.unread(number, why))
            return
        self._remark(why)
        if self._turn is not None and self._turn.failure is None:
            self._turn.failure = troubles.failed(why)
            self._stop(self._turn)

    def _hear_answer(self, response: jsonrpc.Response) -> None:
        """The answer to the prompt ends its turn. Any other was awaited by nobody, or came for a second time."""
        turn = self._turn
        if turn is None or turn.number != response.id:
            return
        stop_reason, problem, spent = "", None, None
        try:
            answer: protocol.Prompted = response.read(protocol.Prompted)
            stop_reason, spent = answer.stop_reason, answer.tokens
        except jsonrpc.Refused as error:
            login = troubles.wants_login(error.fault, self.ways_to_log_in)
            if turn.stopping and login is None:  # some agents fail a turn that is cancelled, though they must not
                stop_reason = "cancelled"
            else:
                problem = troubles.failed(login or troubles.told(error.fault))
        if turn.stopping and not turn.acted and stop_reason == "end_turn":
            # opencode, cancelled before it has begun, answers with the stop and the usage of the turn before.
            stop_reason, spent = "cancelled", None
        self._end(turn, stop_reason, problem, spent)

    def _end(self, turn: Turn, stop_reason: str, problem: Problem | None, spent: protocol.TokenCounts | None) -> None:
        self._settle_questions(turn)
        if problem is None and (turn.acted or stop_reason != "cancelled"):
            self._tell_token()
        for kind in sorted(turn.unsayable):
            self._remark(f"The agent sent what can't be shown as text ({kind}).")
        turn.end(stop_reason, problem, spent, self._cost_of_turn())
        self._turn = None
        self._cost = self._told_cost
        for name in (*turn.messages, *turn.tools):
            self._past[name] = None
        while len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]

    def _tell_token(self) -> None:
        if not self._kept:
            self._kept = True
            if self._resumable:
                self.said.append(Resumable(resume_token=self.session_id))

    # Updates

    def _hear_update(self, call: jsonrpc.Call) -> None:
        told: protocol.Told = call.read(protocol.Told)
        if told.session_id != self.session_id:
            return  # a sub-agent's session: what comes of it, its parent tells
        kind = jsonrpc.decoded(told.update, protocol.ToldUpdate).session_update
        match kind:
            case "agent_message_chunk" | "agent_thought_chunk":
                self._hear_words(kind, jsonrpc.decoded(told.update, protocol.Chunk))
            case "tool_call" | "tool_call_update":
                tool_call: protocol.ToolCall = jsonrpc.decoded(told.update, protocol.ToolCall)
                if self._turn is not None and tool_call.tool_call_id not in self._past:
                    self._turn.use(tool_call)
            case "plan" if self._turn is not None:
                self._turn.plan(jsonrpc.decoded(told.update, protocol.PlanUpdate))
            case "current_mode_update":
                self._hear_mode(jsonrpc.decoded(told.update, protocol.ModeUpdate).current_mode_id)
            case "usage_update":
                self._hear_cost(jsonrpc.decoded(told.update, protocol.UsageUpdate).cost)
            case _:
                pass  # what the agent can do, what it calls the session, what the user said: known, or of no use here

    def _hear_words(self, kind: str, chunk: protocol.Chunk) -> None:
        late = chunk.message_id is not None and chunk.message_id in self._past
        if self._turn is None or late:
            if kind == "agent_message_chunk":
                self._unasked = (self._unasked + (chunk.content.words or ""))[:UNASKED_MAX]
        elif kind == "agent_message_chunk":
            self._turn.speak(chunk)
        else:
            self._turn.think(chunk)

    def _hear_mode(self, mode: str) -> None:
        """What the agent may do unasked depends on its mode, so a person should know that it is in another."""
        if mode != self._mode:
            self._mode = mode
            self.said.append(Wrote(text=f"The agent is in the mode {mode!r} now."))

    def _hear_cost(self, cost: protocol.Cost | None) -> None:
        if cost is not None and cost.currency == "USD" and 0 <= cost.amount < math.inf:
            self._told_cost = cost.amount

    def _cost_of_turn(self) -> float:
        """Agents tell what the session has cost. One that was resumed may count on, or from nothing again."""
        if self._cost is None or self._told_cost is None:
            return 0.0
        return max(0.0, self._told_cost - self._cost)

    # Requests

    def _hear_request(self, call: jsonrpc.Call, number: int | str) -> None:
        if call.method != PERMISSION:
            offer = next((named for prefix, named in OFFERS.items() if call.method.startswith(prefix)), call.method)
            self.outbox.append(protocol.WRITE.refusal(number, NOT_HERE.format(offer)))
            return
        try:
            request: protocol.PermissionRequest = call.read(protocol.PermissionRequest)
        except jsonrpc.BadLine as error:
            self.outbox.append(
                protocol.WRITE.refusal(number, f"antiphon can't read this: {error}", jsonrpc.INVALID_PARAMS)
            )
            raise
        turn = self._turn
        if turn is None or turn.stopping:
            self.outbox.append(protocol.WRITE.answer(number, CANCELLED))
            return
        question = turn.ask(number, request)
        if not question.answerable or question.request_id in turn.questions:
            self.outbox.append(protocol.WRITE.answer(number, question.result(allow=False, option_id=None)))
            return
        turn.wait_for(question)

    def _stop(self, turn: Turn) -> None:
        turn.stopping = True
        self.outbox.append(protocol.WRITE.notification("session/cancel", {"sessionId": self.session_id}))
        self._settle_questions(turn)

    def _settle_questions(self, turn: Turn) -> None:
        questions: list[Question] = [*turn.questions.values()]
        turn.questions.clear()
        self.outbox.extend(protocol.WRITE.answer(question.number, CANCELLED) for question in questions)

    def _remark(self, text: str) -> None:
        """Pass on a remark for a person, each once."""
        if text not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add(text)
            self.said.append(Wrote(text=text))
