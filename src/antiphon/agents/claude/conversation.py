"""A session of Claude Code's as the port sees it: pairs what it says with the turns of the host. No I/O here.

Feed it every line with `receive` and call the port's methods on it; after each call send what is in `outbox` and hand
on what is in `said`, both in their order.

Every message of ours carries a uuid. Claude Code tells which of them it has taken up, before it says a word for them,
and again in the result that ends its turn: so results are never counted. A turn that names none of ours it began by
itself, because a background task of its ended.

A steer is sent at once. When a tool runs, Claude Code takes it up after the tool, in the same turn; when the model
speaks, it keeps it, and answers it in a turn of its own right after. That turn is part of the host's: its end is told
only when every message that was handed over is answered, so that none is answered twice. When the turn is cut short,
what was not taken up is taken back (`cancel_async_message`); what is taken up all the same is interrupted and unheard.
"""

import uuid
from collections import deque
from collections.abc import Callable

from antiphon.agents.claude import protocol, troubles
from antiphon.agents.claude.permissions import Question
from antiphon.agents.claude.turn import Turn
from antiphon.agents.pipes import Overlong
from antiphon.ports.agent import Asked, Began, Part, Resumable, Said, Steered, Wrote
from antiphon.ports.ids import Ids

PAST_MAX = 1_000
REMARKS_MAX = 100
RESULT_HEAD = '"total_cost_usd"'
"""Only results have this, within their first kilobyte: the text that can make one long is at its end."""

UNPROVEN = "unproven:"
"""Before the id in the token of a session of which nothing may be on disk yet."""

Answered = Callable[[protocol.Response], None]


