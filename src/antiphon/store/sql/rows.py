"""Between values and rows: what is kept as JSON, and how it is read back."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.ports.store import NewText, StoreDamaged

_log = logging.getLogger("antiphon.store")
T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, UnicodeError, TypeError, ValueError)


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person wrote, as it is kept beside the message's record."""

    text: str
    files: tuple[dict[str, Any], ...] = ()


encode = msgspec.json.Encoder().encode
_data = msgspec.json.Decoder(dict[str, Any]).decode
_session = msgspec.json.Decoder(Session).decode
_body = msgspec.json.Decoder(Body).decode
message = msgspec.json.Decoder(Message).decode
turn = msgspec.json.Decoder(Turn).decode
permission = msgspec.json.Decoder(Permission).decode


def read(kind: str, session_id: str, decode: Callable[..., T], *columns: Any) -> T:
    """Decode what a row holds.

    Raises:
        StoreDamaged: It can't be read. The row is left as it is.
    """
    try:
        return decode(*columns)
    except UNREADABLE as error:
        raise StoreDamaged(
            f"A stored {kind} of session {session_id} can't be read. It was left as it is.", session_id=session_id
        ) from error


class Damage:
    """How many unreadable rows lists have left out since the store was opened."""

    def __init__(self) -> None:
        self.rows = 0

    def listed(self, kind: str, session_id: str, decode: Callable[..., T], *columns: Any) -> T | None:
        """Decode a row of a list; None, counted and logged, when it can't be read."""
        try:
            return decode(*columns)
        except UNREADABLE:
            self.rows += 1
            _log.error(
                "A row can't be read and is left out of a list",
                extra={"action": "list", "session_id": session_id, "kind": kind},
            )
            return None


def session(id: str, sequence: int, state: bytes) -> Session:
    """The session of a row, which must agree with the columns beside it."""
    value = _session(state)
    if value.id != id or value.sequence != sequence:
        raise ValueError("the state is not that of its row")
    return value


ENTRY_COLUMNS = "session, sequence, position, generation, type, at, turn_id, message_id, data"


def entry_rows(entries: Iterable[Entry]) -> tuple[tuple[Any, ...], ...]:
    """The columns of entries after session, sequence and position."""
    return tuple([(one.generation, one.type, one.at, one.turn_id, one.message_id, encode(one.data)) for one in entries])


def entry(session_id: str, sequence: int, *columns: Any) -> Entry:
    """The entry of a row: `generation, type, at, turn_id, message_id, data`."""
    generation, type, at, turn_id, message_id, data = columns
    return Entry(
        session_id=session_id,
        sequence=sequence,
        generation=generation,
        type=type,
        at=at,
        turn_id=turn_id,
        message_id=message_id,
        data=_data(data),
    )


def text_of(data: bytes) -> str:
    """The text of a `turn.text` entry's data."""
    return _body(data).text


def body(text: NewText) -> bytes:
    """The stored form of what a person wrote."""
    return encode(Body(text.text, text.files))


def written(data: bytes | None) -> Body:
    """What a person wrote; nothing where no text was ever committed."""
    return _body(data) if data is not None else Body("")


def labels_column(labels: dict[str, str]) -> str:
    """Labels in a form in which `label_needle` finds one and no other: inside a value every quote is escaped."""
    return "".join(label_needle(name, value) for name, value in sorted(labels.items()))


def label_needle(name: str, value: str) -> str:
    """What `labels_column` holds of one label."""
    return encode((name, value)).decode()


def search_column(value: Session) -> str:
    """What a text is looked for in. NUL is not kept: PostgreSQL's text has none."""
    return search_needle("\n".join(filter(None, (value.key, value.title))))


def search_needle(text: str) -> str:
    """A text as `search_column` holds it."""
    return text.casefold().replace("\0", "")
