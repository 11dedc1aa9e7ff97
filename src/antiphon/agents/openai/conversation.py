"""The host's side of a conversation with the child process. No I/O here."""

from collections import deque

from antiphon.agents.openai import protocol as p
from antiphon.agents.pipes import Overlong
from antiphon.ports.agent import Ended, Part, Resumable, Said


class Conversation:
    """One conversation.

    Attributes:
        outbox: Lines for the child.
        said: What it said, for the host.
        broken: What it said that it can't say; then it is ended.
    """

    def __init__(self, resume_token: str | None) -> None:
        self.outbox: list[bytes] = []
        self.said: deque[Said] = deque()
        self.broken: str | None = None
        self._resume_token = resume_token
        self._turn_id: str | None = None

    @property
    def resume_token(self) -> str | None:
        """The name of the transcript, once there is one."""
        return self._resume_token

    def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn."""
        self._turn_id = turn_id
        self.outbox.append(p.line(p.Prompt(turn_id=turn_id, parts=parts)))

    def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Hand a message to a turn."""
        self.outbox.append(p.line(p.Steer(turn_id=turn_id, message_id=message_id, parts=parts)))

    def cancel(self, turn_id: str) -> None:
        """Ask that a turn stop."""
        self.outbox.append(p.line(p.Cancel(turn_id=turn_id)))

    def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None = None) -> None:
        """Answer a question."""
        self.outbox.append(p.line(p.Answer(request_id=request_id, allow=allow, option_id=option_id, note=note)))

    def receive(self, line: bytes | Overlong) -> None:
        """Take in a line."""
        if isinstance(line, Overlong):
            self.broken = f"Its process said a line of {line.size} bytes, which is over the limit."
            return
        try:
            said = p.said(line)
        except p.BadLine as error:
            self.broken = f"Its process said something that is not of its protocol: {error}."
            return
        if isinstance(said, Resumable):
            self._resume_token = said.resume_token
        elif isinstance(said, Ended):
            if said.turn_id != self._turn_id:
                return
            self._turn_id = None
        self.said.append(said)
