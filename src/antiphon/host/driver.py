"""The driver of a session's agent: performs what the committed state calls for, and reports what comes of it.

It is told of every commit and compares what is wanted with what it has done, so the same call may come twice and
nothing is lost when one was missed. What the agent says goes through the same door as any command, marked with the turn
and the run it belongs to. For every turn that it was given it reports exactly one end. An adapter is other people's
code: whatever it raises ends its agent, and nothing else.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Message, Problem, Running, Session
from antiphon.host.attachments import file_part
from antiphon.host.context import Context
from antiphon.host.policy import output_limit, own_environment, policy_of
from antiphon.host.saying import PIECE_MAX, event_of, listening, pieces
from antiphon.host.shortening import shortened
from antiphon.host.tasks import Tasks
from antiphon.ports import agent as port
from antiphon.ports.store import NewText, StoreDamaged, StoredMessage

log = logging.getLogger("antiphon.host")

CLOSE_SLACK_S = 5.0
"""How much longer than it was given an adapter may take to end an agent."""
TAKE_TIMEOUT_S = 30.0
"""How long an agent may take to accept a steer or an answer; it has `open_timeout_s` to accept a prompt."""
LOST = "an agent could not be ended: something of it may still run"


class Desk(Protocol):
    """Where the driver reports to: the session's actor."""

    async def report(self, command: c.Command) -> None:
        """Take what the agent said; waits while too much lies unread."""
        ...

    def speak(self, turn_id: str, text: str) -> bool:
        """Take a piece of text that the agent said; False when no more should be told before there is `room`."""
        ...

    async def room(self) -> None:
        """Wait while too much lies unread."""
        ...

    def tell(self, command: c.Command) -> None:
        """Take what became of the agent, of which there is never much: it does not wait."""
        ...

    @property
    def session(self) -> Session | None:
        """The session after the last commit."""
        ...

    def written(self, message_id: str) -> NewText | None:
        """What a person wrote, where it is at hand."""
        ...

    def wake(self) -> None:
        """Look again: something that a turn's start depends on has changed."""
        ...


