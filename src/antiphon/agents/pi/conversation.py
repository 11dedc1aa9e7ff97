"""A session of pi's as the port sees it: pairs what pi says with the turns of the host. No I/O here.

pi works on one prompt at a time, and its events name none. What it says between the beginning and the end of its work
therefore belongs to the host's turn, of which there is one at a time too; what it does by itself, because an extension
wants it, is a turn of its own.

`agent_end` is not the end: pi may be about to try again, or to shorten the conversation and go on. It says so at once,
before it reads another command. So each `agent_end` is followed by a `get_state` of ours, and when the answer comes and
pi has not said that it goes on, the turn is over. The same question follows a prompt that pi has accepted: it may have
been a command of an extension's, for which pi does not work at all.
"""

import re
from collections import deque
from pathlib import Path

from antiphon.agents.pi import protocol
from antiphon.agents.pi.turn import Turn
from antiphon.agents.pipes import Overlong
from antiphon.agents.prompts import as_text
from antiphon.ports.agent import Began, Part, Resumable, Said, Wrote
from antiphon.ports.ids import Ids

REMARKS_MAX = 100
KIND = re.compile(rb'\{"type":"(\w+)"')
DIALOGS = frozenset({"select", "confirm", "input", "editor"})
COMPACTED = "pi has put a summary in the place of what was said so far, because the conversation had grown too long."


