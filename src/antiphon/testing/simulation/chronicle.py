"""What was committed, by whoever: the half of the truth that every client must be able to rely on."""

from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import Commit

BORN_WITH_MAX = 2
"""How many entries a session that is no copy is created with at the most."""


class Story:
    """All commits of one session.

    Attributes:
        copied: How many entries it was born with, when it is the copy of another one.
        over: When each of its messages and turns ended, in seconds of the simulation.
        born_at, over_at: When it was created and deleted, in seconds of the simulation.
    """

    def __init__(self, born_at: float) -> None:
        self.commits: list[Commit] = []
        self.entries: list[Entry] = []
        self.messages: dict[str, Message] = {}
        self.turns: dict[str, Turn] = {}
        self.permissions: dict[str, Permission] = {}
        self.texts: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.over: dict[str, float] = {}
        self.copied = 0
        self.born_at = born_at
        self.over_at: float | None = None

    @property
    def session(self) -> Session:
        """The session after the last commit."""
        return self.commits[-1].session

    def add(self, commit: Commit, at: float) -> None:
        """Take note of a commit."""
        if not self.commits and len(commit.entries) > BORN_WITH_MAX:
            self.copied = len(commit.entries)
        self.commits.append(commit)
        self.entries.extend(commit.entries)
        self.messages.update((message.id, message) for message in commit.messages)
        self.turns.update((turn.id, turn) for turn in commit.turns)
        self.permissions.update((permission.id, permission) for permission in commit.permissions)
        for entry in commit.entries:
            ended = {"turn.ended": entry.turn_id, "message.ended": entry.message_id}.get(entry.type)
            if ended:
                self.over[ended] = at
        for text in commit.texts:
            self.texts[text.message_id] = text.text
            if text.idempotency_key is not None:
                self.keys[text.idempotency_key] = text.message_id
        if commit.session.lifecycle == "deleted":
            self.over_at = at


class Chronicle:
    """Every session that ever was, by id."""

    def __init__(self) -> None:
        self.stories: dict[str, Story] = {}

    def add(self, commit: Commit, at: float) -> None:
        """Take note of a commit that the store has taken."""
        self.stories.setdefault(commit.session.id, Story(at)).add(commit, at)

    def of_message(self, message_id: str) -> Story | None:
        """The session that has this message."""
        return next((story for story in self.stories.values() if message_id in story.messages), None)

    def of_turn(self, turn_id: str) -> Story | None:
        """The session that has this turn."""
        return next((story for story in self.stories.values() if turn_id in story.turns), None)

    def living(self) -> list[Story]:
        """The sessions that have not been deleted."""
        return [story for story in self.stories.values() if story.over_at is None]
