"""What the host shows of sessions, messages, turns, permissions and events: the contract's shapes, ready for JSON."""

from typing import Any

import msgspec

from antiphon.core import times
from antiphon.core.events import Entry
from antiphon.core.session import Message, Permission, Problem, Session, Turn, Usage
from antiphon.ports.peers import Peer


def rfc3339(ms: int | None) -> str | None:
    """A time as it is shown; None stays None."""
    return None if ms is None else times.rfc3339(ms)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Something shown; every field is always present, in the order given here."""


class Receipt(View, frozen=True, kw_only=True):
    """What became of a message, or what it is waiting for."""

    id: str
    session_id: str
    session_key: str | None
    generation: int
    turn_id: str | None
    state: str
    reply: str | None
    error: Problem | None
    when_busy: str
    delivered_as: str | None
    position: int | None
    waiting_for: str | None
    accepted_at: str | None
    started_at: str | None
    ended_at: str | None
    usage: Usage | None
    substitute: str | None
    sender: str | None
    deadline_at: str | None


class SessionView(View, frozen=True, kw_only=True):
    """A session as clients see it.

    `queued` counts waiting messages; `turn_id` is the running turn's; `paused_at` says since when no turn may start.
    `host` is the name of the host that owns it; it is told only of a session that is asked for by itself, and is null
    where none does, or where the store can't be shared.
    """

    id: str
    key: str | None
    generation: int
    sequence: int
    revision: int
    status: str
    agent: str
    cwd: str | None
    model: str | None
    title: str | None
    labels: dict[str, str]
    when_busy: str | None
    settings: dict[str, Any]
    turn_id: str | None
    queued: int
    paused_at: str | None
    forked_from: dict[str, str] | None
    turns: int
    created_at: str | None
    active_at: str | None
    host: str | None = None


class HostView(View, frozen=True, kw_only=True):
    """A host as clients see it.

    `state` is `serving`; `draining`, it shuts down; `drained`, a person wants it to own no session; or `away`. `this`
    is the one that answered. `sessions` is how many it owns.
    """

    id: str
    name: str
    url: str
    version: str
    state: str
    this: bool
    sessions: int
    agents_open: int
    max_agents: int
    started_at: str | None
    seen_at: str | None


class TurnView(View, frozen=True, kw_only=True):
    """A turn as clients see it."""

    id: str
    session_id: str
    generation: int
    state: str
    origin: str
    message_ids: tuple[str, ...]
    reply: str | None
    error: Problem | None
    usage: Usage | None
    started_at: str | None
    ended_at: str | None
    rolled_back: bool


class PermissionView(View, frozen=True, kw_only=True):
    """A permission request as clients see it; `state` is `pending`, `allowed`, `denied` or `expired`."""

    id: str
    session_id: str
    session_key: str | None
    turn_id: str
    state: str
    question: str
    tool: str | None
    options: tuple[dict[str, Any], ...]
    requested_at: str | None
    deadline_at: str | None
    option_id: str | None
    note: str | None
    by: str | None
    answered_at: str | None


class TranscriptItem(View, frozen=True, kw_only=True):
    """One line of a conversation: `role` is `user` or `assistant`; a turn's answer follows the messages it answers."""

    role: str
    text: str
    message_id: str | None
    turn_id: str | None
    state: str
    at: str | None


