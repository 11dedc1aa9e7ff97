"""A host in virtual time, with the scripted agent, over a store in memory that fails when it is told to.

    @in_virtual_time
    async def test_something_that_takes_an_hour() -> None:
        async with staged() as stage:
            ...

Nothing waits for real: when nobody can go on, the time is that of the next timer.
"""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec

from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Session
from antiphon.host.actor import SessionActor
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.host.views import Receipt
from antiphon.ports.agent import Agent, AgentSpec, RunningAgent
from antiphon.ports.store import Commit
from antiphon.ports.vitals import Vitals
from antiphon.store.memory import MemoryStore
from antiphon.testing.scripted_agent import Hold, Say, ScriptedAgent, ScriptedConversation, Step
from antiphon.testing.simulation.loop import CountedIds, VirtualClock, VirtualLoop

P = ParamSpec("P")
WAIT_S = 60.0
LIMIT_S = 24 * 3600.0
SETTINGS = HostSettings(cancel_grace_s=1.0, close_patience_s=0.5, drain_s=0.5, open_timeout_s=5.0, agent_idle_s=900.0)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a loop of its own whose time jumps; nothing of it is left afterwards."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(asyncio.wait_for(test(*args, **kwargs), LIMIT_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            assert not left, f"left behind: {left}"
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    del run.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]  # else it would be taken for an async test
    run.__signature__ = inspect.signature(test)  # pyright: ignore[reportAttributeAccessIssue]  # for its fixtures
    return run


def script(text: str) -> Iterable[Step]:
    """A text that begins with `hold` says something, then waits until its own text is released as a gate."""
    if text.startswith("hold"):
        return [Say("so far "), Hold(text), Say(f"answer to {text}")]
    return [Say(f"answer to {text}")]


class FaultyStore:
    """The store as the host meets it.

    Attributes:
        memory: What is behind it.
        meeting: Awaited before each commit; what it raises the host is told, and nothing is written.
        after: Awaited after each commit; what it raises the host is told.
        reading: Awaited before each read, with the method's name; what it raises the host is told.
        away: Whether nothing of it can be reached.
        commits: What was committed.
        ids: Where names come from for what is kept in it, whichever host runs.
    """

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.meeting: Callable[[Commit], Awaitable[None]] | None = None
        self.after: Callable[[Commit], Awaitable[None]] | None = None
        self.reading: Callable[[str], Awaitable[None]] | None = None
        self.away = False
        self.commits: list[Commit] = []
        self.ids = CountedIds()

    async def commit(self, commit: Commit) -> None:
        self._require_reach()
        if self.meeting:
            await self.meeting(commit)
        await self.memory.commit(commit)
        self.commits.append(commit)
        if self.after:
            await self.after(commit)

    def _require_reach(self) -> None:
        if self.away:
            raise StoreUnavailable("It is away.")

    def __getattr__(self, name: str) -> Any:
        there = getattr(self.memory, name)
        if not inspect.iscoroutinefunction(there):
            return there

        async def read(*args: Any, **kwargs: Any) -> Any:
            self._require_reach()
            if self.reading:
                await self.reading(name)
            return await there(*args, **kwargs)

        return read


