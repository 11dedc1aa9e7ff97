"""Which sessions need a person, and for what."""

from collections.abc import Iterable, Sequence
from typing import Any

from antiphon.client.documents import Permission, Session
from antiphon.client.sync import Client

NEEDING = ("asking", "stalled", "errored")
"""The statuses in which a session needs a person, the most urgent first."""
SHOWN_MAX = 20


def needing(client: Client, limit: int = SHOWN_MAX, **filters: Any) -> list[Session]:
    """The sessions that need a person: those that ask, then those that are stalled, then those that failed."""
    found: list[Session] = []
    for status in NEEDING:
        found += client.sessions(status=[status], limit=limit, **filters)
    return found[:limit]


def first(urgent: Iterable[Session], others: Iterable[Session]) -> list[Session]:
    """The urgent ones, then the others, each once."""
    by_id = {session.id: session for session in (*urgent, *others)}
    return list(by_id.values())


def reason(session: Session, asked: Sequence[Permission]) -> str:
    """What a session needs a person for, with the command for it."""
    if session.status == "asking":
        own = next((each for each in asked if each.session_id == session.id), None)
        return f"asks: {own.question} (antiphon permission allow|deny {own.id})" if own else "asks"
    if session.status == "stalled":
        return f"nothing was heard for long (antiphon session watch {session.ref})"
    return f"its last turn failed (antiphon session turns {session.ref})"
