"""The host: it keeps the sessions' actors, carries out what clients ask, begins with recovery, ends in good order."""

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from antiphon import __version__
from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.core.session import Session
from antiphon.host.actor import SessionActor
from antiphon.host.attention import Attention
from antiphon.host.belongings import Belongings
from antiphon.host.commits import Accepted
from antiphon.host.context import Context
from antiphon.host.fanout import Fanout
from antiphon.host.making import Making
from antiphon.host.neighbours import LOOK_S, Neighbours
from antiphon.host.places import Places
from antiphon.host.policy import policy_of
from antiphon.host.service import HostStatus, NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.host.tasks import Tasks
from antiphon.host.together import bid_farewell
from antiphon.host.views import Cancelled, Page, PermissionView, Receipt, SessionView, TurnView, receipt
from antiphon.host.waiting import position_of, waiting_for
from antiphon.ports.agent import Agent
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids
from antiphon.ports.peers import GRACE_S, Bulletin, Peers
from antiphon.ports.store import Store
from antiphon.ports.vitals import Vitals

log = logging.getLogger("antiphon.host")

HINTS_MAX = 20_000
RECOVERIES_AT_ONCE = 64
RECOVERY_S = 10.0
SWEEP_S = 0.5
HURRIED_GRACE_S = 2.0