class Stage:
    """A host and what it is made of. `staged` sets it up and takes it down."""

    def __init__(
        self, *agents: Agent, store: FaultyStore | None = None, vitals: Vitals | None = None, **settings: Any
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "on a stage the time is virtual"
        self.clock = VirtualClock(loop)
        self.store = store or FaultyStore()
        self.ids = self.store.ids
        self.agent = ScriptedAgent(script, clock=self.clock)
        self.host = Host(
            store=self.store,  # pyright: ignore[reportArgumentType]  # it hands on what it does not have
            agents={agent.name: agent for agent in (self.agent, *agents)},
            clock=self.clock,
            ids=self.ids,
            settings=HostSettings(**{**_fields(SETTINGS), **settings}),
            workspace=lambda _session_id: "/",
            seed=1,
            vitals=vitals,
        )

    # Asking

    async def open(self, key: str = "k", *, agent: str = "scripted", **fields: Any) -> str:
        """Make a session; its id."""
        view, _ = await self.host.create_session(NewSession(agent=agent, key=key, **fields), return_existing=False)
        return view.id

    async def send(self, ref: str, text: str, **fields: Any) -> Receipt:
        """Send a message; its receipt as of its acceptance."""
        return await self.host.send(ref, NewMessage(text=text, **fields))

    async def end_of(self, message_id: str) -> Receipt:
        """The receipt of a message at its end."""
        end = await self.host.wait_message(message_id, WAIT_S)
        assert end.ended_at is not None, f"{end.state}: {end.waiting_for}"
        return end

    async def ask(self, ref: str, text: str, **fields: Any) -> Receipt:
        """Send a message and wait for its end."""
        return await self.end_of((await self.send(ref, text, **fields)).id)

    async def hold(self, ref: str, text: str = "hold", **fields: Any) -> Receipt:
        """Send a message whose answer has begun, and is held, when this returns."""
        receipt = await self.send(ref, text, **fields)
        await self.until(receipt.session_id, lambda session: bool(session.running and session.running.touched))
        return await self.host.receipt(receipt.id)

    async def until(self, session_id: str, true: Callable[[Session], bool]) -> Session:
        """Wait until something holds of a session as its actor knows it."""
        actor = self.actor(session_id)
        actor.wake()
        async with asyncio.timeout(WAIT_S):
            await actor.until(lambda: actor.session is not None and true(actor.session))
        assert actor.session is not None
        return actor.session

    async def until_away(self, session_id: str) -> None:
        """Wait until the session has no agent, and its journal says so."""
        actor = self.actor(session_id)
        actor.wake()
        async with asyncio.timeout(WAIT_S):
            await actor.until(
                lambda: actor.agent_away and actor.session is not None and actor.session.agent_run is None
            )

    # Looking

    def actor(self, session_id: str) -> SessionActor:
        """The actor of a session."""
        return self.host.actor(session_id)

    def conversation(self) -> ScriptedConversation:
        """The conversation that was opened last."""
        return self.agent.conversations[-1]

    def prompts(self) -> list[str]:
        """The texts of all prompts, in order of conversations."""
        return [text for conversation in self.agent.conversations for _, text in conversation.prompts]

    async def types(self, session_id: str) -> list[str]:
        """The types of all events in a session's journal."""
        return [entry.type for entry in await self.store.memory.entries(session_id, after=0, limit=10_000)]


@contextlib.asynccontextmanager
async def staged(
    *agents: Agent, store: FaultyStore | None = None, vitals: Vitals | None = None, **settings: Any
) -> AsyncGenerator[Stage, None]:
    """A stage whose host is started, and stopped in the end with its store within reach."""
    stage = Stage(*agents, store=store, vitals=vitals, **settings)
    await stage.host.start()
    try:
        yield stage
    finally:
        stage.store.away, stage.store.meeting, stage.store.after, stage.store.reading = False, None, None, None
        await stage.host.stop()


def _fields(settings: HostSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


class Awkward(ScriptedAgent):
    """A scripted agent whose conversations have some methods replaced.

    `replacements` are by name; each is called with the conversation and the method's arguments.
    """

    def __init__(self, *, name: str = "awkward", **replacements: Callable[..., Any]) -> None:
        super().__init__(script, name=name)
        self._replacements = replacements

    async def open(self, spec: AgentSpec, resume_token: str | None) -> Any:
        return _Awkward(await super().open(spec, resume_token), self._replacements)


class _Awkward:
    def __init__(self, conversation: RunningAgent, replacements: dict[str, Callable[..., Any]]) -> None:
        self._conversation = conversation
        self._replacements = replacements

    def __getattr__(self, name: str) -> Any:
        if name in self._replacements:
            return functools.partial(self._replacements[name], self._conversation)
        return getattr(self._conversation, name)