class Conversation:
    """One session.

    Attributes:
        outbox: Lines for pi.
        said: What it said, for the host.
        broken: Always None: there is no line after which it can't be gone on with.
    """

    def __init__(self, session_file: str | None, ids: Ids, *, kept_on_disk: bool) -> None:
        """Take over a session that was started or resumed.

        Args:
            session_file: Where pi keeps it, or will once the model has said something; its name is the resume token.
            ids: For turns that pi begins by itself.
            kept_on_disk: The session was resumed.
        """
        self.outbox: list[bytes] = []
        self.said: deque[Said] = deque()
        self.broken: str | None = None
        self._session_file = session_file
        self._kept_on_disk = kept_on_disk
        self._ids = ids
        self._turn: Turn | None = None
        """The host's turn that has not ended."""
        self._own: Turn | None = None
        """A turn that pi has begun by itself."""
        self._questions = 0
        self._asked: str | None = None
        """The last question about pi's state; the answers to those before it come too early."""
        self._remarks: set[str] = set()

    @property
    def resume_token(self) -> str | None:
        """The name of the session's file, once there is one."""
        return Path(self._session_file).name if self._session_file and self._kept_on_disk else None

    # What the host asks

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn."""
        self._turn = Turn(turn_id, self.said.append)
        text = as_text(parts).encode(errors="replace").decode()
        self.outbox.append(protocol.command("prompt", turn_id, message=text))

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Do nothing: a steer that comes too late stays in pi's queue, from which nobody can take it, and would be
        answered in the next turn too. So `Capabilities.steer` is not declared."""

    def cancel(self, turn_id: str) -> None:
        """Ask that a turn stop. While pi has not begun to work on it there is nothing to abort yet."""
        for turn in (self._turn, self._own):
            if turn is not None and turn.turn_id == turn_id:
                turn.stopping = True
                if turn.active or turn.pending:
                    self._abort()
                return

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None = None) -> None:
        """Do nothing: pi asks nothing."""

    # What pi says

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        if isinstance(line, Overlong):
            self._receive_head(line)
            return
        try:
            self._hear(protocol.read(line))
        except protocol.BadLine as error:
            self._remark(f"pi wrote something that is not of its protocol: {error}.")

    def _receive_head(self, line: Overlong) -> None:
        """Of a line over the limit only the beginning is known, which says of what kind it is.

        Some repeat what was said before, above all the one that says that pi has stopped: it holds all messages.
        """
        kind = KIND.match(line.head)
        match kind and kind[1]:
            case b"agent_end":
                self._pause()
            case b"turn_end" | b"message_start" | b"tool_execution_update":
                return
            case _:
                self._lose(f"pi wrote a line of {line.size} bytes, which is over the limit.")

    def _hear(self, line: protocol.Line) -> None:
        match line.type:
            case "response":
                self._hear_response(line)
            case "agent_start":
                self._begin()
            case "agent_end":
                self._pause()
            case "extension_ui_request":
                self._hear_extension(line)
            case "extension_error":
                self._remark(f"An extension of pi's failed: {line.error}")
            case _:
                turn = self._speaker
                if turn is not None:
                    self._hear_of(turn, line)

    def _hear_of(self, turn: Turn, line: protocol.Line) -> None:
        match line.type:
            case "message_update" if line.assistant_message_event is not None:
                turn.hear_piece(line.assistant_message_event)
            case "message_end":
                message = line.told()
                if message.role == "assistant":
                    turn.hear_whole(message)
                    self._keep()
            case "tool_execution_start":
                turn.start_tool(line)
            case "tool_execution_end":
                turn.end_tool(line)
            case "auto_retry_start":
                turn.pending = True
                self.said.append(Wrote(text=_retrying(line)))
            case "auto_retry_end" if not line.success:
                self._go_on(turn, will_retry=False)
            case "compaction_start":
                turn.pending = True
            case "compaction_end":
                self.said.append(Wrote(text=line.error_message or COMPACTED))
                self._go_on(turn, will_retry=line.will_retry)
            case _:
                return

    @property
    def _speaker(self) -> Turn | None:
        """Whose words these are."""
        return self._own or self._turn

    def _begin(self) -> None:
        turn = self._speaker
        if turn is not None and turn.begun and not (turn.active or turn.pending):
            self._end(turn)  # pi has not said that it would go on with it
            turn = self._speaker
        if turn is None:
            turn = self._own = Turn(self._ids.new("turn"), self.said.append)
            self.said.append(Began(turn_id=turn.turn_id))
        turn.active, turn.pending, turn.begun = True, False, True
        self._asked = None
        if turn.stopping:
            self._abort()

    def _pause(self) -> None:
        """Pi has stopped working; whether for good is asked."""
        turn = self._speaker
        if turn is not None:
            turn.active = False
            self._ask()

    def _go_on(self, turn: Turn, *, will_retry: bool) -> None:
        """What made pi stop for a while is over."""
        if will_retry:
            return
        turn.pending = False
        if not turn.active:
            self._ask()

    def _hear_response(self, line: protocol.Line) -> None:
        turn = self._turn
        if line.command == "prompt" and turn is not None and line.id == turn.turn_id:
            if not line.success:
                turn.failure = str(line.error or "pi does not take this prompt, and does not say why.")
                self._end(turn)
            elif not turn.begun:
                self._ask()
        elif line.command == "get_state" and line.id == self._asked:
            self._settle(line.state())
        elif line.command == "parse":
            self._remark(f"pi did not understand a line: {line.error}")

    def _settle(self, state: protocol.State) -> None:
        """The answer to the last question came, and pi has not said meanwhile that it goes on."""
        turn = self._speaker
        self._asked = None
        if turn is None or turn.active or turn.pending:
            return
        if turn.begun or not state.is_streaming:
            self._end(turn)

    def _hear_extension(self, line: protocol.Line) -> None:
        if line.method in DIALOGS and line.id is not None:
            self.outbox.append(protocol.dismissed(line.id))
            self._remark("An extension of pi's asked something, which nobody can answer here: it was dismissed.")
        elif line.method == "notify" and isinstance(line.message, str):
            self._remark(line.message)

    # Ends

    def _end(self, turn: Turn) -> None:
        if turn is self._own:
            self._own = None
        else:
            self._turn = None
        turn.end()

    def _lose(self, words: str) -> None:
        """What was in a line is not known: the turn can't complete any more."""
        self._remark(words)
        turn = self._speaker
        if turn is None:
            return
        turn.failure = turn.failure or words
        turn.stopping = True
        if turn.active or turn.pending:
            self._abort()
            self._ask()

    def _keep(self) -> None:
        """From the first message of the model's on, pi's file is there."""
        if not self._kept_on_disk and self._session_file is not None:
            self._kept_on_disk = True
            self.said.append(Resumable(resume_token=Path(self._session_file).name))

    def _abort(self) -> None:
        self.outbox.append(protocol.command("abort", f"abort-{self._next()}"))

    def _ask(self) -> None:
        self._asked = f"state-{self._next()}"
        self.outbox.append(protocol.command("get_state", self._asked))

    def _next(self) -> int:
        self._questions += 1
        return self._questions

    def _remark(self, text: str) -> None:
        """Pass on a remark for a person, each once."""
        if text not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add(text)
            self.said.append(Wrote(text=text))


def _retrying(line: protocol.Line) -> str:
    why = line.error_message or "no reason given"
    delay_s = line.delay_ms / 1000
    again = f"It tries again in {delay_s:.1f} s ({line.attempt} of {line.max_attempts})."
    return f"pi could not get an answer of its model ({why}). {again}"
