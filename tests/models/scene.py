"""A session driven command by command, for tests that tell one short story each."""

from typing import Any

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given, Refused, Repeated, Rules
from antiphon.core.errors import AntiphonError
from antiphon.core.evolve import Record
from antiphon.core.session import Message, Permission, Session, Turn, Usage
from antiphon.core.step import Step, Taken
from antiphon.core.words import OnCrash, WhenBusy


class Scene:
    """A session and all that its store would hold; every call is one step, sealed and written.

    Attributes:
        session: The session after the last step.
        records: The last record of each message, turn and permission.
        events: All that has happened, in order.
        entries: The same as the journal's entries.
        now: The time, ms; a test may move it on.
    """

    def __init__(self, *, rules: Rules | None = None, **created: Any) -> None:
        self.rules = rules or Rules(collect_quiet_s=0)
        self.now = 1_700_000_000_000
        self.records: dict[str, Record] = {}
        self.events: list[e.Event] = []
        self.entries: list[e.Entry] = []
        self.step = Step(None, Given(now=self.now, rules=self.rules), session_id="ses_1")
        self.take(c.CreateSession(session_id="ses_1", agent="echo", **created))

    @property
    def session(self) -> Session:
        session = self.step.session
        assert session is not None
        return session

    def take(self, *commands: c.Command) -> Taken:
        """Take commands in one step and write it. Returns what became of the last."""
        given = Given(now=self.now, rules=self.rules)
        self.step = Step(self.step.session, given, session_id="ses_1")
        taken: Taken = ()
        for command in commands:
            taken = self.step.take(command)
        self.step.seal()
        self.events += self.step.events
        self.entries += self.step.entries
        self.records |= self.step.records
        return taken

    def refusal(self, command: c.Command) -> AntiphonError:
        """Take a command that must be refused, and must change nothing. Returns why."""
        before = self.session
        taken = self.take(command)
        assert isinstance(taken, Refused), f"taken: {taken}"
        assert self.session is before
        assert not self.step.entries
        assert not self.step.records
        return taken.error

    def nothing(self, command: c.Command) -> None:
        """Take a command that has nothing to do."""
        before = self.session
        assert self.take(command) == ()
        assert self.session is before

    def repeated(self, command: c.Command) -> str:
        """Take a command that was carried out before. Returns as which message."""
        before = self.session
        taken = self.take(command)
        assert isinstance(taken, Repeated), f"taken: {taken}"
        assert self.session is before
        return taken.message_id

    # Short forms of what most stories need

    def send(self, id: str, when_busy: WhenBusy = "queue", **more: Any) -> None:
        """Send a message that is accepted."""
        assert isinstance(self.take(c.SendMessage(message_id=id, text=id, when_busy=when_busy, **more)), tuple)

    def start(self, turn: str) -> None:
        """Start a turn with what is next."""
        assert self.take(c.StartTurn(turn_id=turn)), "nothing to start"

    def run(self, id: str, turn: str, when_busy: WhenBusy = "queue") -> None:
        """Send a message and start its turn."""
        self.send(id, when_busy)
        self.start(turn)

    def say(self, turn: str, text: str) -> Taken:
        """The agent says something in a turn."""
        return self.take(c.AgentSaid(turn_id=turn, said=e.TurnText(turn_id=turn, text=text)))

    def hand_over(self, id: str, turn: str) -> None:
        """Hand a waiting steer to the running turn."""
        assert self.take(c.SteerTurn(turn_id=turn, message_id=id)), "not handed over"

    def complete(self, turn: str, usage: Usage | None = None) -> None:
        """The agent completes a turn."""
        assert self.take(c.AgentEnded(turn_id=turn, usage=usage)), "no such turn runs"

    def ask(self, permission: str, turn: str) -> None:
        """The agent asks a person."""
        assert self.take(c.AgentAsked(permission_id=permission, turn_id=turn, question="May I?")), "not asked"

    def crash(self, on_crash: OnCrash = "interrupt", *, can_resume: bool = False) -> None:
        """The host dies, and another settles what it left."""
        self.take(c.HostDied(on_crash=on_crash, can_resume=can_resume))

    # What became of it

    def message(self, id: str) -> Message:
        record = self.records[id]
        assert isinstance(record, Message)
        return record

    def turn(self, id: str) -> Turn:
        record = self.records[id]
        assert isinstance(record, Turn)
        return record

    def permission(self, id: str) -> Permission:
        record = self.records[id]
        assert isinstance(record, Permission)
        return record

    @property
    def waiting(self) -> list[str]:
        """The ids of what waits, in order."""
        return [message.id for message in self.session.inbox]

    @property
    def running(self) -> list[str]:
        """The ids of the messages in the running turn."""
        return [message.id for message in self.session.running.messages] if self.session.running else []

    @property
    def last(self) -> list[str]:
        """The types of the last step's events."""
        return [event.TYPE for event in self.step.events]

    def reply(self, turn: str) -> str:
        """What a turn said."""
        return "".join(event.text for event in self.events if isinstance(event, e.TurnText) and event.turn_id == turn)
