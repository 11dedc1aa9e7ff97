"""The part of a host that makes sessions: new ones, imported ones, and such as begin where another one stood."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.core.decide import Given, Refused
from antiphon.core.names import key_problem
from antiphon.core.session import Session, Turn
from antiphon.core.step import Step
from antiphon.host.actor import SessionActor
from antiphon.host.archive import Origin, exported, exported_key, forked, imported
from antiphon.host.context import Context
from antiphon.host.directories import is_directory
from antiphon.host.service import NewSession
from antiphon.host.tasks import Tasks
from antiphon.host.together import Together
from antiphon.host.views import SessionView
from antiphon.ports.peers import HOST_LABEL
from antiphon.ports.store import Commit, KeyTaken

T = TypeVar("T")

DOUBT_S = 2.0
"""How long a caller waits for the host to find out what became of a commit."""
TURNS_PAGE = 200


class Making(Together):
    """What a host does to make sessions, each to its end whether or not the caller waits."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tasks = Tasks("host")
        self._closing = False

    def actor(self, session_id: str) -> SessionActor:
        """The actor of a session, made now if it sleeps. Use it before the next `await`.

        Raises:
            Draining: The host is about to be gone.
        """
        actor = self._actors.get(session_id)
        if actor is None:
            if self._closing:
                raise _draining()
            actor = self._actors[session_id] = SessionActor(session_id, self.context)
        return actor

    async def create_session(self, new: NewSession, *, return_existing: bool) -> tuple[SessionView, bool]:
        """See `Service.create_session`."""
        self._take_new()
        self._check(new)
        await self._check_room()
        try:
            return self.shown(await self._finish(self._create(new), "create")), True
        except errors.Exists as taken:
            if not return_existing:
                raise
            return await self.session(taken.ids["session_id"]), False

    async def _create(self, new: NewSession) -> Session:
        """Raises Exists when the key is in use."""
        session_id = self.context.ids.new("ses")
        step = Step(None, Given(now=self.context.clock.now()), session_id=session_id)
        fields: dict[str, Any] = {name: getattr(new, name) for name in new.__struct_fields__}
        created = step.take(c.CreateSession(session_id=session_id, **fields))
        if isinstance(created, Refused):
            raise created.error
        step.seal()
        assert step.session is not None, "a session was just created"
        try:
            await self._keep(Commit(session=step.session, expected=0, entries=tuple(step.entries)))
        except KeyTaken as taken:
            detail = f"Key {new.key!r} belongs to session {taken.session_id}. Use it, or choose another key."
            raise errors.Exists(detail, session_id=taken.session_id, key=new.key) from None
        return step.session

    async def _keep(self, commit: Commit) -> None:
        """Commit a new session. Where the outcome is unknown it is found out, if need be after the caller was told so.

        Raises:
            KeyTaken, StoreUnavailable: As `Store.commit`.
        """
        try:
            await self.context.store.commit(commit)
        except errors.StoreUnavailable as error:
            if not error.ids.get("in_doubt"):
                raise
            looking = self._tasks.start(self._look_for(commit), "look_for")
            await asyncio.wait({looking}, timeout=DOUBT_S)
            if not looking.done():
                raise
            if not looking.result():
                raise errors.StoreUnavailable(error.detail, retry_after_s=error.retry_after_s) from error
        else:
            self._tell_of(commit)

    async def _look_for(self, commit: Commit) -> bool:
        """Whether a new session is in the store after all, however long that takes."""
        while True:
            try:
                found = await self.context.store.load(commit.session.id)
            except errors.StoreUnavailable:
                await self.context.clock.sleep(DOUBT_S / 10 * (0.5 + self.context.random.random()))
            else:
                break
        if found is not None:
            self._tell_of(commit)
        return found is not None

    def _tell_of(self, commit: Commit) -> None:
        self.context.fanout.publish(commit.session.id, commit.entries)
        if commit.session.unsettled and not self._closing:
            self.actor(commit.session.id).wake()

    async def _finish(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Have the host do something to its end, whether or not the caller waits for it (P6)."""
        if self._closing:
            work.close()
            raise _draining()
        return await self._tasks.finish(work, name)

    def _take_new(self) -> None:
        if self.context.draining:
            raise _draining()

    def _check(self, new: NewSession) -> None:
        if new.key is not None and (problem := key_problem(new.key)):
            raise errors.InvalidRequest(problem, field="key")
        if new.agent not in self.context.agents:
            raise errors.NotFound("agent", new.agent)
        if new.labels.get(HOST_LABEL, self.name) == self.name:
            self._check_cwd(new.cwd)

    def _check_cwd(self, cwd: Any) -> None:
        if cwd is not None and not is_directory(cwd):
            raise errors.InvalidRequest("`cwd` must be an existing directory, as an absolute path.", field="cwd")

    async def _check_room(self) -> None:
        limit = self.context.settings.max_sessions
        if limit is not None and await self.context.store.count() >= limit:
            detail = f"This host keeps {limit} sessions already. Delete one, or raise `max_sessions`."
            raise errors.SessionLimit(detail, retry_after_s=60)

    # Whole sessions

    async def export_session(self, ref: str) -> dict[str, Any]:
        """See `Service.export_session`."""
        return await exported(self.context.store, await self.load(ref))

    async def import_session(self, document: dict[str, Any]) -> SessionView:
        """See `Service.import_session`."""
        self._take_new()
        await self._check_room()
        return self.shown(await self._finish(self._import(document), "import"))

    async def _import(self, document: dict[str, Any]) -> Session:
        for key in (exported_key(document), None):
            commit = imported(document, ids=self.context.ids, now=self.context.clock.now(), key=key)
            try:
                await self._keep(commit)
            except KeyTaken:
                continue
            return commit.session
        raise errors.Conflict("The session could not be imported. Try again.", retry_after_s=1)

    async def fork_session(self, ref: str, *, turn_id: str | None, key: str | None, title: str | None) -> SessionView:
        """See `Service.fork_session`."""
        self._take_new()
        if key is not None and (problem := key_problem(key)):
            raise errors.InvalidRequest(problem, field="key")
        session = await self.load(ref)
        origin = await self._origin(session, turn_id, key, title)
        await self._check_room()
        return self.shown(await self._finish(self._fork(origin), "fork"))

    async def _origin(self, session: Session, turn_id: str | None, key: str | None, title: str | None) -> Origin:
        """The turn that was named, or the last one from which a session can begin, if its agent can do that.

        Raises:
            ForkUnavailable, NotFound.
        """
        turn = await (self._turn(turn_id) if turn_id else self._last_marked(session))
        if turn_id and turn and turn.session_id != session.id:
            raise errors.NotFound("turn", turn_id)
        agent = self.context.agents.get(session.agent)
        if agent is None or not agent.capabilities.fork:
            detail = (
                f"The agent {session.agent!r} can't begin a conversation where another one stood. Start a new session."
            )
            raise errors.ForkUnavailable(detail, session_id=session.id)
        if turn is None or turn.mark is None:
            which = "No turn of this session" if turn is None else f"Turn {turn.id} is {turn.state}: it"
            detail = f"{which} leaves a place from which to begin. Choose a turn that completed."
            raise errors.ForkUnavailable(detail, session_id=session.id, turn_id=turn_id)
        return Origin(turn=turn, mark=turn.mark, key=key, title=title)

    async def _last_marked(self, session: Session) -> Turn | None:
        cursor, last = None, None
        while True:
            page = await self.context.store.turns(
                session.id, generation=session.generation, cursor=cursor, limit=TURNS_PAGE
            )
            last = next((turn for turn in reversed(page.items) if turn.mark), last)
            cursor = page.next_cursor
            if cursor is None:
                return last

    async def _fork(self, origin: Origin) -> Session:
        commit = await forked(self.context.store, origin, ids=self.context.ids, now=self.context.clock.now())
        try:
            await self._keep(commit)
        except KeyTaken as taken:
            detail = f"Key {origin.key!r} belongs to session {taken.session_id}. Choose another key."
            raise errors.Exists(detail, session_id=taken.session_id, key=origin.key) from None
        return commit.session


def _draining() -> errors.Draining:
    return errors.Draining("The host is shutting down. Try again once it has started anew.", retry_after_s=5)
