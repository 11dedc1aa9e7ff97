"""The session actor: takes commands, decides, commits, and only then performs effects and tells the waiters."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.core import events as e
from antiphon.core.collecting import may_start_at
from antiphon.core.deadlines import next_deadline
from antiphon.core.decide import Given, Refused, Repeated
from antiphon.core.events import Entry
from antiphon.core.session import Message, Problem, Session
from antiphon.core.step import Step, Taken
from antiphon.core.words import OnCrash
from antiphon.host.alarm import Alarm
from antiphon.host.at_hand import AtHand
from antiphon.host.commits import (
    Accepted,
    Made,
    Pending,
    commit_of,
    ended_by,
    fail,
    going_down,
    leaves_a_client,
    of_clients,
    unknown,
)
from antiphon.host.context import Context
from antiphon.host.desk import SessionDesk
from antiphon.host.driver import Driver
from antiphon.host.mailbox import Mailbox
from antiphon.host.ownership import Ownership, of_an_owner
from antiphon.host.tasks import Tasks
from antiphon.host.views import Receipt, receipt
from antiphon.host.waiting import position_of, waiting_for
from antiphon.ports.store import Fenced, NewText, SequenceMoved, StoreDamaged

log = logging.getLogger("antiphon.host")

CLOSE_TIMEOUT_S = 10.0
PAGE = 256
PAUSE_MAX_S = 2.0
OWNER_S = 0.05
"""So long an owner has to go on with what a guest wrote, before the guest asks whether there is one."""
BROKEN_PAUSE_S = 5.0
"""After how long a session that met a flaw of ours is looked at again."""


FLAW = "This session met an internal error; see the host's log."


class SessionActor:
    """One session of this host. Everything that changes the session goes through its mailbox, in order.

    Attributes:
        session: The session after the last commit; None before the first look, and when there is none.
        touched_at: When the last command came, in seconds of the monotonic clock.
        heard_at: When the agent last said something, likewise.
    """

    def __init__(self, session_id: str, context: Context) -> None:
        self.session_id = session_id
        self.session: Session | None = None
        self.touched_at = self.heard_at = context.clock.monotonic()
        self._context = context
        self._mailbox = Mailbox()
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._tasks = Tasks(f"actor:{session_id}")
        self._alarm = Alarm(context.clock, self._tasks, self.wake)
        self._ownership = Ownership(session_id, context)
        self._desk = SessionDesk(self)
        self._driver = Driver(session_id, self._desk, context)
        self._at_hand = AtHand(context, self._tasks)
        self._loaded = False
        self._moved_to = 0
        self._lost = False
        self._losses = 0
        self._dismissed: list[asyncio.Task[None]] = []
        self._failures = 0
        self._taken_up: list[Pending] = []
        self._under_way: list[Pending] = []
        self._committed = False
        self._busy = False
        self._looked_at = 0
        self._closed = False
        self._wants_agent = False
        self._again: asyncio.Task[None] | None = None
        self._ownerless: int | None = None
        """What this host wrote as a guest, as long as nobody is known to have gone on with it."""
        self._finding: asyncio.Task[None] | None = None
        self._running = self._tasks.start(self._run(), "run")

    # From outside

    async def ask(self, command: c.Command) -> Accepted:
        """Have a client's command carried out; returns once it is durable. Cancelling it ends the waiting only.

        Raises:
            AntiphonError: It was refused, or the store could not take it; nothing of it was done.
        """
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._put(Pending(command, answer))
        return await answer

    async def room(self) -> None:
        """Wait while too much of what the agent said lies undecided."""
        await self._mailbox.room()

    def tell(self, command: c.Command) -> None:
        """Take what became of the agent, or what the host knows: of that there is never much."""
        self._put(Pending(command))

    def speak(self, turn_id: str, text: str) -> bool:
        """Take a piece of text that the agent said; whether there is room for more."""
        return self._closed or self._mailbox.speak(turn_id, text)

    def wake(self) -> None:
        """Look again whether a turn can start, whatever has changed."""
        self._mailbox.arrived.set()

    def written(self, message_id: str) -> NewText | None:
        """What a person wrote, where it is at hand: of messages that came here since and have not ended."""
        return self._at_hand.written(message_id)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds; it is asked after every step and every change of the agent's.

        Returns when the actor closes, too: then it may not hold.
        """
        if true() or self._closed:
            return
        watcher = (true, asyncio.get_running_loop().create_future())
        self._watchers.append(watcher)
        try:
            await watcher[1]
        finally:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    async def settled(self) -> bool:
        """Wait until what an earlier host left here is settled (True), or turns out not to be readable."""
        self.wake()
        await self.until(lambda: self._ownership.settled or self._lost or self.guest)
        return not self._lost

    def moved(self, sequence: int) -> None:
        """Others wrote to the session, up to that sequence or further: look at it anew."""
        if self._ownerless is not None and self._ownerless < sequence:
            self._ownerless = None
        self._moved_to = max(self._moved_to, sequence)
        if self.owns and (self.session is None or self.session.sequence < sequence):
            self._loaded = False
            self.wake()
        elif self._watchers:
            self.wake()

    def take_up(self) -> None:
        """Nobody owns the session: claim it."""
        if not self.owns:
            self._ownership.want()
            self.wake()

    @property
    def owns(self) -> bool:
        """Whether this host owns the session."""
        return self._ownership.held

    @property
    def turning(self) -> bool:
        """Whether a turn runs here, or may be about to: a step is being taken that may begin one."""
        running = self.session is not None and self.session.running is not None
        return self._busy or (self.owns and running)

    @property
    def guest(self) -> bool:
        """Whether the session was looked at, and is another host's, or nobody's that this host may have."""
        return self._loaded and not self.owns

    @property
    def idle(self) -> bool:
        """Whether an agent is open that nobody needs just now."""
        return not self._driver.away and self.at_rest and not self._wants_agent

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs, could run now or lies undecided. In a session that can't be read nothing can run."""
        if self._mailbox or self._busy or not (self._loaded or self._lost):
            return False
        session = None if self._lost or not self.owns else self.session
        return session is None or not (session.running or self._may_start(session))

    def _may_start(self, session: Session) -> bool:
        """Whether something waits whose time has come. What is collected, or waits in a paused queue, has time yet."""
        return session.may_run and self._may_start_now(session, self._context.clock.now())

    def _may_start_now(self, session: Session, now: int) -> bool:
        return may_start_at(session, self._context.settings.rules, now) == now

    @property
    def crowded(self) -> bool:
        """Whether so much lies undecided that more is better told later."""
        return self._mailbox.crowded

    @property
    def agent_away(self) -> bool:
        """Whether no agent of this session runs, as far as its journal tells where it is another host's."""
        if self.owns or self.session is None or self.session.lifecycle == "deleted":
            return self._driver.away
        return self._driver.away and self.session.agent_run is None

    @property
    def certain(self) -> bool:
        """Whether its session is the stored one: no commit is under way, or of unknown outcome."""
        return self._loaded and not self._busy

    def runs(self, turn_id: str) -> bool:
        """Whether that turn runs: in the session, or still in an agent that must first be ended."""
        running = self.session.running if self.session else None
        return (running is not None and running.turn.id == turn_id) or self._driver.works_on(turn_id)

    @property
    def hindrance(self) -> str | None:
        """What keeps a waiting message's turn from starting, where that is nothing that the session shows."""
        if self._failures:
            return "the store to take it: the last attempt did not succeed"
        return self._driver.hindrance(self.session) if self.session else None

    @property
    def asleep(self) -> bool:
        """Whether this actor could be forgotten: it holds nothing that the store does not."""
        busy = self._watchers or self._wants_agent or self._alarm.at or self._mailbox.arrived.is_set()
        return self.at_rest and self._driver.away and not busy

    @property
    def agent_pid(self) -> int | None:
        """The agent's process, where it has one just now."""
        return self._driver.pid

    def give_up(self, turn_id: str, problem: Problem) -> None:
        """Fail a turn that runs and end its agent."""
        self._driver.give_up(turn_id, problem)

    def let_go(self) -> None:
        """Let the idle agent go."""
        self._driver.let_go()

    def wake_agent(self) -> None:
        """Open the agent before there is something to say to it, as soon as there is a place."""
        self._wants_agent = True
        self.wake()

    def receipt(self, message_id: str) -> Receipt | None:
        """The receipt of a message that waits or runs; None for any other."""
        session = self.session
        if session is None or not self.owns:
            return None
        if message := session.waiting(message_id):
            held_up_by = waiting_for(session, message, self._context, hindrance=self.hindrance)
            return receipt(message, reply=None, position=position_of(session, message), waiting_for=held_up_by)
        messages = session.running.messages if session.running else ()
        running = next((message for message in messages if message.id == message_id), None)
        said = self._at_hand.text_of(running.turn_id) if running else None
        if running is None or said is None:
            return None
        return receipt(running, reply=said or None, position=None, waiting_for=None)

    def sees_waiting(self, message_id: str) -> bool:
        """Whether a message waits in a session of which nothing was heard since it was looked at."""
        session = self.session
        return session is not None and session.sequence >= self._moved_to and session.waiting(message_id) is not None

    async def close(self) -> None:
        """End the agent, then the actor. What lies in the mailbox is decided first, if the store is there for it."""
        self._ownership.retire()
        await self._driver.close()
        if self._dismissed:
            await asyncio.wait(self._dismissed)
        self.wake()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.until(lambda: not self._mailbox and not self._busy)
        except TimeoutError:
            log.warning("a mailbox did not empty", extra={"action": "close", "session_id": self.session_id})
        self._closed = True
        await self._tasks.close()
        self._context.places.give_back(self)
        unknown = errors.StoreUnavailable("The host went down before this was known to be done.", in_doubt=True)
        for pending in self._taken_up:
            fail(pending, unknown)
        for pending in self._mailbox:
            fail(pending, going_down())
        self._mailbox.clear()
        for _, watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        await self._ownership.release()

    # The loop

    def _put(self, pending: Pending) -> None:
        if self._closed:
            fail(pending, going_down())
            return
        self._mailbox.put(pending)

    async def _run(self) -> None:
        while True:
            await self._mailbox.arrived.wait()
            self._mailbox.arrived.clear()
            batch = self._mailbox.take()
            if batch:
                self.touched_at = self._context.clock.monotonic()
            if any(pending.answer is None for pending in batch):
                self.heard_at = self.touched_at
            if self._mailbox:
                self.wake()
            self._busy, self._taken_up = True, batch
            try:
                await self._carry_out(batch)
            except Exception as error:  # noqa: BLE001 - it is logged where it is known what to do about it
                await self._take_apart(self._under_way, error)
            self._busy, self._taken_up = False, []
            self._settle()
            if await self._left_to_others():
                self._settle()

    async def _take_apart(self, batch: list[Pending], error: Exception) -> None:
        """A batch met a flaw: its commands are tried one by one, so that only the one at fault fails.

        What is left of it, that is: none of what was committed, or was told that it failed, is tried again.
        """
        if len(batch) < 2 or self._committed or isinstance(error, StoreDamaged):
            self._broken(batch, error)
            return
        for pending in batch:
            self._loaded = False
            try:
                await self._carry_out([pending])
            except Exception as own:  # noqa: BLE001 - likewise
                self._broken([pending], own)

    def _broken(self, batch: Iterable[Pending], error: Exception) -> None:
        """A flaw of ours, or a row that can't be read: it stays in this session, and the next command starts clean."""
        known = isinstance(error, errors.AntiphonError)
        log.error(
            "a step failed",
            exc_info=None if known else error,
            extra={"action": "step_failed", "session_id": self.session_id},
        )
        self._loaded = False
        self._lost = isinstance(error, StoreDamaged)
        self._wants_agent = self._wants_agent and not self._lost  # it would stand in line for what it can't use
        failure = error if known else errors.StoreUnavailable(FLAW, in_doubt=self._committed or None)
        for pending in batch:
            fail(pending, failure)
        if not self._lost:
            self._look_again(BROKEN_PAUSE_S)

    def _look_again(self, seconds: float) -> None:
        """Wake up after a while: something was left undone that no command may ever ask for again."""
        if self._again is None or self._again.done():
            self._again = self._tasks.start(self._wake_after(seconds), "again")

    async def _wake_after(self, seconds: float) -> None:
        await self._context.clock.sleep(seconds)
        self.wake()

    def _settle(self) -> None:
        """After a step: give back a place that is not needed, and tell those who wait for a change."""
        session = None if self._lost or not self.owns else self.session
        self._alarm.set(self._due(session) if session and self._loaded else None)  # else it looks again by itself
        if self._driver.away and not (session and session.running):
            if not (self._wants_agent or (session and self._may_start(session))):
                self._context.places.give_back(self)
            elif self._context.places.waits(self):
                self._context.places.vacate(self)
        if self.idle:
            self._context.places.make_room()
        watchers, self._watchers = self._watchers, []
        for true, future in watchers:
            if future.done():
                continue
            if true():
                future.set_result(None)
            else:
                self._watchers.append((true, future))

    def _due(self, session: Session) -> int | None:
        """When to look again although nobody says anything: a deadline passes, or a burst has ended.

        What fell due since the last step was decided counts as yet to come: that step did not see it.
        """
        deadline, seen = next_deadline(session), self._looked_at
        start = None if session.running else may_start_at(session, self._context.settings.rules, seen)
        return start if start is not None and seen < start and (deadline is None or start < deadline) else deadline

    async def _carry_out(self, batch: list[Pending]) -> None:
        """Decide and commit a batch, however often others come first; then let the world know."""
        doubtful: Made | None = None
        conflicts, losses = 0, self._losses
        while True:
            made: Made | None = None
            self._under_way, self._committed = batch, False
            try:
                made = await self._make(batch, doubtful, losses)
                doubtful = doubtful if made is doubtful else None
                batch = made.batch
                if made.step.entries and not doubtful:
                    await self._context.store.commit(commit_of(made))
            except (SequenceMoved, Fenced) as moved:
                conflicts += 1
                if isinstance(moved, Fenced):
                    self._lose()
                self._context.fanout.moved(self.session_id)
                if conflicts >= self._context.settings.conflict_attempts:
                    batch, conflicts = self._give_up(batch, self._conflict(conflicts)), 0
            except StoreDamaged as error:
                raise StoreDamaged(error.detail, **{**error.ids, "in_doubt": bool(doubtful) or None}) from error
            except errors.StoreUnavailable as error:
                if made and error.ids.get("in_doubt"):
                    doubtful = made
                if not doubtful or self._failures + 1 >= self._context.settings.conflict_attempts:
                    batch = self._give_up(batch, unknown(error) if doubtful else error)
            else:
                self._done(made)
                return
            self._loaded = False
            self._failures += 1
            if not batch and not doubtful:
                self._look_again(self._pause_s())
                return
            await self._context.clock.sleep(self._pause_s())

    async def _make(self, batch: list[Pending], doubtful: Made | None, losses: int) -> Made:
        """Decide on the session as it is now; what is `doubtful` and turns out to have been written is left at that.

        Args:
            batch: What to decide.
            doubtful: The last attempt, where its outcome is unknown.
            losses: How often the session had been lost when the batch was begun: what an agent said before is void.
        """
        fresh = await self._load(doubtful)
        if doubtful and await self._was_written(doubtful.step):
            return doubtful
        valid = batch if self.owns and self._losses == losses else of_clients(batch)
        made = await self._decide(valid)
        if fresh or not self._context.neighbours or not leaves_a_client(made):
            return made
        self._loaded = False  # others write here too: what was missing may be there, what was in the way may be over
        return await self._make(valid, None, losses)

    async def _was_written(self, step: Step) -> bool:
        """After a commit of unknown outcome, with the session loaded anew: whether it is there after all.

        Of a session that it deleted nothing is left to compare.
        """
        if self.session is None:
            return step.session is not None and step.session.lifecycle == "deleted"
        expected = step.before.sequence if step.before else 0
        found = await self._context.store.entries(self.session_id, after=expected, limit=len(step.entries))
        return list(found) == step.entries

    def _give_up(self, batch: list[Pending], error: errors.AntiphonError) -> list[Pending]:
        """Tell the clients in the batch, and those behind it, that it did not work; keep what must not be lost."""
        log.warning(
            "a commit did not succeed",
            extra={"action": "commit_failed", "session_id": self.session_id, "code": error.code},
        )
        for pending in (*batch, *self._mailbox):
            fail(pending, error)
        self._mailbox.keep_agents()
        return [pending for pending in batch if pending.answer is None]

    def _conflict(self, attempts: int) -> errors.Conflict:
        name = repr(self.session.key) if self.session and self.session.key else self.session_id
        detail = f"Other writers came first {attempts} times in session {name}; nothing was changed. Try again."
        return errors.Conflict(detail, session_id=self.session_id, attempts=attempts, retry_after_s=1)

    def _pause_s(self) -> float:
        """A growing, jittered pause, in seconds. No lock is held meanwhile."""
        return min(PAUSE_MAX_S, 0.005 * 2 ** min(self._failures, 9)) * (0.5 + self._context.random.random())

    async def _load(self, doubtful: Made | None = None) -> bool:
        """Look at the session in the store, where that is needed; whether it was. A guest always looks: others write.

        What others wrote since the last look is taken in: an owner does what it calls for.
        """
        if self._loaded and self.owns:
            return False
        held = self.owns
        await self._ownership.seek()
        session, news = await self._look(self.session if held and self._context.neighbours else None)
        self.session, self._lost = session, False
        self._loaded = session is None or session.sequence >= self._moved_to  # it may have moved while it was read
        self._at_hand.read_up(news)
        if held and self._context.neighbours:
            await self._take_in(news, doubtful.step.entries if doubtful else [])
        return True

    async def _look(self, before: Session | None) -> tuple[Session | None, list[Entry]]:
        """The session as it is now, and what was written since it was as `before`."""
        store = self._context.store
        if before is None:
            return await store.load(self.session_id), []
        first = store.entries(self.session_id, after=before.sequence, limit=PAGE)
        after, page = await asyncio.gather(store.load(self.session_id), first)
        found = [entry for entry in page if after and entry.sequence <= after.sequence]
        while after and (last := found[-1].sequence if found else before.sequence) < after.sequence:
            page = await store.entries(self.session_id, after=last, limit=PAGE)  # also where it was read too early
            if not page:
                break
            found += [entry for entry in page if entry.sequence <= after.sequence]
        return after, found

    async def _take_in(self, found: list[Entry], own: list[Entry]) -> None:
        """Others may have written: an owner learns from it what to do, or that it is none any more.

        Args:
            found: What was written since the last look.
            own: What this host may have written of that, at its beginning.
        """
        if own and found[: len(own)] == own:
            found = found[len(own) :]
        if of_an_owner(found):
            self._lose()
            await self._ownership.seek()
        elif self._ownership.settled and (found or self.session is None):
            answers = [e.event(entry) for entry in found if entry.type == e.PermissionAnswered.TYPE]
            self._driver.look(self.session, answers)

    def _lose(self) -> None:
        """Another host has, or had, the session: the agent that runs here is not its agent any more, and is ended."""
        if not self._driver.away:
            log.warning("a session was lost", extra={"action": "session_lost", "session_id": self.session_id})
        self._losses += 1
        self._ownership.lose()
        self._at_hand.lose()
        self._desk.cut = True
        self._dismissed = [task for task in self._dismissed if not task.done()]
        self._dismissed.append(self._tasks.start(self._driver.close(patience_s=0), "dismiss"))
        self._desk = SessionDesk(self)
        self._driver = Driver(self.session_id, self._desk, self._context)
        self._mailbox.keep_clients()

    async def _left_to_others(self) -> bool:
        """Give the session up where another host should have it, once nothing of it runs here; whether it was."""
        session = self.session
        if session is None or self._lost or session.running or self._mailbox:
            return False
        if not self._ownership.should_leave(session, waits=self._context.places.waits(self)):
            return False
        if not self._driver.away:
            self._driver.let_go()
            return False
        await self._ownership.release()
        self._at_hand.give_up()
        self._loaded = False
        self._context.places.give_back(self)
        return True

    async def _decide(self, batch: list[Pending]) -> Made:
        given = self._given()
        step, taken = Step(self.session, given, session_id=self.session_id), list[Taken]()
        if self.owns:
            self._look_back(step, given)
        for pending in batch:
            command = pending.command
            if type(command) is c.AgentSpoke or type(command) is c.AgentSaid:  # most of all; none lets a turn start
                taken.append(step.take(command))
                continue
            if isinstance(command, c.SendMessage) and command.idempotency_key:
                command = await self._with_prior(command, command.idempotency_key)
            taken.append(step.take(command))
            self._start_turn(step)
        self._start_turn(step)
        self._steer(step)
        step.seal()
        return Made(batch, step, taken, self._ownership.fence)

    def _look_back(self, step: Step, given: Given) -> None:
        """Before anything else: settle what an earlier owner left, and end what is late."""
        if step.session and not self._ownership.settled:
            step.take(self._host_died(step.session))
        if step.session and (deadline := next_deadline(step.session)) is not None and deadline <= given.now:
            step.take(c.TimePassed())

    def _given(self) -> Given:
        """What this step's decisions are made under."""
        agent = self._context.agents.get(self.session.agent) if self.session else None
        return Given(
            now=self._context.clock.now(),
            rules=self._context.settings.rules,
            can_roll_back=agent is None or agent.capabilities.rollback,
            can_steer=agent is None or agent.capabilities.steer,
        )

    def _host_died(self, session: Session) -> c.HostDied:
        """What this actor takes first of all, before it has begun anything: nothing that runs is its own."""
        return c.HostDied(on_crash=self._on_crash(session), can_resume=self._can_resume(session))

    def shut_down(self) -> None:
        """Cut the running turn short: the host goes down."""
        if session := self.session:
            self.tell(c.ShutDown(on_crash=self._on_crash(session), can_resume=self._can_resume(session)))

    def _on_crash(self, session: Session) -> OnCrash:
        return session.settings.get("on_crash", self._context.settings.on_crash)

    def _can_resume(self, session: Session) -> bool:
        agent = self._context.agents.get(session.agent)
        return bool(agent and agent.capabilities.resume and session.resume_token)

    async def _with_prior(self, command: c.SendMessage, key: str) -> c.SendMessage:
        """The command with what its idempotency key was spent on before this step; within it the step sees to that."""
        found = await self._context.store.keyed(self.session_id, key)
        return replace(command, prior=(found.message_id, found.digest) if found else None)

    def _start_turn(self, step: Step) -> None:
        session, context = step.session, self._context
        if session is None or session.running or not self.owns or not self._may_start_now(session, step.now):
            return
        if self._ownership.should_leave(session):
            return
        if context.draining or not self._driver.ready(session) or not context.places.take(self):
            return
        step.take(c.StartTurn(turn_id=context.ids.new("turn")))

    def _steer(self, step: Step) -> None:
        session = step.session
        if session is None or session.running is None or not self._driver.can_steer(session):
            return
        for message in session.inbox:
            if message.when_busy == "steer" and not message.steering:
                step.take(c.SteerTurn(turn_id=session.running.turn.id, message_id=message.id))

    # After a commit

    def _done(self, made: Made) -> None:
        """All is durable: remember it, begin the effects, answer, publish."""
        step = made.step
        self._committed, self._failures = True, 0
        if self.owns and made.fence == self._ownership.fence:
            self._ownership.settled = True
        self._looked_at = step.now
        if self.session is None or step.session is None or step.session.sequence > self.session.sequence:
            self.session = step.session
        if step.entries:
            self._at_hand.remember(step, owned=self.owns)
            self._context.fanout.publish(self.session_id, tuple(step.entries))
        for pending, outcome in zip(made.batch, made.taken, strict=True):
            if pending.answer is not None:
                self._tell(pending.answer, pending.command, outcome, step)
            elif not outcome and isinstance(pending.command, c.AgentAsked):
                self._driver.turn_down(pending.command.permission_id)
        if self.owns and not self._ownership.settled:
            self.wake()  # it was claimed anew meanwhile: what is left of before comes first
        elif self.owns:
            self._driver.look(self.session, step.notable)
            if self._wants_agent and self.session is not None:
                self._open_agent(self.session)
        else:
            self._wants_agent = False
            self._find_an_owner(step)

    def _find_an_owner(self, step: Step) -> None:
        """What a guest wrote may wait for an owner, and there may be none. One that is there is heard of soon."""
        if step.entries and self.session and self.session.unsettled and not self.session.running:
            self._ownerless = self.session.sequence
            if self._finding is None or self._finding.done():
                self._finding = self._tasks.start(self._claim_what_nobody_has(), "find_owner")

    async def _claim_what_nobody_has(self) -> None:
        waited_for: int | None = None
        while waited_for != self._ownerless:
            waited_for = self._ownerless
            await self._context.clock.sleep(OWNER_S)
        if waited_for is not None:
            self.take_up()

    def _tell(self, answer: "asyncio.Future[Accepted]", command: c.Command, outcome: Taken, step: Step) -> None:
        if answer.done():
            return
        if isinstance(outcome, Refused):
            answer.set_exception(outcome.error)
        elif self.session is None:
            answer.set_exception(errors.NotFound("session", self.session_id))
        else:
            repeats = outcome.message_id if isinstance(outcome, Repeated) else None
            made = step.records.get(getattr(command, "message_id", "")) if repeats is None else None
            message = made if isinstance(made, Message) else None
            ended = () if isinstance(outcome, Repeated) else ended_by(outcome)
            answer.set_result(Accepted(self.session, message, repeats, ended))

    def _open_agent(self, session: Session) -> None:
        if session.lifecycle != "active" or not self._driver.away:
            self._wants_agent = False
        elif self._context.places.take(self):
            self._wants_agent = False
            self._driver.wake_agent(session)
