"""One step of a session: commands decided one after another, their events folded in, to be written in one commit."""

from typing import cast

from msgspec.structs import replace

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given, Refused, Repeated, decide
from antiphon.core.evolve import Record, evolve
from antiphon.core.session import Session

Taken = tuple[e.Event, ...] | Refused | Repeated
"""What became of a command in a step: its events, perhaps none, or why it changes nothing."""


class Step:
    """A session on its way from one commit to the next. Pure: it only collects what has to be written.

    Attributes:
        before: The session as it was loaded; None when it is being created.
        session: The session after all that was taken so far.
        entries: The journal's new entries, numbered on from `before`.
        records: The records that they made or changed, whole, by id.
        events: The new events themselves, in order.
        notable: Those of them that are more than a piece of text.
    """

    def __init__(self, session: Session | None, given: Given, *, session_id: str) -> None:
        self.before = session
        self.session = session
        self.entries: list[e.Entry] = []
        self.records: dict[str, Record] = {}
        self.events: list[e.Event] = []
        self.notable: list[e.Event] = []
        self._given = given
        self._session_id = session_id

    @property
    def now(self) -> int:
        """The time at which all of it is decided, ms."""
        return self._given.now

    def take(self, command: c.Command) -> Taken:
        """Decide a command on the session as it stands now and fold in what follows.

        An idempotency key that was spent earlier in this step counts as spent: the caller need only look in the store.
        """
        decision = decide(self.session, self._reattached(command), self._given)
        if type(decision) is tuple and decision:
            if type(command) is c.AgentSpoke:
                self._tell_run(cast("tuple[e.TurnText, ...]", decision))
            else:
                for event in decision:
                    self._tell(event)
        return decision

    def _tell_run(self, texts: tuple[e.TurnText, ...]) -> None:
        """Fold in pieces of one turn's text: what the first one changes, the others leave at that."""
        self._tell(texts[0])
        first = self.entries[-1]
        others = [text if text.text.isascii() else e.journaled(text) for text in texts[1:]]
        self.events += others
        self.entries += e.text_entries(others, after=first)
        self.session = replace(_there(self.session), sequence=self.entries[-1].sequence)

    def seal(self) -> None:
        """End the step: a change of status since its beginning is told as its last event. Nothing is taken after."""
        if not self.entries or self.session is None or self.session.lifecycle == "deleted":
            return
        status = self.session.status()
        if self.before is None or self.before.status() != status:
            self._tell(e.SessionStatusChanged(status=status))

    def _reattached(self, command: c.Command) -> c.Command:
        if not isinstance(command, c.SendMessage) or command.prior or command.idempotency_key is None:
            return command
        for event in self.notable:
            if isinstance(event, e.MessageAccepted) and event.idempotency_key == command.idempotency_key:
                return replace(command, prior=(event.message_id, event.digest))
        return command

    def _tell(self, decided: e.Event) -> None:
        event = e.journaled(decided)
        own = _generation(self.session, event)
        change = evolve(self.session, event, at=self._given.now, session_id=self._session_id)
        session = self.session = change.session
        for record in change.records:
            self.records[record.id] = record
        self.events.append(event)
        if type(event) is not e.TurnText:
            self.notable.append(event)
        self.entries.append(
            e.entry(
                event,
                session_id=self._session_id,
                sequence=session.sequence,
                generation=own or session.generation,
                at=self._given.now,
            )
        )


def _there(session: Session | None) -> Session:
    assert session is not None, "an event leaves a session"
    return session


def _generation(session: Session | None, event: e.Event) -> int | None:
    """The generation that an event belongs to, where that is not simply the session's: a turn stays in its own."""
    if isinstance(event, e.AgentStarted):
        return event.generation
    running = session.running if session else None
    if running and getattr(event, "turn_id", None) == running.turn.id:
        return running.turn.generation
    ending = session.ending if session else ()
    return next((message.generation for message in ending if message.id == getattr(event, "message_id", None)), None)