class _Open(msgspec.Struct, kw_only=True, eq=False):
    """An agent that is open, and what it was last prompted with."""

    run_id: str
    generation: int
    agent: port.RunningAgent
    turn_id: str | None = None
    """The turn it was prompted with (or began by itself) and has not ended."""
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set when `turn_id` has ended; a new one for each turn."""
    gone: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set when the agent has exited."""
    requests: dict[str, str] = {}
    """The agent's own ids of what it asked, by permission id."""
    outbox: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while something is said to it: its methods are not called concurrently."""
    output: int = 0
    """How many characters were said in `turn_id`."""
    output_max: int
    """How many may be said in one turn."""
    given_up: str | None = None
    """The turn that was failed for what its agent did or did not do; the agent is being ended for it."""
    closing: bool = False
    reader: asyncio.Task[None] | None = None


class Driver:
    """Drives the agent of one session. Its methods are called from the session's actor only."""

    def __init__(self, session_id: str, desk: Desk, context: Context) -> None:
        self._session_id = session_id
        self._desk = desk
        self._context = context
        self._tasks = Tasks(f"driver:{session_id}")
        self._open: _Open | None = None
        self._turn_id: str | None = None
        self._prompting: asyncio.Task[None] | None = None
        self._stopping: str | None = None
        self._closing: asyncio.Task[None] | None = None
        self._steering = asyncio.Lock()
        self._closed = False

    # What the actor asks

    @property
    def away(self) -> bool:
        """Whether no agent is open, opening or closing."""
        return self._open is None and self._prompting is None and self._closing is None

    @property
    def pid(self) -> int | None:
        """The agent's process, where it has one just now."""
        return self._open.agent.pid if self._open else None

    def ready(self, session: Session) -> bool:
        """Whether a turn can be started: no agent is there, or one that can go on with this generation."""
        return self.hindrance(session) is None

    def hindrance(self, session: Session) -> str | None:
        """What keeps a turn from being started just now, for a person."""
        if self._prompting:
            return "its agent to be up"
        opened = self._open
        if self._closing or (opened and (opened.closing or opened.generation != session.generation)):
            return "the agent's last process to be gone"
        return None

    def works_on(self, turn_id: str) -> bool:
        """Whether an agent has that turn in hand, or is about to get it."""
        prompted = self._open is not None and self._open.turn_id == turn_id
        return prompted or (self._prompting is not None and self._turn_id == turn_id)

    def can_steer(self, session: Session) -> bool:
        """Whether the running turn is in the agent's hands and the agent takes steers."""
        agent = self._context.agents.get(session.agent)
        opened, running = self._open, session.running
        if not agent or not agent.capabilities.steer or not opened or not running:
            return False
        return self._prompting is None and opened.turn_id == running.turn.id and not opened.closing

    def look(self, session: Session | None, events: list[e.Event]) -> None:
        """A step is durable: begin what its state and events call for. Returns at once.

        Also called when nothing has changed, so that what could not be begun then is begun now. `session` is None when
        there is none any more.
        """
        if self._closed:
            return
        for event in events:
            if isinstance(event, e.PermissionAnswered):
                allow = event.decision == "allow"
                answer = self._answer(event.permission_id, allow=allow, option_id=event.option_id, note=event.note)
                self._tasks.start(answer, "answer")
            elif isinstance(event, e.TurnSteerRequested):
                self._tasks.start(self._steer(event), "steer")
        if session and session.running:
            self._look_at_turn(session, session.running)
        elif self._prompting and (session is None or session.lifecycle != "active"):
            self._tasks.start(self._abandon_prompt(), "abandon")
        elif self._open and self._unwanted(session, self._open):
            self.let_go()

    def turn_down(self, permission_id: str) -> None:
        """The question is of no turn that the session knows: nobody will ever be asked, and the agent waits."""
        if not self._closed:
            self._tasks.start(self._answer(permission_id, allow=False), "answer")

    def _look_at_turn(self, session: Session, running: Running) -> None:
        turn = running.turn
        if turn.id != self._turn_id:
            self._turn_id = turn.id
            if turn.origin == "message" and not running.cancelling:
                self._prompting = self._tasks.start(self._prompt(session, running), "prompt")
        if running.cancelling and self._stopping != turn.id:
            self._stopping = turn.id
            self._tasks.start(self._stop_turn(turn.id), "stop_turn")

    def let_go(self) -> None:
        """Close the agent: it is idle, or no longer wanted. The actor hears `AgentExited` and is woken."""
        opened = self._open
        if opened and not (opened.closing or self._closing or self._prompting or self._closed):
            self._closing = self._tasks.start(self._let_go(opened), "close")

    async def _let_go(self, opened: _Open) -> None:
        try:
            await self._close(opened, self._context.patience_s)
        finally:
            self._closing = None
            self._desk.wake()

    def give_up(self, turn_id: str, problem: Problem) -> None:
        """Fail a turn of the agent's and end the agent, which can't be trusted on."""
        opened = self._open
        if opened is None or opened.given_up == turn_id:
            return
        opened.given_up = turn_id
        self._desk.tell(c.AgentEnded(turn_id=turn_id, error=problem))
        if self._prompting:
            self._tasks.start(self._abandon_prompt(), "abandon")
        else:
            self.let_go()

    def wake_agent(self, session: Session) -> None:
        """Open the agent although nothing is to be said to it yet. The caller holds a place for it."""
        if self.away and not self._closed:
            self._prompting = self._tasks.start(self._wake(session), "wake")

    async def close(self, patience_s: float | None = None) -> None:
        """End the agent, at the latest after its patience, and all that this driver does. Nothing of it is left."""
        self._closed = True
        if self._prompting:
            self._prompting.cancel()
            await asyncio.wait([self._prompting], timeout=CLOSE_SLACK_S)
        if opened := self._open:
            await self._close(opened, self._context.patience_s if patience_s is None else patience_s)
        await self._tasks.close()

    def _unwanted(self, session: Session | None, opened: _Open) -> bool:
        return session is None or session.lifecycle != "active" or opened.generation != session.generation

    # Opening and prompting

    async def _wake(self, session: Session) -> None:
        try:
            await self._ensure_open(session)
        except port.OpenFailed as error:
            self._desk.tell(c.AgentWrote(text=f"The agent could not be started: {error}"))
        except Exception as error:
            log.exception("an opening failed", extra=self._about("open_failed"))
            self._desk.tell(c.AgentWrote(text=f"The agent could not be started: {type(error).__name__}."))
        finally:
            self._prompting = None
            self._desk.wake()

    async def _prompt(self, session: Session, running: Running) -> None:
        turn_id, opened = running.turn.id, None
        try:
            parts = await self._parts(running.messages)
            opened = await self._free_agent(session)
            opened.turn_id, opened.ended, opened.output = turn_id, asyncio.Event(), 0
            async with asyncio.timeout(self._context.settings.open_timeout_s), opened.outbox:
                await opened.agent.prompt(turn_id, parts)
        except port.OpenFailed as error:
            self._desk.tell(c.AgentUnavailable(turn_id=turn_id, detail=str(error)))
        except Exception as error:
            log.exception("a prompt failed", extra=self._about("prompt_failed"))
            detail = f"The agent could not be prompted: {type(error).__name__}."
            self._desk.tell(c.AgentUnavailable(turn_id=turn_id, detail=detail))
            if opened:
                await self._close(opened, 0)
        finally:
            self._prompting = None
            self._desk.wake()

    async def _free_agent(self, session: Session) -> _Open:
        """The open agent, with no turn of its own under way that the session does not know of.

        Such a turn began in the same moment as the session's: it gets a while, then the agent is opened anew.
        """
        while True:
            opened = await self._ensure_open(session)
            if opened.turn_id is None:
                return opened
            try:
                async with asyncio.timeout(self._context.grace_s):
                    await opened.ended.wait()
            except TimeoutError:
                await self._close(opened, self._context.patience_s)

    async def _ensure_open(self, session: Session) -> _Open:
        """The open agent, opened now if need be.

        Raises:
            OpenFailed: It can't be started.
        """
        if self._open and self._open.closing:
            await self._open.gone.wait()  # bounded: whoever closes it sees to that
        if self._open:
            return self._open
        agent = self._context.agents.get(session.agent)
        if agent is None:
            raise port.OpenFailed(f"This host knows no agent {session.agent!r}. See `antiphon agent list`.")
        spec = port.AgentSpec(
            name=session.agent,
            session_id=session.id,
            session_key=session.key,
            generation=session.generation,
            cwd=session.cwd or self._context.workspace(session.id),
            model=session.model or self._model(session.agent),
            settings=session.settings,
            environment={
                **self._context.environment(),
                **own_environment(session.agent, self._context.settings),
            },
            place=self._context.belongings.of(session.id),
            fork_from=session.branch.mark if session.branch else None,
        )
        timeout_s = self._context.settings.open_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                running = await agent.open(spec, session.resume_token)
        except TimeoutError:
            raise port.OpenFailed(f"The agent {session.agent!r} did not start within {timeout_s:g} s.") from None
        run_id = self._context.ids.new("run")
        opened = _Open(
            run_id=run_id,
            generation=session.generation,
            agent=running,
            output_max=output_limit(session.agent, self._context.settings),
        )
        self._open = opened
        self._desk.tell(
            c.AgentOpened(
                run_id=run_id, generation=session.generation, pid=running.pid, resume_token=running.resume_token
            )
        )
        opened.reader = self._tasks.start(self._read(opened), "read")
        return opened

    async def _parts(self, messages: tuple[Message, ...]) -> tuple[port.Part, ...]:
        at_hand = [self._desk.written(message.id) for message in messages]
        stored = at_hand if all(at_hand) else await self._texts([message.id for message in messages])
        if len(stored) != len(messages):
            raise port.OpenFailed("Its messages are gone from the store.")
        pairs = zip(messages, stored, strict=True)
        return tuple(part for message, text in pairs if text for part in self._parts_of(message, text))

    def _parts_of(self, message: Message, written: StoredMessage | NewText) -> list[port.Part]:
        """What an agent is given of a message.

        Raises:
            OpenFailed: A file that came inside it can't be written down.
        """
        if message.substitute == "summary" and not message.resumed:
            return [port.Part(text=shortened(written.text, written.files), message_id=message.id)]
        text = port.Part(text=RESUMED if message.resumed else written.text, message_id=message.id)
        if not written.files:
            return [text]
        place = Path(self._context.workspace(self._session_id), "attachments", message.id)
        files = enumerate(written.files, 1)
        return [text, *[file_part(file, place=place / str(n), message_id=message.id) for n, file in files]]

    async def _texts(self, message_ids: list[str]) -> Sequence[StoredMessage]:
        """What was written, however long the store is away: the turn has started, its messages must not be lost.

        Raises:
            OpenFailed: It can't be read any more.
        """
        while True:
            try:
                return await self._context.store.messages(message_ids)
            except StoreDamaged as error:
                raise port.OpenFailed("Its messages can't be read from the store.") from error
            except StoreUnavailable as error:
                log.warning("the store is away", extra={"action": "store_unavailable", "code": error.code})
                await self._context.clock.sleep(0.5 + self._context.random.random())

    # Listening

    async def _read(self, opened: _Open) -> None:
        exited: port.Exited | None = None
        try:
            async with listening(opened.agent) as everything:
                async for said in everything:
                    if type(said) is port.Text and _is_piece(opened, said.text):  # most of all that is said
                        opened.output += len(said.text)
                        if not self._desk.speak(said.turn_id, said.text):
                            await self._desk.room()
                    elif isinstance(said, port.Exited):
                        exited = said
                        break
                    else:
                        await self._heard(opened, said)
        except Exception as error:
            log.exception("an adapter failed", extra=self._about("adapter_failed", call="said"))
            exited = await self._kill(opened, f"Its adapter failed: {type(error).__name__}.")
        self._gone(opened, exited or await self._kill(opened, "Its adapter fell silent."))

    async def _kill(self, opened: _Open, detail: str) -> port.Exited:
        """End an agent that nobody listens to any more."""
        opened.closing = True
        try:
            async with asyncio.timeout(CLOSE_SLACK_S):
                await opened.agent.close(0)
        except Exception:
            log.exception(LOST, extra=self._about("agent_lost"))
        return port.Exited(reason="adapter_failed", detail=detail)

    def _about(self, action: str, **more: str) -> dict[str, str]:
        return {"action": action, "session_id": self._session_id, **more}

    def _gone(self, opened: _Open, exited: port.Exited) -> None:
        if opened.gone.is_set():
            return
        if self._open is opened:
            self._open = None
        opened.gone.set()
        turn_id, opened.turn_id = opened.turn_id, None
        opened.ended.set()
        self._desk.tell(
            c.AgentExited(
                run_id=opened.run_id,
                turn_id=turn_id,
                exit_code=exited.exit_code,
                reason=exited.reason,
                detail=exited.detail,
            )
        )
        self._desk.wake()

    async def _heard(self, opened: _Open, said: port.Said) -> None:
        report = self._desk.report
        if self._says_too_much(opened, said):
            return
        match said:
            case port.Text():
                await self._spoke(said)
            case port.Asked():
                await self._asked(opened, said)
            case port.Steered():
                await report(c.AgentSteered(turn_id=said.turn_id, message_id=said.message_id, taken=said.taken))
            case port.Began(turn_id=turn_id):
                if opened.turn_id is None:
                    opened.turn_id, opened.ended, opened.output = turn_id, asyncio.Event(), 0
                await report(c.AgentBegan(turn_id=turn_id))
            case port.Ended():
                await self._turn_over(opened, said)
            case port.Resumable(resume_token=token):
                await report(c.AgentCanResume(run_id=opened.run_id, resume_token=token))
            case port.Wrote(text=text):
                await report(c.AgentWrote(text=text))
            case _:
                if event := event_of(said):
                    await report(c.AgentSaid(turn_id=event.turn_id, said=event))

    async def _spoke(self, said: port.Text) -> None:
        for piece in pieces(said.text):
            if not self._desk.speak(said.turn_id, piece):
                await self._desk.room()

    def _says_too_much(self, opened: _Open, said: port.Said) -> bool:
        """Whether the turn has said more than it may; then it fails, and what more it says goes unheard."""
        match said:
            case port.Text(text=text) | port.Thought(text=text):
                opened.output += len(text)
            case port.ToolStarted(input=shown) | port.ToolEnded(output=shown):
                opened.output += len(shown if isinstance(shown, str) else str(shown))
            case _:
                return False
        if opened.output <= opened.output_max:
            return False
        if opened.turn_id is not None and opened.turn_id != opened.given_up:
            limit = f"{opened.output_max / (1 << 20):g} MB"
            detail = f"The turn said more than {limit}, which is what `output_mb` allows; its agent was ended."
            self.give_up(opened.turn_id, Problem(code="agent_failed", detail=detail))
        return True

    def _model(self, agent: str) -> str | None:
        """The model that the configuration names for an agent."""
        settings = self._context.settings.agents.get(agent)
        return settings.model if settings else None

    async def _turn_over(self, opened: _Open, said: port.Ended) -> None:
        if opened.turn_id == said.turn_id:
            opened.turn_id = None
            opened.ended.set()
            opened.requests = {}
        await self._desk.report(
            c.AgentEnded(
                turn_id=said.turn_id, error=said.error, cancelled=said.cancelled, usage=said.usage, mark=said.mark
            )
        )

    async def _asked(self, opened: _Open, said: port.Asked) -> None:
        permission_id = self._context.ids.new("perm")
        opened.requests = {**opened.requests, permission_id: said.request_id}
        policy = policy_of(self._desk.session, self._context.settings)
        verdict, deadline_s = policy.verdict(said.tool), policy.permission_deadline_s
        now = self._context.clock.now()
        await self._desk.report(
            c.AgentAsked(
                permission_id=permission_id,
                turn_id=said.turn_id,
                question=said.question,
                tool=said.tool,
                options=said.options,
                deadline_at=None if deadline_s is None else now + int(deadline_s * 1000),
                decision=verdict.decision if verdict else None,
                note=verdict.note if verdict else None,
            )
        )

    # Speaking to an agent that runs

    async def _answer(
        self, permission_id: str, *, allow: bool, option_id: str | None = None, note: str | None = None
    ) -> None:
        opened = self._open
        request_id = opened.requests.get(permission_id) if opened else None
        if opened is None or request_id is None:
            return
        try:
            async with asyncio.timeout(TAKE_TIMEOUT_S), opened.outbox:
                await opened.agent.answer(request_id, allow, option_id, note)
        except Exception:
            log.exception("an adapter failed", extra=self._about("adapter_failed", call="answer"))
            await self._close(opened, self._context.patience_s)  # else it would wait for ever

    async def _steer(self, event: e.TurnSteerRequested) -> None:
        """Hand a steer over, after those that were requested before it."""
        async with self._steering:
            if not await self._handed_over(event):
                self._desk.tell(c.AgentSteered(turn_id=event.turn_id, message_id=event.message_id, taken=False))

    async def _handed_over(self, event: e.TurnSteerRequested) -> bool:
        """Whether the steer is in the agent's hands: then the agent says what becomes of it."""
        try:
            stored = await self._texts([event.message_id])
            parts = tuple(part for each in stored for part in self._parts_of(each.message, each))
            opened = self._open
            if not parts or opened is None:
                return False
            async with asyncio.timeout(TAKE_TIMEOUT_S), opened.outbox:
                if opened.turn_id != event.turn_id:
                    return False
                await opened.agent.steer(event.turn_id, event.message_id, parts)
        except port.OpenFailed:
            return False
        except Exception:
            log.exception("an adapter failed", extra=self._about("adapter_failed", call="steer"))
            return False
        return True

    async def _stop_turn(self, turn_id: str) -> None:
        """Make the agent stop that turn: by asking, then by ending it with everything below it.

        That turn only: by now it may have ended, and the next one may have begun.
        """
        if self._turn_id == turn_id:
            await self._abandon_prompt()
        opened = self._open
        if opened is None or opened.turn_id != turn_id:
            self._desk.tell(c.AgentEnded(turn_id=turn_id, cancelled=True))
            return
        ended = opened.ended
        try:
            async with asyncio.timeout(self._context.grace_s):
                async with opened.outbox:
                    await opened.agent.cancel(turn_id)
                await ended.wait()
        except TimeoutError:
            await self._close(opened, min(1.0, self._context.patience_s))
        except Exception:
            log.exception("an adapter failed", extra=self._about("adapter_failed", call="cancel"))
            await self._close(opened, min(1.0, self._context.patience_s))

    async def _abandon_prompt(self) -> None:
        """Break off an opening or a prompt. An agent that has read half of one is ended: it can't be trusted on."""
        if self._prompting is None:
            return
        self._prompting.cancel()
        await asyncio.wait([self._prompting])
        opened = self._open
        if opened and (opened.closing or opened.turn_id == self._turn_id):
            await self._close(opened, 0)

    async def _close(self, opened: _Open, patience_s: float) -> None:
        """End an agent. Returns when it is gone, or when its adapter has had more than its time to see to that."""
        opened.closing = True
        try:
            try:
                await self._end(opened, patience_s)
            except TimeoutError:  # perhaps it is this host that stood still, and the adapter had no time
                await self._end(opened, 0)
        except Exception:
            log.exception(LOST, extra=self._about("agent_lost"))
            if opened.reader:
                opened.reader.cancel()
            self._gone(opened, port.Exited(reason="lost", detail="It could not be ended."))
        finally:
            self._desk.wake()

    async def _end(self, opened: _Open, patience_s: float) -> None:
        async with asyncio.timeout(patience_s + CLOSE_SLACK_S):
            await opened.agent.close(patience_s)
            await opened.gone.wait()


def _is_piece(opened: _Open, text: str) -> bool:
    """Whether a text is a piece as it is, of a turn that may say it."""
    return 0 < len(text) <= PIECE_MAX and opened.output + len(text) <= opened.output_max


RESUMED = (
    "The connection was interrupted while you were working on my last message. "
    "Go on where you stopped; do not repeat what is done already."
)
"""What an agent that still knows the cut turn is told instead of the message."""
