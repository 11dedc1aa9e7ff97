"""A thread of Codex's as the port sees it: pairs what Codex says with the turns of the host. No I/O here.

Feed it every line with `receive` and call the port's methods on it; after each call send what is in `outbox` and hand
on what is in `said`, both in their order.

Codex names its turns itself, and tells the name in its answer to `turn/start`, which may come after the first words of
the turn. So what comes for an unknown turn while an answer is awaited is kept until the name is known; the message that
opens the turn carries the host's turn id too (`clientUserMessageId`), and may tell it earlier.
"""

import re
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from antiphon.agents import jsonrpc
from antiphon.agents.codex import approvals, protocol, troubles
from antiphon.agents.codex.approvals import Question
from antiphon.agents.codex.turn import Turn
from antiphon.agents.pipes import Overlong
from antiphon.core.session import Problem
from antiphon.ports.agent import Asked, Began, Part, Resumable, Said, Steered, Wrote

KEPT_MAX = 2_000
"""Messages that are kept for a turn whose name is not known yet. Codex answers `turn/start` within a few."""
PAST_MAX = 1_000
REMARKS_MAX = 100
REMARKS = frozenset({"warning", "guardianWarning", "configWarning", "deprecationNotice"})
TURN_HEAD = re.compile(r'"turnId"\s*:\s*"([^"]+)"')

Answered = Callable[[jsonrpc.Response], None]