class Host(Making):
    """A host over a store. `start` it before use; `stop` it in the end, however it went."""

    def __init__(
        self,
        *,
        store: Store,
        agents: Mapping[str, Agent],
        clock: Clock,
        ids: Ids,
        settings: HostSettings | None = None,
        workspace: Callable[[str], str],
        belongings: Path | None = None,
        environment: Callable[[], Mapping[str, str]] = dict,
        seed: int | None = None,
        store_name: str = "",
        vitals: Vitals | None = None,
        peers: Peers | None = None,
        name: str = "",
    ) -> None:
        """Args:
        store: Where sessions are kept; the caller opens and closes it.
        agents: The agents by name.
        clock, ids: Time, and names for new things.
        settings: Limits and deadlines.
        workspace: Makes the working directory of a session that names none, and returns its absolute path.
        belongings: A directory for what adapters keep of their sessions; without one they keep nothing.
        environment: The environment that agents are given.
        seed: Of the jitter in retries; None for a random one.
        store_name: What `status` calls the store.
        vitals: Looks at the processes of silent agents; without it only the clock says that a turn is stalled.
        peers: Where other hosts may share the store: how they know of each other.
        name: What this host is called among them; the same after a restart.
        """
        settings = settings or HostSettings()
        places, host_id = Places(settings.max_agents), ids.new("host")
        super().__init__(
            Context(
                host_id=host_id,
                store=store,
                clock=clock,
                ids=ids,
                agents=agents,
                settings=settings,
                places=places,
                neighbours=Neighbours(
                    peers,
                    store,
                    host_id=host_id,
                    bulletin=Bulletin(name=name, url="", version=__version__),
                    clock=clock,
                    places=places,
                )
                if peers
                else None,
                fanout=Fanout(store),
                random=random.Random(seed),  # noqa: S311 - jitter, not secrets
                workspace=workspace,
                belongings=Belongings(belongings),
                environment=environment,
                patience_s=settings.close_patience_s,
                grace_s=settings.cancel_grace_s,
            )
        )
        self._store_name, self.name = store_name, name
        self._attention = Attention(self.context, vitals)
        self._company = Tasks("neighbours")
        """What keeps this host among the others: it goes on until its last agent is gone."""
        self._leaving: dict[SessionActor, None] = {}
        self._named: OrderedDict[str, str] = OrderedDict()
        """The ids of sessions by their keys. Like the homes of messages a hint only: what it names may be gone."""
        self._hurry = asyncio.Event()
        self._stopping = asyncio.Lock()
        self._started_at = clock.monotonic()

    # Life

    async def start(self, url: str = "") -> None:
        """Settle what an earlier host left, then let the queues run.

        Returns when every session is settled; one that can't be settled now, because the store does not take it, is
        told of in the log and settled as soon as it can be. Where others share the store, those are settled that nobody
        owns just then, and others as they turn up.
        """
        neighbours, self.url = self.context.neighbours, url
        if neighbours:
            neighbours.reached_at(url)
            await neighbours.announce()
            self._company.start(neighbours.keep_announcing(), "announce")
            self._company.start(neighbours.keep_listening(self.moved), "listen")
        if neighbours:
            await self._settle_abandoned(neighbours)
        else:
            await self._settle(await self.context.store.unsettled())
        if neighbours:
            self._company.start(neighbours.keep_looking(self._take_up), "look")
        self._tasks.start(self._sweep(), "sweep")
        self._tasks.start(self._purge(), "purge")

    async def _settle_abandoned(self, neighbours: Neighbours) -> None:
        """Settle what nobody owns. Of a host that crashed just now that is not so at once."""
        until = self.context.clock.monotonic() + GRACE_S + 2 * LOOK_S
        while True:
            await self._settle(await neighbours.abandoned())
            if not neighbours.crashed_lately or self.context.clock.monotonic() > until:
                return
            await self.context.clock.sleep(LOOK_S)

    async def _settle(self, session_ids: Iterable[str]) -> None:
        gate = asyncio.Semaphore(RECOVERIES_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for session_id in session_ids:
                group.create_task(self._recover(session_id, gate))

    async def _recover(self, session_id: str, gate: asyncio.Semaphore) -> None:
        """Settle one session. Trouble with it stays with it (P13)."""
        async with gate:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECOVERY_S):
                    if await self.actor(session_id).settled():
                        return
            extra = {"action": "recovery_failed", "session_id": session_id}
            log.error("a session could not be recovered yet", extra=extra)

    def _take_up(self, session_id: str) -> None:
        """Nobody owns that session, and something in it waits for an owner."""
        if not self._closing:
            self.actor(session_id).take_up()

    def hurry(self) -> None:
        """Shut down at once: running turns get no more time, agents no more patience."""
        self._hurry.set()
        self.context.patience_s = 0.0
        self.context.grace_s = 0.0

    def drain(self) -> None:
        """Take nothing new from now on, and start no turn. What was accepted is kept, and runs after the next start."""
        self.context.draining = True
        if self.context.neighbours:
            self.context.neighbours.leave()
            self.let_others_have()

    async def stop(self) -> None:
        """Drain, give running turns their time, interrupt them, end the agents. The store stays open. Idempotent."""
        self.drain()
        async with self._stopping:
            await self._stop()

    async def _stop(self) -> None:
        await self._wait_for_turns(self.context.settings.drain_s, hurried=self._hurry)
        self.context.grace_s = min(HURRIED_GRACE_S, self.context.grace_s)
        self.context.patience_s = min(1.0, self.context.patience_s)
        for actor in self._busy():
            actor.shut_down()
        await self._wait_for_turns(self.context.grace_s + self.context.patience_s + 2)
        self._closing = True
        await self._tasks.close()
        await asyncio.gather(*[actor.close() for actor in (*self._actors.values(), *self._leaving)])
        self._actors.clear()
        await self._company.close()
        if self.context.neighbours:
            await bid_farewell(self.context.neighbours)
        self.context.fanout.close()

    def _busy(self) -> list[SessionActor]:
        return [actor for actor in self._actors.values() if actor.turning]

    async def _wait_for_turns(self, seconds: float, *, hurried: asyncio.Event | None = None) -> None:
        """Wait until no turn runs, or the time is up, or somebody is in a hurry. Their ends are told to who waits."""
        busy = self._busy()
        if not busy:
            return
        waits: list[asyncio.Task[Any]] = [self._tasks.start(_until_at_rest(busy), "wait_for_turns")]
        if hurried:
            waits.append(self._tasks.start(hurried.wait(), "wait_for_hurry"))
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()

    # Upkeep

    async def _sweep(self) -> None:
        """Once a moment: let idle agents go, put quiet actors to sleep, let questions expire."""
        while True:
            await self.context.clock.sleep(SWEEP_S)
            now, settings = self.context.clock.monotonic(), self.context.settings
            for session_id, actor in list(self._actors.items()):
                if actor.idle and now - actor.touched_at > settings.agent_idle_s:
                    actor.let_go()
                elif actor.asleep and now - actor.touched_at > settings.awake_idle_s:
                    self._put_to_sleep(session_id)
                elif actor.owns and actor.session and actor.session.running and not actor.crowded:
                    self._expire(actor, actor.session)
                    self._end_own_turn(actor, actor.session, now)
                    self._attention.look(actor, actor.session, actor.session.running, now)
            self._attention.keep(self._actors)
            if self.context.neighbours and (
                self.context.neighbours.drained or self.context.neighbours.better_elsewhere
            ):
                self.let_others_have()

    def _put_to_sleep(self, session_id: str) -> None:
        actor = self._actors.pop(session_id)
        self._leaving[actor] = None
        self._tasks.start(self._close(actor), "sleep")

    async def _close(self, actor: SessionActor) -> None:
        await actor.close()
        self._leaving.pop(actor, None)

    def _expire(self, actor: SessionActor, session: Session) -> None:
        now = self.context.clock.now()
        for permission in session.permissions:
            if permission.deadline_at is not None and permission.deadline_at <= now:
                decision = policy_of(session, self.context.settings).permission_default
                actor.tell(c.ExpirePermission(permission_id=permission.id, decision=decision))

    def _end_own_turn(self, actor: SessionActor, session: Session, now: float) -> None:
        """A turn that an agent began by itself is over, too, when it falls silent: it must not hold the queue up."""
        running = session.running
        if running is None or running.turn.origin != "agent" or session.permissions:
            return
        patience_s = policy_of(session, self.context.settings).stall_after_s
        if now - actor.heard_at > patience_s:
            actor.tell(c.AgentEnded(turn_id=running.turn.id))

    async def _purge(self) -> None:
        """Take away, in small steps, what deleted sessions left."""
        await self.context.belongings.sweep(self.context.store)
        while True:
            await self.context.clock.sleep(10)
            try:
                while await self.context.store.purge(500):
                    await self.context.clock.sleep(0.05)
            except errors.StoreUnavailable as error:
                log.warning("a purge did not succeed", extra={"action": "purge_failed", "code": error.code})

    # Sessions

    async def patch_session(self, ref: str, changes: dict[str, Any], *, if_match: int | None) -> SessionView:
        """See `Service.patch_session`."""
        self._check_cwd(changes.get("cwd"))
        accepted = await self._ask(ref, c.PatchSession(changes=changes, if_match=if_match))
        return self.shown(accepted)

    async def stop_session(self, ref: str) -> SessionView:
        """See `Service.stop_session`."""
        session = await self._ask(ref, c.StopSession())
        actor = self.actor(session.id)
        await self._bounded(actor, lambda: actor.agent_away and not (actor.session and actor.session.running))
        return self.shown(await self.load(session.id))

    async def resume_session(self, ref: str) -> SessionView:
        """See `Service.resume_session`."""
        self._take_new()
        session = await self._ask(ref, c.ResumeSession())
        if not session.inbox and not session.running:
            self.actor(session.id).wake_agent()
        return self.shown(session)

    async def clear_session(self, ref: str) -> SessionView:
        """See `Service.clear_session`."""
        return self.shown(await self._ask(ref, c.ClearSession()))

    async def delete_session(self, ref: str) -> None:
        """See `Service.delete_session`."""
        session = await self._ask(ref, c.DeleteSession())
        actor = self.actor(session.id)
        if await self._bounded(actor, lambda: actor.agent_away):
            self.context.belongings.discard(session.id)
        if self._actors.get(session.id) is actor and actor.asleep and not self._closing:
            self._put_to_sleep(session.id)

    async def _ask(self, ref: str, command: c.Command) -> Session:
        """Have a command carried out; the session after it."""
        session_id = await self.resolve(ref)
        try:
            return (await self.actor(session_id).ask(command)).session
        except errors.NotFound as error:
            raise _named(error, ref) from None

    async def _bounded(self, actor: SessionActor, true: Callable[[], bool]) -> bool:
        """Wait until something holds of an actor, for as long as ending an agent can take at the most."""
        settings = self.context.settings
        try:
            async with asyncio.timeout(settings.cancel_grace_s + 2 * settings.close_patience_s + 10):
                await actor.until(true)
        except TimeoutError:
            return False
        return true()

    # Messages

    async def send(self, ref: str, message: NewMessage, *, create: NewSession | None = None) -> Receipt:
        """See `Service.send`."""
        self._take_new()
        if create is not None:
            self._check(create)
        fields: dict[str, Any] = {name: getattr(message, name) for name in message.__struct_fields__}
        command = c.SendMessage(message_id=self.context.ids.new("msg"), **fields)
        for attempt in range(1, self.context.settings.conflict_attempts + 1):
            awake = self._awake(ref)
            session_id = awake or await self._find_or_make(ref, create)
            try:
                accepted = await self.actor(session_id).ask(command)
            except errors.NotFound as error:  # it was deleted since it was found
                if (create or awake) and attempt < self.context.settings.conflict_attempts:
                    continue
                raise _named(error, ref) from None
            message_id = accepted.repeats or command.message_id
            _remember(self._homes, message_id, session_id)
            if accepted.session.key is not None:
                _remember(self._named, accepted.session.key, session_id)
            try:
                return self._just_accepted(accepted) or await self.receipt(message_id)
            except errors.StoreUnavailable as error:  # its acceptance stands
                ids = {**error.ids, "in_doubt": True}
                raise errors.StoreUnavailable(error.detail, retry_after_s=error.retry_after_s, **ids) from error
        raise errors.Conflict(f"Session {ref!r} was deleted and made again all the time. Try again.", retry_after_s=1)

    def _just_accepted(self, accepted: Accepted) -> Receipt | None:
        """The receipt of a new message as of the commit that accepted it; None where the store must be asked for it."""
        session, message = accepted.session, accepted.message
        if message is None:
            return None
        actor = self._actors.get(session.id)
        if actor and (now := actor.receipt(message.id)):
            return now
        waits = session.waiting(message.id)
        if waits is None and message.state == "queued":  # by the time that its commit was found another host began it
            return None
        why = waiting_for(session, message, self.context) if waits else None
        return receipt(message, reply=None, position=position_of(session, message) if waits else None, waiting_for=why)

    async def _find_or_make(self, ref: str, create: NewSession | None) -> str:
        try:
            return await self.resolve(ref)
        except errors.NotFound:
            if create is None:
                raise
        await self._check_room()
        try:
            return (await self._finish(self._create(create), "create")).id
        except errors.Exists as taken:
            return taken.ids["session_id"]

    def _awake(self, key: str) -> str | None:
        """The session with that key, where it is awake and just now at rest here: then the store need not be asked.

        Where another host has deleted it since, that is found out before anything is decided for good.
        """
        actor = self._actors.get(self._named.get(key, ""))
        session = actor.session if actor and actor.certain else None
        return session.id if session and session.key == key and session.lifecycle != "deleted" else None

    async def receipt(self, message_id: str) -> Receipt:
        """See `Service.receipt`. What waits or runs is told from memory, where nobody else can have changed it."""
        actor = None if self.context.neighbours else self._actors.get(self._homes.get(message_id, ""))
        return (actor and actor.receipt(message_id)) or await super().receipt(message_id)

    async def wait_message(self, message_id: str, seconds: float | None) -> Receipt:
        """See `Service.wait_message`."""
        if self.context.neighbours:
            return await self.wait_anywhere(message_id, seconds)
        with self.context.fanout.waiting(message_id) as ended:
            try:
                now = await self.receipt(message_id)
            except errors.NotFound:  # unless its session was deleted just now, which ended it
                if last := self.context.fanout.farewell(message_id):
                    return last
                raise
            if now.ended_at is not None:
                return now
            await asyncio.wait({ended}, timeout=seconds)
            if ended.done() and not ended.cancelled():
                return ended.result()
        return await self.receipt(message_id)

    async def _session_of(self, message_id: str) -> str:
        stored = await self.context.store.message(message_id)
        if stored is None:
            raise errors.NotFound("message", message_id)
        return stored.message.session_id

    async def edit_message(self, message_id: str, *, text: str | None, when_busy: Any) -> Receipt:
        """See `Service.edit_message`."""
        session_id = await self._session_of(message_id)
        await self.actor(session_id).ask(c.EditMessage(message_id=message_id, text=text, when_busy=when_busy))
        return await self.receipt(message_id)

    async def withdraw_message(self, message_id: str) -> Receipt:
        """See `Service.withdraw_message`. Of a withdrawn message it answers its receipt."""
        session_id = await self._session_of(message_id)
        try:
            await self.actor(session_id).ask(c.WithdrawMessage(message_id=message_id))
        except errors.NotEditable:
            if (now := await self.receipt(message_id)).state != "withdrawn":
                raise
            return now
        return await self.receipt(message_id)

    async def reorder(self, ref: str, order: tuple[str, ...]) -> Page:
        """See `Service.reorder`."""
        session = await self._ask(ref, c.ReorderQueue(order=order))
        return await self.queue(session.id)

    async def pause_queue(self, ref: str) -> SessionView:
        """See `Service.pause_queue`."""
        return self.shown(await self._ask(ref, c.PauseQueue()))

    async def continue_queue(self, ref: str) -> SessionView:
        """See `Service.continue_queue`."""
        return self.shown(await self._ask(ref, c.ContinueQueue()))

    async def cancel_queue(self, ref: str) -> Page:
        """See `Service.cancel_queue`."""
        session_id = await self.resolve(ref)
        try:
            accepted = await self.actor(session_id).ask(c.CancelQueue())
        except errors.NotFound as error:
            raise _named(error, ref) from None
        ended = [await self.receipt(message_id) for message_id in accepted.ended]
        return Page(items=tuple(ended), next_cursor=None)

    async def cancel_message(self, message_id: str) -> Cancelled:
        """See `Service.cancel_message`."""
        session_id = await self._session_of(message_id)
        actor = self.actor(session_id)
        try:
            accepted = await actor.ask(c.CancelMessage(message_id=message_id))
        except errors.NotEditable:
            now = await self.receipt(message_id)
            if now.state != "cancelled":
                raise
            return Cancelled(turn_id=now.turn_id, state=now.state, confirmed=True)
        now = await self.receipt(message_id)
        turn_id = now.turn_id
        if accepted.ended:
            return Cancelled(turn_id=turn_id, state=now.state, confirmed=turn_id is None, message_ids=accepted.ended)
        confirmed = turn_id is None or await self._bounded(actor, lambda: not actor.runs(turn_id))
        now = await self.receipt(message_id)
        return Cancelled(turn_id=turn_id, state=now.state, confirmed=confirmed)

    # Turns

    async def cancel_turn(self, turn_id: str, *, queue: bool = False) -> Cancelled:
        """See `Service.cancel_turn`."""
        turn = await self._turn(turn_id)
        actor = self.actor(turn.session_id)
        accepted = await actor.ask(c.CancelTurn(turn_id=turn_id, queue=queue))
        confirmed = await self._bounded(actor, lambda: not actor.runs(turn_id))
        now = await self.context.store.turn(turn_id)
        if now is None and not actor.owns:  # its session was deleted: of the owner's agent nothing more is heard here
            confirmed = False
        state = now.state if now else "cancelled"
        return Cancelled(turn_id=turn_id, state=state, confirmed=confirmed, message_ids=accepted.ended)

    async def wait_turn(self, turn_id: str, seconds: float | None) -> TurnView:
        """See `Service.wait_turn`."""
        turn = await self._turn(turn_id)
        if turn.ended_at is None and self.context.neighbours:
            await self.over_anywhere(turn, seconds)
        elif turn.ended_at is None:
            actor = self.actor(turn.session_id)
            actor.wake()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await actor.until(lambda: actor.certain and not actor.runs(turn_id))
        return await self.turn(turn_id)

    # Permissions

    async def answer_permission(
        self, permission_id: str, *, decision: str, option_id: str | None, note: str | None, by: str | None
    ) -> PermissionView:
        """See `Service.answer_permission`."""
        permission = await self.permission(permission_id)
        answer = c.AnswerPermission(
            permission_id=permission_id, decision=decision, option_id=option_id, note=note, by=by
        )
        await self.actor(permission.session_id).ask(answer)
        return await self.permission(permission_id)

    async def status(self) -> HostStatus:
        """See `Service.status`."""
        sessions = [actor.session for actor in self._actors.values() if actor.owns and actor.session]
        return HostStatus(
            version=__version__,
            draining=self.context.draining,
            store=self._store_name,
            epoch=self.context.store.epoch,
            agents_open=sum(not actor.agent_away for actor in self._actors.values()),
            max_agents=self.context.settings.max_agents,
            sessions_awake=len(self._actors),
            sessions_owned=sum(actor.owns for actor in self._actors.values()),
            turns_running=sum(session.running is not None for session in sessions),
            messages_queued=sum(len(session.inbox) for session in sessions),
            viewers=self.context.fanout.viewers,
            uptime_s=self.context.clock.monotonic() - self._started_at,
        )


def _remember(ids: OrderedDict[str, str], name: str, session_id: str) -> None:
    ids[name] = session_id
    if len(ids) > HINTS_MAX:
        ids.popitem(last=False)


async def _until_at_rest(actors: Iterable[SessionActor]) -> None:
    for actor in actors:
        await actor.until(lambda actor=actor: not actor.turning)


def _named(error: errors.NotFound, ref: str) -> errors.NotFound:
    """The same, by the name that the client used."""
    return errors.NotFound("session", ref) if error.code == "session_not_found" else error