class Conversation:
    """One session.

    Attributes:
        outbox: Lines for Claude Code.
        said: What it said, for the host.
        broken: Always None: there is no line after which it can't be gone on with.
        cut_short: A turn was cut short: the shells of its tools may have survived that. Whoever ends them resets this.
    """

    def __init__(self, session_id: str, ids: Ids, *, resumed: bool, on_disk: Callable[[str], bool]) -> None:
        """Take over a session that was started or resumed.

        Args:
            session_id: Claude Code's id of it, which is the resume token too.
            ids: For the uuids of messages and requests, and for turns that Claude Code begins by itself.
            resumed: The session was resumed, so it is on disk.
            on_disk: Whether Claude Code has written down the session with that id. It does so some time after it has
                taken the first message.
        """
        self.session_id = session_id
        self.outbox: list[bytes] = []
        self.said: deque[Said] = deque()
        self.broken: str | None = None
        self.cut_short = False
        self._ids = ids
        self._begun = self._kept = resumed
        self._on_disk = on_disk
        self._turn: Turn | None = None
        """The host's turn that has not ended."""
        self._speaker: Turn | None = None
        """Whose turn of Claude Code's runs just now: the host's, or one that it began by itself."""
        self._spoken: set[str] = set()
        """The model's messages in it, by their ids."""
        self._past: dict[str, None] = {}
        """The uuids and the model's messages of turns that are over."""
        self._awaited: dict[str, Answered] = {}
        self._questions: dict[str, Question] = {}
        self._remarks: set[str] = set()
        self._cost_usd = 0.0

    @property
    def resume_token(self) -> str | None:
        """The session's id, once a message is in it; marked while nothing of it was seen on disk."""
        if not self._begun:
            return None
        return self.session_id if self._kept else UNPROVEN + self.session_id

    # What the host asks

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn."""
        self._look_on_disk()
        self._turn = Turn(turn_id, self.said.append)
        self._send(self._turn, None, parts)

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Hand a message to a running turn."""
        turn = self._turn
        if turn is None or turn.turn_id != turn_id or turn.stopping:
            self.said.append(Steered(turn_id=turn_id, message_id=message_id, taken=False))
            return
        turn.steers.add(message_id)
        self._send(turn, message_id, parts)

    def cancel(self, turn_id: str) -> None:
        """Ask that a turn stop."""
        for turn in (self._turn, self._speaker):
            if turn is not None and turn.turn_id == turn_id:
                self._stop(turn)
                return

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None = None) -> None:
        """Answer a question. One that is gone is ignored."""
        question = self._questions.pop(request_id, None)
        if question is not None:
            self.outbox.append(protocol.answer(request_id, question.result(allow, option_id, note)))

    # What Claude Code says

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        if isinstance(line, Overlong):
            self._receive_head(line)
            return
        try:
            known = protocol.read(line)
        except protocol.BadLine as error:
            self.remark(f"Claude Code wrote something that is not of its protocol: {error}.")
            return
        if known is None:
            return
        if not isinstance(known, protocol.Result):
            for message_uuid in known.user_message_uuids or ():
                self._note(message_uuid)
        self._hear(known)

    def _receive_head(self, line: Overlong) -> None:
        """Of a line over the limit only the beginning is known: the turn that it belongs to can't complete any more."""
        words = troubles.too_long(line.size)
        self.remark(words)
        over = RESULT_HEAD in line.head.decode(errors="replace")
        turn = self._speaker if over else self._speaker or self._turn
        if turn is None:
            return
        turn.failure = turn.failure or troubles.failed(words)
        if over:
            self._part_over(turn, protocol.Result())
        else:
            self._stop(turn)

    def _hear(self, line: protocol.Known) -> None:
        match line:
            case protocol.StreamEvent():
                self._hear_piece(line)
            case protocol.Assistant():
                self._hear_whole(line)
            case protocol.User():
                self._hear_user(line)
            case protocol.Lifecycle():
                self._hear_lifecycle(line)
            case protocol.System():
                self._hear_system(line)
            case protocol.Result():
                self._hear_result(line)
            case protocol.ControlRequest():
                self._hear_request(line)
            case protocol.ControlCancel():
                self._questions.pop(line.request_id, None)
            case protocol.ControlResponse():
                answered = self._awaited.pop(line.response.request_id, None)
                if answered is not None:
                    answered(line.response)

    def _hear_piece(self, line: protocol.StreamEvent) -> None:
        """A sub-agent's words are its own affair."""
        if line.parent_tool_use_id is not None:
            return
        event = line.event
        message_id = event.message.id if event.message else line.api_message_id or ""
        turn = self._saying(message_id, line, begins=event.type == "message_start")
        if turn is not None:
            turn.hear_piece(line)

    def _hear_whole(self, line: protocol.Assistant) -> None:
        """With an error it is Claude Code that says what the result of the turn will say too."""
        if line.error is None:
            turn = self._saying(line.message.id, line, begins=line.parent_tool_use_id is None)
            if turn is not None:
                turn.hear_whole(line)
                turn.last_word = line.uuid if line.parent_tool_use_id is None else turn.last_word

    def _saying(self, message_id: str, line: protocol.Line, *, begins: bool) -> Turn | None:
        """Whose words these are; None for late ones of a turn that is over."""
        if message_id in self._past:
            return None
        if self._speaker is None:
            if not begins or line.user_message_uuids:
                return None
            self._speaker = Turn(self._ids.new("turn"), self.said.append)
            self.said.append(Began(turn_id=self._speaker.turn_id))
        self._spoken.add(message_id)
        return self._speaker

    def _hear_user(self, line: protocol.User) -> None:
        if line.is_replay:
            self._note(line.uuid)
            if not self._begun:
                self._begin(line.session_id)
        elif self._speaker is not None:
            self._speaker.hear_results(line.message.blocks)

    def _hear_lifecycle(self, line: protocol.Lifecycle) -> None:
        match line.state:
            case "started":
                self._note(line.command_uuid)
            case "cancelled":
                self._taken_back(line.command_uuid)
            case _:
                return

    def _hear_system(self, line: protocol.System) -> None:
        if line.subtype == "init" and self._begun and line.session_id != self.session_id:
            self._begin(line.session_id)  # `/clear` begins a new one
        elif line.subtype == "api_retry":
            if self._speaker is not None:
                self._speaker.broke_off()
            self.said.append(Wrote(text=troubles.retrying(line)))
        elif line.subtype == "compact_boundary":
            self.said.append(Wrote(text=troubles.COMPACTED))

    def _hear_request(self, line: protocol.ControlRequest) -> None:
        if line.request.subtype != "can_use_tool":
            self.outbox.append(protocol.refusal(line.request_id, f"antiphon does not answer {line.request.subtype}."))
            return
        turn = self._speaker or self._turn
        question = Question(line.request_id, turn.turn_id if turn else "", line.request)
        if turn is None or turn.stopping:
            self.outbox.append(protocol.answer(line.request_id, question.result(False, None, None)))
            return
        self._questions[line.request_id] = question
        self.said.append(
            Asked(
                turn_id=turn.turn_id,
                request_id=line.request_id,
                question=question.text,
                tool=line.request.tool_name,
                options=question.options,
            )
        )

    # Pairing

    def _send(self, turn: Turn, message_id: str | None, parts: tuple[Part, ...]) -> None:
        message_uuid = self._new_uuid()
        turn.waiting[message_uuid] = message_id
        self.outbox.append(protocol.user(message_uuid, parts))

    def _note(self, message_uuid: str) -> None:
        """Claude Code has taken up a message: from now on it speaks for the turn that the message belongs to."""
        turn = self._turn
        if turn is None or message_uuid not in turn.waiting:
            return
        if self._speaker is not None and self._speaker is not turn:
            self._tell_end(self._speaker)  # what it began by itself goes on as the answer of this message
        self._speaker = turn
        message_id = turn.waiting.pop(message_uuid)
        turn.running.add(message_uuid)
        if turn.stopping:
            turn.muted = turn.muted or message_id is not None
            self._ask("interrupt")
        elif message_id is not None:
            turn.tell_steer(message_id, taken=True)

    def _taken_back(self, message_uuid: str) -> None:
        """Claude Code will not take up a message that waited."""
        turn = self._turn
        if turn is None or message_uuid not in turn.waiting:
            return
        message_id = turn.waiting.pop(message_uuid)
        if message_id is None:
            turn.cut = True
        else:
            turn.tell_steer(message_id, taken=False)
        if not turn.owed:
            self._tell_end(turn)

    def _hear_result(self, result: protocol.Result) -> None:
        """A turn of Claude Code's is over. One that names none of ours is nobody's answer."""
        turn = self._ended_by(result)
        grown = result.total_cost_usd - self._cost_usd
        self._cost_usd = result.total_cost_usd
        self._look_on_disk()
        if turn is None:
            return
        turn.count(result, grown if grown >= 0 else result.total_cost_usd)
        if turn is self._turn:
            for message_uuid in result.user_message_uuids or ():
                self._note(message_uuid)
        self._part_over(turn, result)

    def _ended_by(self, result: protocol.Result) -> Turn | None:
        named = result.user_message_uuids or []
        turn, speaker = self._turn, self._speaker
        if turn is not None and any(each in turn.waiting or each in turn.running for each in named):
            return turn
        if any(each in self._past for each in named):
            return None
        if speaker is not None and speaker is not turn:
            return speaker
        unsolicited = result.origin is not None or (result.num_turns == 0 and not result.is_error)
        return None if named or unsolicited else speaker

    def _part_over(self, turn: Turn, result: protocol.Result) -> None:
        """Take in how it ended. Messages that still wait go on in a turn of Claude Code's of their own.

        When it was cut short or failed, nothing goes on.
        """
        aborted = (result.terminal_reason or "").startswith("aborted")
        if turn.muted:
            turn.muted = False
        elif aborted:
            turn.cut = True
        elif result.is_error:
            turn.failure = turn.failure or troubles.failed(troubles.told(result))
        self.cut_short = self.cut_short or aborted
        turn.broke_off()
        self._forget(turn)
        if not turn.owed:
            self._tell_end(turn)
        elif (turn.cut or turn.failure) and not turn.stopping:
            self._stop(turn)

    def _forget(self, turn: Turn) -> None:
        """What was said and answered is past."""
        for name in (*turn.running, *self._spoken):
            self._past[name] = None
        while len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]
        turn.running.clear()
        self._spoken.clear()
        if self._speaker is turn:
            self._speaker = None

    def _tell_end(self, turn: Turn) -> None:
        if self._turn is turn:
            self._turn = None
        self._forget(turn)
        for request_id in [each.request_id for each in self._questions.values() if each.turn_id == turn.turn_id]:
            del self._questions[request_id]
        turn.end(f"{self.session_id} {turn.last_word}" if turn.last_word else None)

    # What is asked of Claude Code

    def _stop(self, turn: Turn) -> None:
        """Take back what waits, and interrupt what runs."""
        turn.stopping = True
        for message_uuid in turn.waiting:
            self._take_back(message_uuid)
        if turn is self._speaker:
            self._ask("interrupt")

    def _take_back(self, message_uuid: str) -> None:
        def answered(response: protocol.Response) -> None:
            if isinstance(response.response, dict) and response.response.get("cancelled") is True:  # pyright: ignore[reportUnknownMemberType]
                self._taken_back(message_uuid)

        self._ask("cancel_async_message", answered, message_uuid=message_uuid)

    def _ask(self, subtype: str, answered: Answered | None = None, **params: str) -> None:
        request_id = self._new_uuid()
        if answered is not None:
            self._awaited[request_id] = answered
        self.outbox.append(protocol.request(request_id, subtype, **params))

    def _new_uuid(self) -> str:
        return str(uuid.UUID(self._ids.new("uuid").partition("_")[2]))

    # What belongs to no turn

    def _begin(self, session_id: str) -> None:
        """A message is in a new session."""
        self.session_id = session_id or self.session_id
        self._begun, self._kept = True, self._on_disk(self.session_id)
        self._tell_token()

    def _look_on_disk(self) -> None:
        if self._begun and not self._kept and self._on_disk(self.session_id):
            self._kept = True
            self._tell_token()

    def _tell_token(self) -> None:
        if token := self.resume_token:
            self.said.append(Resumable(resume_token=token))

    def remark(self, text: str) -> None:
        """Pass on a remark for a person, each once."""
        if text not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add(text)
            self.said.append(Wrote(text=text))
