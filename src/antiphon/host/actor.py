"""The session actor: takes commands, decides, commits, and only then performs effects and tells the waiters."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.core import events as e
from antiphon.core.decide import Given, Refused, Repeated
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.step import Step, Taken
from antiphon.host.context import Context
from antiphon.host.driver import Driver
from antiphon.host.tasks import Tasks
from antiphon.host.views import Receipt, receipt
from antiphon.host.waiting import position_of, waiting_for
from antiphon.ports.store import Commit, Fenced, NewText, SequenceMoved

log = logging.getLogger("antiphon.host")

BATCH_MAX = 256
CLOSE_TIMEOUT_S = 10.0
UNREAD_MAX = 512
"""How much of what an agent said may lie undecided before its reader waits."""


class Pending(msgspec.Struct, frozen=True):
    """A command in the mailbox. One without an `answer` comes from the agent or the host and must not be lost."""

    command: c.Command
    answer: "asyncio.Future[Accepted] | None" = None


class Accepted(msgspec.Struct, frozen=True):
    """A command was carried out and is durable: the session after it, and the message it repeats, if it does."""

    session: Session
    repeats: str | None = None


class SessionActor:
    """One session of this host. Everything that changes the session goes through its mailbox, in order."""

    def __init__(self, session_id: str, context: Context) -> None:
        self.session_id = session_id
        self.session: Session | None = None
        self.touched_at = context.clock.monotonic()
        self._context = context
        self._mailbox: deque[Pending] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._tasks = Tasks(f"actor:{session_id}")
        self._driver = Driver(session_id, self, context)
        self._texts: dict[str, list[str]] = {}
        self._fence: int | None = None
        self._loaded = False
        self._busy = False
        self._closed = False
        self._wants_agent = False
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

    async def report(self, command: c.Command) -> None:
        """Take what the agent said or the host knows; waits while too much lies undecided."""
        await self._room.wait()
        self._put(Pending(command))

    def wake(self) -> None:
        """Look again whether a turn can start, whatever has changed."""
        self._arrived.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds; it is asked after every step and every change of the agent's."""
        if not true():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((true, future))
            await future

    @property
    def idle(self) -> bool:
        """Whether an agent is open that nobody needs just now."""
        return not self._driver.away and self.at_rest and not self._wants_agent

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs, waits to run or lies undecided."""
        session = self.session
        waits = bool(session and session.inbox and session.lifecycle == "active")
        return not self._mailbox and not self._busy and self._loaded and not waits and not (session and session.running)

    @property
    def agent_away(self) -> bool:
        """Whether no agent of this session runs."""
        return self._driver.away

    @property
    def asleep(self) -> bool:
        """Whether this actor could be forgotten: it holds nothing that the store does not."""
        return self.at_rest and self._driver.away and not self._watchers

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
        if session is None:
            return None
        if message := session.waiting(message_id):
            held_up_by = waiting_for(session, message, self._context, agent_closing=not self._driver.ready(session))
            return receipt(message, reply=None, position=position_of(session, message), waiting_for=held_up_by)
        messages = session.running.messages if session.running else ()
        running = next((message for message in messages if message.id == message_id), None)
        pieces = self._texts.get(running.turn_id or "") if running else None
        if running is None or pieces is None:
            return None
        return receipt(running, reply="".join(pieces) or None, position=None, waiting_for=None)

    async def close(self) -> None:
        """End the agent, then the actor. What lies in the mailbox is decided first."""
        await self._driver.close()
        self.wake()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.until(lambda: not self._mailbox)
        except TimeoutError:
            log.warning("a mailbox did not empty", extra={"action": "close", "session_id": self.session_id})
        self._closed = True
        await self._tasks.close()
        self._context.places.give_back(self)
        for pending in self._mailbox:
            _fail(pending, _going_down())
        if self._fence is not None:
            await self._context.store.release(self.session_id, self._fence)

    # The loop

    def _put(self, pending: Pending) -> None:
        if self._closed:
            _fail(pending, _going_down())
            return
        self.touched_at = self._context.clock.monotonic()
        self._mailbox.append(pending)
        if len(self._mailbox) >= UNREAD_MAX:
            self._room.clear()
        self._arrived.set()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch = [self._mailbox.popleft() for _ in range(min(BATCH_MAX, len(self._mailbox)))]
            if len(self._mailbox) < UNREAD_MAX:
                self._room.set()
            if self._mailbox:
                self._arrived.set()
            self._busy = True
            try:
                await self._carry_out(batch)
            except Exception as error:
                await self._take_apart(batch, error)
            self._busy = False
            self._settle()

    async def _take_apart(self, batch: list[Pending], error: Exception) -> None:
        """A batch met a flaw: its commands are tried one by one, so that only the one at fault fails."""
        if len(batch) < 2:
            self._broken(batch, error)
            return
        for pending in batch:
            self._loaded = False
            try:
                await self._carry_out([pending])
            except Exception as own:
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
        failure = error if known else errors.StoreUnavailable("This session met an internal error; see the host's log.")
        for pending in batch:
            _fail(pending, failure)

    def _settle(self) -> None:
        """After a step: give back a place that is not needed, and tell those who wait for a change."""
        session = self.session
        waits = bool(session and session.inbox and session.lifecycle == "active") or self._wants_agent
        if self._driver.away and not waits and not (session and session.running):
            self._context.places.give_back(self)
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

    async def _carry_out(self, batch: list[Pending]) -> None:
        """Decide and commit a batch, however often others come first; then let the world know."""
        failures = 0
        doubtful: tuple[Step, list[Taken]] | None = None
        while True:
            try:
                await self._load()
                if doubtful and await self._was_written(doubtful[0]):
                    self._done(batch, *doubtful)
                    return
                doubtful = None
                step, taken = await self._decide(batch)
                if step.entries:
                    doubtful = (step, taken)
                    await self._context.store.commit(self._commit(step))
            except SequenceMoved:
                failures += 1
                doubtful, self._loaded = None, False
                if failures >= self._context.settings.conflict_attempts:
                    batch = self._give_up(batch, self._conflict(failures))
            except errors.StoreUnavailable as error:
                failures += 1
                self._loaded = False
                in_doubt = doubtful is not None and bool(error.ids.get("in_doubt"))
                doubtful = doubtful if in_doubt else None
                if not in_doubt or failures >= self._context.settings.conflict_attempts:
                    batch, doubtful = self._give_up(batch, error), None
            except Fenced:
                failures += 1
                doubtful, self._loaded, self._fence = None, False, None
            else:
                self._done(batch, step, taken)
                return
            if not batch:
                return
            await self._context.clock.sleep(self._pause_s(failures))

    async def _was_written(self, step: Step) -> bool:
        """After a commit of unknown outcome, with the session loaded anew: whether it is there after all."""
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
            _fail(pending, error)
        self._mailbox = deque(pending for pending in self._mailbox if pending.answer is None)
        return [pending for pending in batch if pending.answer is None]

    def _conflict(self, attempts: int) -> errors.Conflict:
        name = repr(self.session.key) if self.session and self.session.key else self.session_id
        detail = f"Other writers came first {attempts} times in session {name}; nothing was changed. Try again."
        return errors.Conflict(detail, session_id=self.session_id, attempts=attempts, retry_after_s=1)

    def _pause_s(self, failures: int) -> float:
        """A growing, jittered pause, in seconds. No lock is held meanwhile."""
        return min(2.0, 0.005 * 2 ** min(failures, 9)) * (0.5 + self._context.random.random())

    async def _load(self) -> None:
        if self._loaded:
            return
        if self._fence is None:
            self._fence = await self._context.store.claim(self.session_id, self._context.host_id)
        self.session = await self._context.store.load(self.session_id)
        self._loaded = True

    async def _decide(self, batch: list[Pending]) -> tuple[Step, list[Taken]]:
        given = Given(now=self._context.clock.now(), rules=self._context.settings.rules)
        step, taken = Step(self.session, given, session_id=self.session_id), list[Taken]()
        keys: dict[str, tuple[str, str | None]] = {}
        for pending in batch:
            command = pending.command
            if isinstance(command, c.SendMessage) and command.idempotency_key:
                command = await self._with_prior(command, keys)
            taken.append(step.take(command))
            self._start_turn(step)
        self._start_turn(step)
        self._steer(step)
        step.seal()
        return step, taken

    async def _with_prior(self, command: c.SendMessage, keys: dict[str, tuple[str, str | None]]) -> c.SendMessage:
        """The command with what its idempotency key was spent on: in this batch, or before it."""
        key = command.idempotency_key or ""
        prior = keys.get(key)
        if prior is None and (found := await self._context.store.keyed(self.session_id, key)):
            prior = (found.message_id, found.digest)
        keys[key] = prior or (command.message_id, command.digest)
        return replace(command, prior=prior)

    def _start_turn(self, step: Step) -> None:
        session, context = step.session, self._context
        if session is None or session.lifecycle != "active" or session.running or not session.inbox:
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

    def _commit(self, step: Step) -> Commit:
        assert step.session is not None, "a step with entries has a session"
        records = tuple(step.records.values())
        return Commit(
            session=step.session,
            expected=step.before.sequence if step.before else 0,
            entries=tuple(step.entries),
            messages=tuple(record for record in records if isinstance(record, Message)),
            turns=tuple(record for record in records if isinstance(record, Turn)),
            permissions=tuple(record for record in records if isinstance(record, Permission)),
            texts=new_texts(step.events),
            fence=self._fence,
        )

    # After a commit

    def _done(self, batch: list[Pending], step: Step, taken: list[Taken]) -> None:
        """All is durable: remember it, begin the effects, answer, publish."""
        self.session = step.session
        if step.entries and step.session is not None:
            self._remember(step)
            self._context.fanout.publish(self.session_id, tuple(step.entries))
            self._driver.look(step.session, step.events)
        for pending, outcome in zip(batch, taken, strict=True):
            self._tell(pending, outcome)
        if self._wants_agent and step.session is not None:
            self._open_agent(step.session)

    def _tell(self, pending: Pending, outcome: Taken) -> None:
        if pending.answer is None or pending.answer.done():
            return
        if isinstance(outcome, Refused):
            pending.answer.set_exception(outcome.error)
        elif self.session is None:
            pending.answer.set_exception(errors.NotFound("session", self.session_id))
        else:
            repeats = outcome.message_id if isinstance(outcome, Repeated) else None
            pending.answer.set_result(Accepted(self.session, repeats))

    def _remember(self, step: Step) -> None:
        """Keep the running turn's text at hand, and hand the receipts of ended messages to those who wait."""
        for event in step.events:
            if isinstance(event, e.TurnStarted):
                self._texts[event.turn_id] = []
            elif isinstance(event, e.TurnText) and event.turn_id in self._texts:
                self._texts[event.turn_id].append(event.text)
        for record in step.records.values():
            if isinstance(record, Message) and record.ended_at is not None and self._context.fanout.awaited(record.id):
                self._hand_over(record, step)
        running = step.session.running if step.session else None
        self._texts = {id: pieces for id, pieces in self._texts.items() if running and id == running.turn.id}

    def _hand_over(self, message: Message, step: Step) -> None:
        pieces = self._texts.get(message.turn_id or "")
        turn = step.records.get(message.turn_id or "")
        if pieces is None and isinstance(turn, Turn):
            self._tasks.start(self._read_and_hand_over(message, turn), "hand_over")
        else:
            reply = "".join(pieces or ()) or None
            self._context.fanout.ended(receipt(message, reply=reply, position=None, waiting_for=None))

    async def _read_and_hand_over(self, message: Message, turn: Turn) -> None:
        reply = await self._context.store.reply(turn)
        self._context.fanout.ended(receipt(message, reply=reply, position=None, waiting_for=None))

    def _open_agent(self, session: Session) -> None:
        if session.lifecycle != "active" or not self._driver.away:
            self._wants_agent = False
        elif self._context.places.take(self):
            self._wants_agent = False
            self._driver.wake_agent(session)


def new_texts(events: Iterable[e.Event]) -> tuple[NewText, ...]:
    """What persons wrote in these events; of a message that was accepted and edited at once, one text."""
    texts: dict[str, NewText] = {}
    for event in events:
        if isinstance(event, e.MessageAccepted):
            texts[event.message_id] = NewText(
                message_id=event.message_id,
                text=event.text,
                files=event.files,
                idempotency_key=event.idempotency_key,
                digest=event.digest,
            )
        elif isinstance(event, e.MessageEdited) and event.text is not None:
            before = texts.get(event.message_id) or NewText(message_id=event.message_id, text="")
            texts[event.message_id] = replace(before, text=event.text)
    return tuple(texts.values())


def _going_down() -> errors.Draining:
    return errors.Draining("The host is shutting down. Try again once it has started anew.", retry_after_s=5)


def _fail(pending: Pending, error: BaseException) -> None:
    if pending.answer is not None and not pending.answer.done():
        pending.answer.set_exception(error)
