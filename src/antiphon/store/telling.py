"""Which events of a commit webhooks may want to be told, and what is told of them: the same in every store."""

from typing import Any

import msgspec

from antiphon.core.session import Message, Session
from antiphon.ports.store import Commit

MESSAGE_ENDED = "message.ended"
_OF_SESSIONS = frozenset({"session.stopped", "session.deleted"})


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """An event that webhooks may want. Its id follows from what happened, so that it is the same whoever makes it."""

    id: str
    type: str
    at: int
    session_id: str
    message_id: str | None = None
    subject: Message | dict[str, Any]


def tellings(commit: Commit) -> tuple[Telling, ...]:
    """The events of a commit that webhooks may want; for most commits a look at two fields says that there are none.

    What a session brings along when it is made, by an import, has happened elsewhere.
    """
    session, ended = commit.session, [message for message in commit.messages if message.ended_at is not None]
    if commit.expected == 0 or (not ended and session.lifecycle == "active"):
        return ()
    ends = {entry.message_id for entry in commit.entries if entry.type == MESSAGE_ENDED}
    found = [end_of(message) for message in ended if message.id in ends]
    for entry in commit.entries:
        if entry.type in _OF_SESSIONS:
            id = f"evt_{session.id.removeprefix('ses_')}_{entry.sequence}"
            told = Telling(id=id, type=entry.type, at=entry.at, session_id=session.id, subject=_named(session))
            found.append(told)
    return tuple(found)


def end_of(message: Message) -> Telling:
    """The one end of a message, which has ended."""
    return Telling(
        id=f"evt_{message.id.removeprefix('msg_')}",
        type=MESSAGE_ENDED,
        at=message.ended_at or 0,
        session_id=message.session_id,
        message_id=message.id,
        subject=message,
    )


def _named(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "key": session.key,
        "generation": session.generation,
        "agent": session.agent,
        "title": session.title,
        "labels": dict(session.labels),
    }
