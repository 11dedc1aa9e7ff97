"""Everything that can be read of a host's sessions."""

from collections import OrderedDict
from typing import Any

from antiphon.core.errors import InvalidRequest, NotFound
from antiphon.core.session import Message, Session, Turn
from antiphon.host.actor import SessionActor
from antiphon.host.context import Context
from antiphon.host.views import (
    AgentView,
    Page,
    PermissionView,
    Receipt,
    SessionView,
    TranscriptItem,
    TurnView,
    permission_view,
    receipt,
    rfc3339,
    session_view,
    turn_view,
)
from antiphon.host.waiting import position_of, waiting_for
from antiphon.ports.store import SessionQuery, StoreDamaged, StoredMessage

LOOKS_MAX = 5
"""How often a message is looked for that waits by its record and not in its session, as it may begin and wait again."""


class Reading:
    """The reading half of a host. Reads come from the store, or from an actor that has just committed the same."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._actors: dict[str, SessionActor] = {}
        self._homes: OrderedDict[str, str] = OrderedDict()
        """The sessions of messages that came this way lately, by their ids."""
        self._began_at = context.clock.now()

    # Sessions

    async def resolve(self, ref: str) -> str:
        """The id of the living session that an id or a key names.

        Raises:
            NotFound: There is none.
        """
        if ref.startswith("ses_"):
            return ref
        found = await self.context.store.find(ref)
        if found is None:
            raise NotFound("session", ref)
        return found

    async def load(self, ref: str) -> Session:
        """The session that an id or a key names, as it was last committed.

        Raises:
            NotFound: There is none.
        """
        session_id = await self.resolve(ref)
        session = await self.context.store.load(session_id)
        if session is None:
            raise NotFound("session", ref)
        return session

    async def session(self, ref: str) -> SessionView:
        """See `Service.session`."""
        return self.shown(await self.load(ref))

    def shown(self, session: Session) -> SessionView:
        """A session as clients see it now."""
        return session_view(session)

    async def sessions(
        self,
        *,
        statuses: tuple[str, ...] = (),
        agent: str | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """See `Service.sessions`."""
        query = SessionQuery(statuses=tuple(sorted(set(statuses))), agent=agent, labels=labels, text=text)
        with _cursors():
            found = await self.context.store.sessions(query, cursor=cursor, limit=limit)
        return Page(items=tuple(map(self.shown, found.items)), next_cursor=found.next_cursor)

    # Messages

    async def receipt(self, message_id: str) -> Receipt:
        """See `Service.receipt`."""
        stored = await self.context.store.message(message_id)
        if stored is None:
            raise NotFound("message", message_id)
        return await self._receipt(stored.message)

    async def _receipt(self, message: Message) -> Receipt:
        if message.state == "queued":
            return await self._queued(message)
        turn_id, until = message.turn_id, message.left_at
        reply = await self.context.store.reply(turn_id, until=until) if turn_id else None
        if message.turn_id and reply is None and await self.context.store.message(message.id) is None:
            raise NotFound("message", message.id)  # its session was deleted while this was read
        return receipt(message, reply=reply, position=None, waiting_for=None)

    async def _queued(self, message: Message) -> Receipt:
        actor = self._actors.get(message.session_id)
        if actor and not self.context.neighbours and (current := actor.receipt(message.id)):
            return current
        for _ in range(LOOKS_MAX):
            session = await self.context.store.load(message.session_id)
            waits = session.waiting(message.id) if session else None
            if session and waits:
                why = waiting_for(session, waits, self.context, hindrance=self._hindrance(session.id))
                return receipt(waits, reply=None, position=position_of(session, waits), waiting_for=why)
            stored = await self.context.store.message(message.id)  # it has moved on since it was read
            if stored is None:
                raise NotFound("message", message.id)
            if stored.message.state != "queued":
                return await self._receipt(stored.message)
        return receipt(message, reply=None, position=None, waiting_for="its session to be read again")

    async def queue(self, ref: str) -> Page:
        """See `Service.queue`."""
        session = await self.load(ref)
        hindrance = self._hindrance(session.id)
        items = [
            receipt(
                message,
                reply=None,
                position=position,
                waiting_for=waiting_for(session, message, self.context, hindrance=hindrance),
            )
            for position, message in enumerate(session.inbox, 1)
        ]
        return Page(items=tuple(items), next_cursor=None)

    def _hindrance(self, session_id: str) -> str | None:
        actor = self._actors.get(session_id)
        neighbours = self.context.neighbours
        if neighbours and not (actor and actor.owns):
            if neighbours.lacks(session_id):
                return "a host that has its working directory: this one has not"
            return "the host that owns its session to begin its turn"
        return actor.hindrance if actor else None

    # Turns

    async def turns(self, ref: str, *, limit: int = 50, cursor: str | None = None) -> Page:
        """See `Service.turns`."""
        session_id = (await self.load(ref)).id
        with _cursors():
            found = await self.context.store.turns(session_id, generation=None, cursor=cursor, limit=limit)
        items = [turn_view(turn, reply=await self.context.store.reply(turn.id)) for turn in found.items]
        return Page(items=tuple(items), next_cursor=found.next_cursor)

    async def turn(self, turn_id: str) -> TurnView:
        """See `Service.turn`."""
        turn = await self._turn(turn_id)
        return turn_view(turn, reply=await self.context.store.reply(turn.id))

    async def _turn(self, turn_id: str) -> Turn:
        turn = await self.context.store.turn(turn_id)
        if turn is None:
            raise NotFound("turn", turn_id)
        return turn

    async def transcript(
        self, ref: str, *, generation: int | None = None, limit: int = 200, cursor: str | None = None
    ) -> Page:
        """See `Service.transcript`."""
        session = await self.load(ref)
        store = self.context.store
        with _cursors():
            found = await store.transcript(
                session.id, generation=generation or session.generation, cursor=cursor, limit=limit
            )
        items: list[TranscriptItem] = []
        for place, stored in enumerate(found.items):
            following = found.items[place + 1].message.turn_id if place + 1 < len(found.items) else None
            items += await self._lines(stored, answered_later=stored.message.turn_id == following)
        return Page(items=tuple(items), next_cursor=found.next_cursor)

    async def _lines(self, stored: StoredMessage, *, answered_later: bool) -> list[TranscriptItem]:
        message = stored.message
        turn = await self.context.store.turn(message.turn_id) if message.turn_id else None
        if (turn and turn.rolled_back) or message.state == "withdrawn":
            return []
        said = TranscriptItem(
            role="user",
            text=stored.text,
            message_id=message.id,
            turn_id=message.turn_id,
            state=message.state,
            at=rfc3339(message.accepted_at),
        )
        reply = await self.context.store.reply(turn.id) if turn and not answered_later else None
        if turn is None or reply is None:
            return [said]
        answer = TranscriptItem(
            role="assistant",
            text=reply,
            message_id=None,
            turn_id=turn.id,
            state=turn.state,
            at=rfc3339(turn.ended_at or turn.started_at),
        )
        return [said, answer]

    # Permissions and agents

    async def permissions(
        self, *, state: str | None, ref: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page:
        """See `Service.permissions`."""
        session_id = await self.resolve(ref) if ref else None
        with _cursors():
            found = await self.context.store.permissions(state=state, session_id=session_id, cursor=cursor, limit=limit)
        keys = {item.session_id: await self._key(item.session_id) for item in found.items}
        items = tuple(permission_view(item, session_key=keys[item.session_id]) for item in found.items)
        return Page(items=items, next_cursor=found.next_cursor)

    async def permission(self, permission_id: str) -> PermissionView:
        """See `Service.permission`."""
        permission = await self.context.store.permission(permission_id)
        if permission is None:
            raise NotFound("permission", permission_id)
        return permission_view(permission, session_key=await self._key(permission.session_id))

    async def _key(self, session_id: str) -> str | None:
        """A session's key; None too where the session can't be read, so that a list can be shown without it."""
        try:
            session = await self.context.store.load(session_id)
        except StoreDamaged:
            return None
        return session.key if session else None

    async def agents(self) -> tuple[AgentView, ...]:
        """See `Service.agents`."""
        return tuple([await self._agent(name) for name in sorted(self.context.agents)])

    async def _agent(self, name: str) -> AgentView:
        agent = self.context.agents[name]
        missing = await agent.missing()
        capabilities: dict[str, Any] = {
            field: getattr(agent.capabilities, field) for field in agent.capabilities.__struct_fields__
        }
        return AgentView(name=name, capabilities=capabilities, available=missing is None, missing=missing)


class _cursors:  # noqa: N801 - reads as a statement
    """What a store says of a cursor that it never gave is the client's error."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError):
            raise InvalidRequest("The cursor must be one that a page of this list gave as `next_cursor`.") from error
