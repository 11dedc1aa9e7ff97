"""Export and import: a session with its whole journal as one JSON object."""

import re
from typing import Any, cast

import msgspec

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.errors import InvalidRequest, NotFound
from antiphon.core.evolve import Record, evolve
from antiphon.core.names import key_problem
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.settings import unusable
from antiphon.core.step import Step
from antiphon.core.table import ImpossibleEvent
from antiphon.host.commits import new_texts
from antiphon.ports.ids import Ids
from antiphon.ports.store import Commit, Store

FORMAT = 1
PAGE = 500


async def exported(store: Store, session: Session) -> dict[str, Any]:
    """The session and its journal as JSON values.

    Raises:
        NotFound: The session was deleted while its journal was read.
    """
    entries: list[e.Entry] = []
    while page := await store.entries(session.id, after=len(entries), limit=PAGE):
        entries += page
    if len(entries) < session.sequence:
        raise NotFound("session", session.key or session.id)  # it was deleted meanwhile
    return {"antiphon_export": FORMAT, "session": msgspec.to_builtins(session), "entries": msgspec.to_builtins(entries)}


def exported_key(document: dict[str, Any]) -> str | None:
    """The key that the session had where it was exported.

    Raises:
        InvalidRequest: It says none, or one that no session may have.
    """
    session: Any = document.get("session")
    if not isinstance(session, dict):
        raise InvalidRequest("This export names no session.", field="session")
    key: Any = cast("dict[str, Any]", session).get("key")
    if key is not None and (problem := key_problem(key) if isinstance(key, str) else "A key is a text."):
        raise InvalidRequest(problem, field="key")
    return key


def imported(document: dict[str, Any], *, ids: Ids, now: int, key: str | None) -> Commit:
    """The commit that makes a new session, with new ids, of an export; what still ran in it ends as interrupted.

    One with messages that wait is stopped.

    Raises:
        InvalidRequest: It is no export, of another format, or its journal is damaged.
    """
    if document.get("antiphon_export") != FORMAT:
        raise InvalidRequest(f"This is no export of antiphon, or of another format than {FORMAT}.")
    try:
        entries = msgspec.convert(document.get("entries"), list[e.Entry])
        _require_numbered(entries)
        commit = _commit(_renamed(_of_a_copy(entries), ids), now=now, key=key)
    except (msgspec.ValidationError, ImpossibleEvent, AttributeError, TypeError) as error:
        raise InvalidRequest("The journal in this export can't be read.", reason=str(error)) from error
    if flaw := unusable(commit.session.settings):
        raise InvalidRequest(flaw)
    return commit


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a fork is made of: a turn of a session, where the agent's conversation stood then, and a name and title."""

    turn: Turn
    mark: str
    key: str | None
    title: str | None


async def forked(store: Store, origin: Origin, *, ids: Ids, now: int) -> Commit:
    """The commit that makes a session of another one's journal, up to the end of a turn, with new ids.

    Raises:
        NotFound: The other session was deleted while its journal was read.
    """
    turn, entries = origin.turn, list[e.Entry]()
    while page := await store.entries(turn.session_id, after=len(entries), limit=PAGE):
        entries += page
        if entries[-1].sequence > (turn.last_sequence or 0) + len(turn.message_ids):
            break
    ends = [place for place, entry in enumerate(entries, 1) if entry.type in _ENDS and entry.turn_id == turn.id]
    if not ends:
        raise NotFound("session", turn.session_id)
    journal = _renamed(_of_a_copy(entries[: ends[-1]], keep_marks=True), ids)
    fork = c.Fork(from_session_id=turn.session_id, from_turn_id=turn.id, mark=origin.mark)
    patch = c.PatchSession(changes={} if origin.title is None else {"title": origin.title})
    return _commit(journal, now=now, key=origin.key, then=(fork, patch))


_ENDS = (e.TurnEnded.TYPE, e.MessageEnded.TYPE, e.MessageRequeued.TYPE)


def _require_numbered(entries: list[e.Entry]) -> None:
    if [entry.sequence for entry in entries] != list(range(1, len(entries) + 1)):
        raise ImpossibleEvent("its entries are not numbered from 1 on")


def _of_a_copy(entries: list[e.Entry], *, keep_marks: bool = False) -> list[e.Entry]:
    """The journal as a copy has it: without the way back to the agent's conversation, which stays the original's.

    A fork keeps where it can branch off from that.
    """
    kept = [entry for entry in entries if entry.type != e.AgentResumable.TYPE]
    secrets = {e.AgentStarted.TYPE: "resume_token", e.TurnEnded.TYPE: None if keep_marks else "mark"}
    return [
        msgspec.structs.replace(entry, sequence=place, data=_without(entry.data, secrets.get(entry.type)))
        for place, entry in enumerate(kept, 1)
    ]


def _without(data: dict[str, Any], name: str | None) -> dict[str, Any]:
    return {field: value for field, value in data.items() if field != name} if name in data else data


def _commit(entries: list[e.Entry], *, now: int, key: str | None, then: tuple[c.Command, ...] = ()) -> Commit:
    session: Session | None = None
    records: dict[str, Record] = {}
    events: list[e.Event] = []
    for place, entry in enumerate(entries):
        event = e.event(entry)
        if isinstance(event, e.SessionCreated):
            event = msgspec.structs.replace(event, key=key)
            entries[place] = msgspec.structs.replace(entry, data={**entry.data, "key": key})
        change = evolve(session, event, at=entry.at, session_id=entry.session_id)
        session = change.session
        records.update({record.id: record for record in change.records})
        events.append(event)
    if session is None:
        raise ImpossibleEvent("the journal is empty")
    step = Step(session, Given(now=now), session_id=session.id)
    step.take(c.HostDied())
    for command in then:
        step.take(command)
    if step.session and step.session.inbox:
        step.take(c.StopSession())  # what waits may run in the original too: a person decides whether it runs here
    step.seal()
    records.update(step.records)
    settled = step.session or session
    return Commit(
        session=settled,
        expected=0,
        entries=(*entries, *step.entries),
        messages=tuple(record for record in records.values() if isinstance(record, Message)),
        turns=tuple(record for record in records.values() if isinstance(record, Turn)),
        permissions=tuple(record for record in records.values() if isinstance(record, Permission)),
        texts=new_texts(events),
    )


_ID = re.compile(r"(ses|msg|turn|perm|run)_[0-9a-f]{32}")
_WRITTEN = ("text", "input", "output", "detail", "question", "note")
"""What persons and agents wrote: an id that stands there is part of it, and stays."""


def _renamed(entries: list[e.Entry], ids: Ids) -> list[e.Entry]:
    names: dict[str, str] = {}

    def new(value: Any) -> Any:
        if isinstance(value, str):
            if match := _ID.fullmatch(value):
                return names.get(value) or names.setdefault(value, ids.new(match[1]))
            return value
        if isinstance(value, list | tuple):
            return [new(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {name: item if name in _WRITTEN else new(item) for name, item in items}
        return value

    return [
        msgspec.structs.replace(
            entry,
            session_id=new(entry.session_id),
            turn_id=new(entry.turn_id),
            message_id=new(entry.message_id),
            data=new(entry.data),
        )
        for entry in entries
    ]