class Conversation:
    """One thread.

    Attributes:
        outbox: Lines for Codex.
        said: What it said, for the host.
        broken: Why this conversation can't be gone on with in this process; then end the process.
    """

    def __init__(self, thread_id: str, *, requests: int, kept_on_disk: bool) -> None:
        """Take over a thread that was started or resumed.

        Args:
            thread_id: Codex's id of it, which is the resume token too.
            requests: How many requests were sent on this connection so far; their numbers are taken.
            kept_on_disk: The thread was resumed. A new one is on disk only once a message is in it.
        """
        self.thread_id = thread_id
        self.outbox: list[bytes] = []
        self.said: deque[Said] = deque()
        self.broken: str | None = None
        self._requests = requests
        self._awaited: dict[int, Answered] = {}
        self._kept_on_disk = kept_on_disk
        self._turns: dict[str, Turn] = {}
        """The turns that run, by Codex's id: one, save when Codex began another by itself."""
        self._starting: Turn | None = None
        self._kept: list[jsonrpc.Call] = []
        self._past: dict[str, None] = {}
        self._spent: protocol.TokenCounts | None = None
        self._remarks: set[str] = set()

    @property
    def resume_token(self) -> str | None:
        """The thread's id, once it can be resumed."""
        return self.thread_id if self._kept_on_disk else None

    @property
    def retrying(self) -> str | None:
        """The host's id of the turn whose model Codex tries in vain to reach."""
        return next((turn.turn_id for turn in self._turns.values() if turn.retrying and not turn.stopping), None)

    # What the host asks

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn."""
        turn = self._starting = Turn(turn_id, self._spent, self.said.append)
        params = {"threadId": self.thread_id, "clientUserMessageId": turn_id, "input": _input(parts)}
        self._ask("turn/start", params, partial(self._accepted, turn))

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Hand a message to a running turn."""
        turn = self._by_host_id(turn_id)
        if turn is None or turn.over or turn.stopping:
            self.said.append(Steered(turn_id=turn_id, message_id=message_id, taken=False))
            return
        turn.steers[message_id] = False
        turn.unsent_steers.append((message_id, parts))
        self._send_wishes(turn)

    def cancel(self, turn_id: str) -> None:
        """Ask that a turn stop."""
        turn = self._by_host_id(turn_id)
        if turn is not None and not turn.over:
            self._stop(turn)

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None = None) -> None:  # noqa: ARG002
        """Answer a question. One that is gone is ignored. Codex takes no words with it: the note is for the journal."""
        for turn in self._turns.values():
            question = turn.questions.pop(request_id, None)
            if question is not None:
                self.outbox.append(protocol.WRITE.answer(question.number, question.result(allow, option_id)))

    def lose_patience(self, turn_id: str, waited_s: float) -> None:
        """Give up the turn, whose model could not be reached all the while."""
        turn = self._by_host_id(turn_id)
        if turn is not None and turn.retrying:
            why = troubles.told(turn.trouble)
            self._give_up(turn, troubles.failed(f"Codex could not reach its model for {waited_s:g} s: {why}"))

    # What Codex says

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        if isinstance(line, Overlong):
            self._receive_head(line)
            return
        try:
            message = jsonrpc.read(line)
            if isinstance(message, jsonrpc.Response):
                self._hear_answer(message)
            else:
                self._hear(message)
        except jsonrpc.BadLine as error:
            if (number := jsonrpc.answered(line)) is not None:
                self._hear_answer(jsonrpc.unread(number, f"Codex's answer can't be read: {error}"))
            else:
                self._remark_bad(error)

    def _receive_head(self, line: Overlong) -> None:
        """Of a line over the limit only the beginning is known: the turn that it belongs to can't complete any more."""
        if (number := jsonrpc.answered(line.head)) is not None:
            self._hear_answer(jsonrpc.unread(number, f"Codex's answer of {line.size} bytes is over the limit."))
            return
        self._remark(f"Codex wrote a line of {line.size} bytes, which is over the limit.")
        named = TURN_HEAD.search(line.head.decode(errors="replace"))
        if named is None:
            turn = self._running or self._starting
        elif named[1] in self._past:
            turn = None
        else:
            turn = self._turns.get(named[1]) or self._starting
        if turn is not None and not turn.over:
            turn.output_lost = True
            self._give_up(turn, troubles.failed(f"Codex wrote a line of {line.size} bytes, which is over the limit."))

    def _hear_answer(self, response: jsonrpc.Response) -> None:
        answered = self._awaited.pop(response.id, None)
        if answered is not None:
            answered(response)

    def _hear(self, call: jsonrpc.Call) -> None:
        place = call.read(protocol.Place)
        if place.thread_id not in (None, self.thread_id):
            self._hear_elsewhere(call)
            return
        codex_id = place.codex_turn_id
        if codex_id is None:
            self._hear_outside(call)
            return
        if call.method == "thread/tokenUsage/updated" and codex_id not in self._turns and self._starting is None:
            self._spent = call.read(protocol.UsageChanged).token_usage.total
            return
        if self._starting is not None and _opens(self._starting, call):
            self._join(self._starting, codex_id)
        turn = self._turns.get(codex_id) or self._meet(codex_id, call)
        if turn is not None:
            self._hear_in_turn(turn, call)

    def _meet(self, codex_id: str, call: jsonrpc.Call) -> Turn | None:
        """Who an unknown turn is; None when that is not known yet, or when it is over."""
        if codex_id in self._past:
            self._decline(call)
            return None
        if self._starting is not None:
            self._keep(call)
            return None
        if call.method != "turn/started":
            self._decline(call)
            return None
        # Codex's ids are UUIDv7 (RFC 9562), as the host's are.
        turn = Turn(f"turn_{codex_id.replace('-', '')}", self._spent, self.said.append)
        turn.codex_id = codex_id
        turn.active = True
        self._turns[codex_id] = turn
        self.said.append(Began(turn_id=turn.turn_id))
        return turn

    def _keep(self, call: jsonrpc.Call) -> None:
        self._kept.append(call)
        if len(self._kept) > KEPT_MAX:
            self.broken = "Codex did not say which turn its words belong to."

    def _name(self, turn: Turn, codex_id: str) -> None:
        """The name of the turn that begins is known: hear what was kept until then."""
        turn.codex_id = codex_id
        self._turns[codex_id] = turn
        self._hear_kept()

    def _hear_kept(self) -> None:
        """No turn without a name begins any more: what was kept is of this turn, or of one that Codex began itself."""
        self._starting = None
        kept, self._kept = self._kept, []
        for call in kept:
            try:
                self._hear(call)
            except jsonrpc.BadLine as error:
                self._remark_bad(error)

    def _accepted(self, turn: Turn, response: jsonrpc.Response) -> None:
        """The answer to `turn/start`, which may be all that tells the turn's name, or come long after it was known."""
        if turn.codex_id is not None:
            return
        try:
            codex_id = response.read(protocol.TurnAnswer).turn.id
        except jsonrpc.Refused as error:
            self._fail_to_begin(turn, f"Codex refused the message: {error}")
        else:
            self._join(turn, codex_id)

    def _join(self, turn: Turn, codex_id: str) -> None:
        """Codex told the turn's name. It may be that of a turn that it began by itself: then the two are one."""
        if codex_id in self._past:
            self._fail_to_begin(turn, "Codex took the message into a turn that was over.")
            return
        own = self._turns.get(codex_id)
        if own is not None:
            self._tell_end(own, "completed", None)
            del self._past[codex_id]
        self._name(turn, codex_id)

    def _fail_to_begin(self, turn: Turn, why: str) -> None:
        self._tell_end(turn, "failed", troubles.failed(why))
        self._hear_kept()

    # Within a turn

    def _hear_in_turn(self, turn: Turn, call: jsonrpc.Call) -> None:
        if not turn.active:
            turn.active = True
            self._send_wishes(turn)
        if call.method == "turn/completed":
            self._completed(turn, call.read(protocol.TurnChanged).turn)
        elif call.method in approvals.METHODS and call.id is not None:
            self._ask_person(turn, call.id, call)
        elif turn.hear(call):
            self._look_at_thread(call)
        else:
            self._decline(call)

    def _look_at_thread(self, call: jsonrpc.Call) -> None:
        """What a message of a turn tells about the whole thread.

        A thread is written to disk with the first message in it; one without can't be resumed.
        """
        if call.method == "thread/tokenUsage/updated":
            self._spent = call.read(protocol.UsageChanged).token_usage.total
        elif call.method == "item/completed" and not self._kept_on_disk and _user_message(call):
            self._kept_on_disk = True
            self.said.append(Resumable(resume_token=self.thread_id))

    def _completed(self, turn: Turn, ended: protocol.Turn) -> None:
        if turn.over:
            return
        turn.say_missed(ended.items)
        succeeded = ended.status in ("completed", "interrupted")
        problem = None if succeeded else troubles.failed(troubles.told(ended.error or turn.trouble))
        self._end(turn, ended.status, problem)

    def _end(self, turn: Turn, status: str, problem: Problem | None) -> None:
        """Codex has ended the turn. After an interrupt the shells of its commands run on: they are ended first."""
        turn.over = True
        turn.retrying = False
        if status == "interrupted" and turn.commands:
            self._end_shells(turn)
        else:
            self._tell_end(turn, status, problem)

    def _tell_end(self, turn: Turn, status: str, problem: Problem | None) -> None:
        turn.end(status, problem, f"{self.thread_id} {turn.codex_id}" if turn.codex_id else None)
        if turn.codex_id is not None:
            self._turns.pop(turn.codex_id, None)
            self._past[turn.codex_id] = None
            if len(self._past) > PAST_MAX:
                del self._past[next(iter(self._past))]

    # Outside of a turn

    def _hear_outside(self, call: jsonrpc.Call) -> None:
        if call.method in REMARKS:
            remark = call.read(protocol.Remark)
            self._remark(": ".join(filter(None, (remark.message or remark.summary, remark.details))))
        elif call.method == "mcpServer/startupStatus/updated":
            server = call.read(protocol.ServerStatus)
            if server.status == "failed":
                self._remark(f"The MCP server {server.name} could not be started: {server.error or 'no reason given'}.")
        elif call.method == "serverRequest/resolved":
            request_id = str(call.read(protocol.Resolved).request_id)
            for turn in self._turns.values():
                turn.questions.pop(request_id, None)
        else:
            self._hear_elsewhere(call)

    def _hear_elsewhere(self, call: jsonrpc.Call) -> None:
        """What comes of a sub-agent's thread is its own affair, but for a question: it asks for the turn that runs."""
        turn = self._running
        if call.id is not None and call.method in approvals.METHODS and turn is not None:
            self._ask_person(turn, call.id, call)
        else:
            self._decline(call)

    def _ask_person(self, turn: Turn, number: int | str, call: jsonrpc.Call) -> None:
        question = Question(number, call.method, call.read(protocol.Approval))
        if turn.over or not question.answerable:
            self._decline(call)
            return
        turn.questions[str(number)] = question
        self.said.append(
            Asked(
                turn_id=turn.turn_id,
                request_id=str(number),
                question=question.text,
                tool=question.tool,
                options=question.options,
            )
        )

    def _decline(self, call: jsonrpc.Call) -> None:
        """Answer, when it is a question, so that Codex never waits for what nobody will say."""
        if call.id is None:
            return
        if call.method in approvals.METHODS:
            question = Question(call.id, call.method, call.read(protocol.Approval))
            self.outbox.append(protocol.WRITE.answer(call.id, question.result(allow=False)))
        else:
            self.outbox.append(protocol.WRITE.refusal(call.id, f"antiphon does not answer {call.method}."))

    def _remark_bad(self, error: jsonrpc.BadLine) -> None:
        self._remark(f"Codex wrote something that is not of its protocol: {error}.")

    def _remark(self, text: str) -> None:
        """Pass on a remark for a person, each once."""
        if text and text not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add(text)
            self.said.append(Wrote(text=text))

    # What is asked of Codex

    @property
    def _running(self) -> Turn | None:
        return next((turn for turn in self._turns.values() if not turn.over), None)

    def _by_host_id(self, turn_id: str) -> Turn | None:
        if self._starting is not None and self._starting.turn_id == turn_id and not self._starting.over:
            return self._starting
        return next((turn for turn in self._turns.values() if turn.turn_id == turn_id), None)

    def _ask(self, method: str, params: Any, answered: Answered) -> None:
        self._requests += 1
        self._awaited[self._requests] = answered
        self.outbox.append(protocol.WRITE.request(self._requests, method, params))

    def _send_wishes(self, turn: Turn) -> None:
        """Send what waited for the turn to be active: until then Codex refuses to interrupt or to steer it."""
        if not turn.active:
            return
        if turn.stopping:
            params = {"threadId": self.thread_id, "turnId": turn.codex_id}
            self._ask("turn/interrupt", params, partial(self._stop_answered, turn))
            return
        for message_id, parts in turn.unsent_steers:
            params = {
                "threadId": self.thread_id,
                "expectedTurnId": turn.codex_id,
                "clientUserMessageId": message_id,
                "input": _input(parts),
            }
            self._ask("turn/steer", params, partial(self._steer_answered, turn, message_id))
        turn.unsent_steers.clear()

    def _steer_answered(self, turn: Turn, message_id: str, response: jsonrpc.Response) -> None:
        """Accepting a steer is not taking it: that is told by the message's appearance in the thread."""
        if response.fault is not None and turn.steers.pop(message_id, None) is not None:
            self.said.append(Steered(turn_id=turn.turn_id, message_id=message_id, taken=False))

    def _give_up(self, turn: Turn, problem: Problem) -> None:
        turn.failure = turn.failure or problem
        self._stop(turn)

    def _stop(self, turn: Turn) -> None:
        turn.stopping = True
        self._send_wishes(turn)

    def _stop_answered(self, turn: Turn, response: jsonrpc.Response) -> None:
        """Codex refuses to interrupt only what does not run: then the turn's end has been missed."""
        if response.fault is not None and not turn.over:
            self._end(turn, "interrupted", None)

    # The shells of a turn that was cut short: they are ended before its end is told

    def _ask_of_shells(self, turn: Turn, what: str, params: dict[str, Any], answered: Answered) -> None:
        """Ask something about the shells; after the last answer the turn's end is told."""
        turn.shells_awaited += 1

        def answered_too(response: jsonrpc.Response) -> None:
            answered(response)
            turn.shells_awaited -= 1
            if not turn.shells_awaited:
                self._tell_end(turn, "interrupted", None)

        self._ask(f"thread/backgroundTerminals/{what}", {"threadId": self.thread_id, **params}, answered_too)

    def _end_shells(self, turn: Turn, cursor: str | None = None) -> None:
        self._ask_of_shells(turn, "list", {"cursor": cursor}, partial(self._shells_listed, turn))

    def _shells_listed(self, turn: Turn, response: jsonrpc.Response) -> None:
        """End those of this turn; what earlier turns left running on purpose runs on."""
        try:
            listed = response.read(protocol.TerminalsAnswer)
        except jsonrpc.Refused:
            self._ask_of_shells(turn, "clean", {}, _ignored)
            return
        for terminal in listed.data:
            if terminal.item_id in turn.commands:
                self._ask_of_shells(turn, "terminate", {"processId": terminal.process_id}, _ignored)
        if listed.next_cursor is not None:
            self._end_shells(turn, listed.next_cursor)


def _ignored(_: jsonrpc.Response) -> None:
    """That there is an answer is all that matters."""


def _input(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    """The parts as `UserInput`. Codex reads pictures itself; of another file it is told the place."""
    items: list[dict[str, Any]] = []
    for part in parts:
        if part.text:
            items.append({"type": "text", "text": part.text, "text_elements": []})
        if part.path is not None:
            if (part.media_type or "").startswith("image/"):
                items.append({"type": "localImage", "path": part.path})
            else:
                items.append({"type": "text", "text": f"Attached file: {part.path}", "text_elements": []})
    return items


def _opens(turn: Turn, call: jsonrpc.Call) -> bool:
    """Whether this puts the message into the thread with which the host began the turn."""
    message = _user_message(call)
    return message is not None and message.client_id == turn.turn_id


def _user_message(call: jsonrpc.Call) -> protocol.Item | None:
    """The message of the user that is put into the thread by this, if it is one."""
    if call.method not in ("item/started", "item/completed"):
        return None
    item = call.read(protocol.ItemChanged).item
    return item if item.type == "userMessage" else None
