"""Small sessions, written step by step: what the store's contract suite commits."""

from typing import Any

from msgspec.structs import replace

from antiphon.core import events as e
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import Commit, NewText


class Draft:
    """A session on its way through commits. Each method makes the next one and takes it for written.

    It decides nothing: it holds together just as much as a store looks at. A commit that was refused is put right
    with `session = …`.

    Attributes:
        session: The session after the last commit that was made.
    """

    def __init__(self, id: str, **fields: Any) -> None:
        self.session = replace(Session(id=id, agent="echo", created_at=1000, active_at=1000), **fields)

    def create(self) -> Commit:
        """The commit that makes the session."""
        session = self.session
        created = e.SessionCreated(key=session.key, agent=session.agent, title=session.title, labels=session.labels)
        return self.step(created)

    def step(self, *events: e.Event, fence: int | None = None, **changes: Any) -> Commit:
        """A commit of these events that changes these fields of the session, or hands these records over."""
        records = {name: changes.pop(name) for name in ("messages", "turns", "permissions", "texts") if name in changes}
        before, at = self.session, changes.get("active_at", self.session.active_at)
        generation = changes.get("generation", before.generation)
        entries = tuple(
            e.entry(event, session_id=before.id, sequence=sequence, generation=generation, at=at)
            for sequence, event in enumerate(events, before.sequence + 1)
        )
        self.session = replace(before, sequence=before.sequence + len(events), **changes)
        return Commit(session=self.session, expected=before.sequence, entries=entries, fence=fence, **records)

    def log(self, text: str = "…", **changes: Any) -> Commit:
        """A commit of one remark."""
        return self.step(e.AgentLog(text=text), **changes)

    def accept(self, id: str, text: str = "hello", *, files: tuple[dict[str, Any], ...] = (), **about: Any) -> Commit:
        """A commit that accepts a message; `about` are its `idempotency_key` and `digest`."""
        message = self.message(id)
        accepted = e.MessageAccepted(message_id=id, text=text, files=files, when_busy="queue", place=0, **about)
        return self.step(
            accepted, messages=(message,), texts=(NewText(message_id=id, text=text, files=files, **about),)
        )

    def message(self, id: str, **fields: Any) -> Message:
        """A message of this session that the next event accepts, but for these fields."""
        session = self.session
        message = Message(
            id=id,
            session_id=session.id,
            session_key=session.key,
            generation=session.generation,
            sequence=session.sequence + 1,
            when_busy="queue",
            accepted_at=1000,
        )
        return replace(message, **fields)

    def turn(self, id: str, **fields: Any) -> Turn:
        """A turn of this session that begins with the next event, but for these fields."""
        session, first = self.session, self.session.sequence + 1
        turn = Turn(id=id, session_id=session.id, generation=session.generation, started_at=1000, first_sequence=first)
        return replace(turn, **fields)

    def start(self, turn: Turn) -> Commit:
        """A commit that starts a turn."""
        return self.step(e.TurnStarted(turn_id=turn.id, message_ids=turn.message_ids), turns=(turn,))

    def say(self, turn: Turn, *texts: str) -> Commit:
        """A commit of pieces of a turn's answer."""
        return self.step(*[e.TurnText(turn_id=turn.id, text=text) for text in texts])

    def end(self, turn: Turn) -> Commit:
        """A commit that ends a turn."""
        last = self.session.sequence + 1
        ended = replace(turn, state="completed", ended_at=2000, last_sequence=last)
        return self.step(e.TurnEnded(turn_id=turn.id, state="completed"), turns=(ended,))

    def ask(self, id: str, *, at: int, **fields: Any) -> Commit:
        """A commit that asks a person something."""
        session_id = self.session.id
        asked = Permission(id=id, session_id=session_id, turn_id="turn_1", question="?", requested_at=at)
        asked = replace(asked, **fields)
        event = e.PermissionRequested(permission_id=id, turn_id=asked.turn_id, question=asked.question)
        return self.step(event, permissions=(asked,))

    def delete(self) -> Commit:
        """The commit that deletes the session."""
        return self.step(e.SessionDeleted(), lifecycle="deleted")