class EventView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the contract. `gap` and `snapshot` have no cursor of their own."""

    cursor: str
    session_id: str
    generation: int
    turn_id: str | None = None
    message_id: str | None = None
    type: str
    at: str
    data: dict[str, Any]

    # `data` is always told, also when empty: it has no default.


class Page(View, frozen=True, kw_only=True):
    """A page of a list."""

    items: tuple[Any, ...]
    next_cursor: str | None


class AgentView(View, frozen=True, kw_only=True):
    """An agent this host knows; `missing` says what it lacks on this machine and how to get it."""

    name: str
    capabilities: dict[str, bool]
    available: bool
    missing: str | None


class Cancelled(View, frozen=True, kw_only=True):
    """The answer to a cancel: the state of the turn, or of the message that was cancelled, and whether nothing of it is
    known to run any more. `message_ids` are those that ended without having run, or left a turn that goes on."""

    turn_id: str | None
    state: str
    confirmed: bool
    message_ids: tuple[str, ...] = ()


def session_view(session: Session) -> SessionView:
    """A session as clients see it."""
    return SessionView(
        id=session.id,
        key=session.key,
        generation=session.generation,
        sequence=session.sequence,
        revision=session.revision,
        status=session.status(),
        agent=session.agent,
        cwd=session.cwd,
        model=session.model,
        title=session.title,
        labels=session.labels,
        when_busy=session.when_busy,
        settings=session.settings,
        turn_id=session.running.turn.id if session.running else None,
        queued=len(session.inbox),
        paused_at=rfc3339(session.paused_at),
        forked_from=_forked_from(session),
        turns=session.turns,
        created_at=rfc3339(session.created_at),
        active_at=rfc3339(session.active_at),
    )


def _forked_from(session: Session) -> dict[str, str] | None:
    branch = session.branch
    return {"session_id": branch.session_id, "turn_id": branch.turn_id} if branch else None


def receipt(message: Message, *, reply: str | None, position: int | None, waiting_for: str | None) -> Receipt:
    """A message's receipt."""
    return Receipt(
        id=message.id,
        session_id=message.session_id,
        session_key=message.session_key,
        generation=message.generation,
        turn_id=message.turn_id,
        state=message.state,
        reply=reply,
        error=message.error,
        when_busy=message.when_busy,
        delivered_as=message.delivered_as,
        position=position,
        waiting_for=waiting_for,
        accepted_at=rfc3339(message.accepted_at),
        started_at=rfc3339(message.started_at),
        ended_at=rfc3339(message.ended_at),
        usage=message.usage,
        substitute=message.substitute,
        sender=message.sender,
        deadline_at=None if message.ended_at else rfc3339(message.deadline_at),
    )


def turn_view(turn: Turn, *, reply: str | None) -> TurnView:
    """A turn as clients see it."""
    return TurnView(
        id=turn.id,
        session_id=turn.session_id,
        generation=turn.generation,
        state=turn.state,
        origin=turn.origin,
        message_ids=turn.message_ids,
        reply=reply,
        error=turn.error,
        usage=turn.usage,
        started_at=rfc3339(turn.started_at),
        ended_at=rfc3339(turn.ended_at),
        rolled_back=turn.rolled_back,
    )


def permission_view(permission: Permission, *, session_key: str | None) -> PermissionView:
    """A permission request as clients see it."""
    return PermissionView(
        id=permission.id,
        session_id=permission.session_id,
        session_key=session_key,
        turn_id=permission.turn_id,
        state=permission.state,
        question=permission.question,
        tool=permission.tool,
        options=permission.options,
        requested_at=rfc3339(permission.requested_at),
        deadline_at=rfc3339(permission.deadline_at),
        option_id=permission.option_id,
        note=permission.note,
        by=permission.by,
        answered_at=rfc3339(permission.answered_at),
    )


def event_view(entry: Entry, epoch: str) -> EventView:
    """An entry of the journal as clients see it."""
    return EventView(
        cursor=f"{epoch}:{entry.sequence}",
        session_id=entry.session_id,
        generation=entry.generation,
        turn_id=entry.turn_id,
        message_id=entry.message_id,
        type=entry.type,
        at=rfc3339(entry.at) or "",
        data=entry.data,
    )


def host_view(peer: Peer, *, this: bool) -> HostView:
    """A host as clients see it; `this` is the one that they asked."""
    told = peer.bulletin
    state = "draining" if told.leaving else "drained" if peer.drained else "serving"
    return HostView(
        id=peer.id,
        name=told.name,
        url=told.url,
        version=told.version,
        state=state if peer.living else "away",
        this=this,
        sessions=peer.sessions,
        agents_open=told.agents_open if peer.living else 0,
        max_agents=told.max_agents,
        started_at=rfc3339(peer.started_at),
        seen_at=rfc3339(peer.seen_at),
    )
