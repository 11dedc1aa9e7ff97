"""Which session needs somebody most, and which of them a person wants to see."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from antiphon.client.documents import Session

ORDER = ("asking", "stalled", "errored", "running", "starting")
"""The statuses that come first, in this order; the rest follows by its latest activity."""


def by_attention(sessions: Iterable[Session]) -> list[Session]:
    """Sessions as they need attention; within a status, newest activity first."""
    newest = sorted(sessions, key=lambda each: each.active_at or "", reverse=True)
    return sorted(newest, key=lambda each: ORDER.index(each.status) if each.status in ORDER else len(ORDER))


class Wanted(NamedTuple):
    """What a filter line asks for: `agent:NAME`, `status:WORD`, `label:NAME=VALUE` or `label:NAME`, and words."""

    words: tuple[str, ...]
    agents: tuple[str, ...]
    statuses: tuple[str, ...]
    labels: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, line: str) -> "Wanted":
        """Read a filter line. It can't be wrong: what is no known `name:` is a word to look for."""
        words: list[str] = []
        agents: list[str] = []
        statuses: list[str] = []
        labels: list[tuple[str, str | None]] = []
        for part in line.split():
            name, colon, value = part.partition(":")
            if colon and value and name == "agent":
                agents.append(value)
            elif colon and value and name == "status":
                statuses.append(value)
            elif colon and value and name == "label":
                label, equals, wanted = value.partition("=")
                labels.append((label, wanted if equals else None))
            else:
                words.append(part.casefold())
        return cls(tuple(words), tuple(agents), tuple(statuses), tuple(labels))

    def holds(self, session: Session) -> bool:
        """Whether a session is wanted: every word is in its names, and all else holds too."""
        labels = session.labels or {}
        names = " ".join(filter(None, (session.key, session.title, session.id, session.agent, session.model)))
        return (
            all(word in names.casefold() for word in self.words)
            and (not self.agents or session.agent in self.agents)
            and (not self.statuses or session.status in self.statuses)
            and all(name in labels and value in (None, labels[name]) for name, value in self.labels)
        )


def finished(session: Session) -> int:
    """How many turns of a session have ended: what a reader may have missed."""
    return (session.turns or 0) - (1 if session.turn_id else 0)


def is_unread(session: Session, seen: Mapping[str, int]) -> bool:
    """Whether a turn has ended since the session was looked at, or it waits for an answer."""
    return session.status == "asking" or finished(session) > seen.get(session.id, 0)
