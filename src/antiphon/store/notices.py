"""Notices that wait to be told, of each session one: the same in every store that hosts can share."""

import asyncio

from antiphon.ports.store import Commit, Notice


class Waiting:
    """Notices by session. What comes on top of another of the same session is told with it."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        """Set while there is something to tell."""
        self._notices: dict[str, Notice] = {}

    def put(self, notice: Notice) -> None:
        """Something happened to a session."""
        before = self._notices.get(notice.session_id)
        self._notices[notice.session_id] = _both(before, notice) if before else notice
        self.ready.set()

    def take(self) -> list[Notice]:
        """All that waits; it does no longer."""
        notices, self._notices = self._notices, {}
        self.ready.clear()
        return list(notices.values())


def _both(one: Notice, other: Notice) -> Notice:
    ended = None if one.ended is None or other.ended is None else {**one.ended, **other.ended}
    return Notice(session_id=one.session_id, sequence=max(one.sequence, other.sequence), ended=ended)


def notice_of(commit: Commit) -> Notice:
    """What others are told of a commit."""
    ended = {message.id: message.turn_id for message in commit.messages if message.ended_at is not None}
    whole = commit.session.lifecycle != "deleted"  # a deletion ends all that it does not name
    return Notice(session_id=commit.session.id, sequence=commit.session.sequence, ended=ended if whole else None)
