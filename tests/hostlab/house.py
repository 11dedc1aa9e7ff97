"""A host over a store that outlives it, driven in process with the scripted agent."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Self

from msgspec.structs import replace

from antiphon.core.session import Session
from antiphon.host.actor import SessionActor
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.host.views import Receipt
from antiphon.ports.store import Commit, Store
from antiphon.system import SystemClock, SystemIds
from antiphon.testing.scripted_agent import Hold, Say, ScriptedAgent, ScriptedConversation, Step
from hostlab.line import Line, Meeting
from hostlab.shelves import Shelf

WAIT_S = 5.0
SETTINGS = HostSettings(cancel_grace_s=0.3, close_patience_s=0.1, drain_s=0.05)


class BriskClock(SystemClock):
    """The machine's clock, by which pauses take a twentieth of their time; it can be put ahead."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


def script(text: str) -> Iterable[Step]:
    """A text that begins with `hold` says something, then waits until its own text is released as a gate."""
    if text.startswith("hold"):
        return [Say("so far "), Hold(text), Say(f"answer to {text}")]
    return [Say(f"answer to {text}")]


class House:
    """A host, its agent and its store. `die` ends the host as a crash does, and starts the next one.

    Attributes:
        agent: What answers, whichever host runs.
        clock: What all hosts go by.
        name: What its hosts are called among those that share the store.
        line: The way of the present host to the store.
        host: The present host.
    """

    def __init__(self, shelf: Shelf, workspace: str) -> None:
        self.agent = ScriptedAgent(script)
        self.clock = BriskClock()
        self.settings = SETTINGS
        self.name = "home"
        self._shelf = shelf
        self._workspace = workspace
        self._ids = SystemIds()
        self.line: Line
        self.host: Host

    async def enter(self) -> Self:
        """Open the store and start a host on it."""
        await self.begin(await self._shelf.open())
        return self

    async def begin(self, store: Store, *, before: Meeting | None = None) -> None:
        """Start a host on what is in a store."""
        self.line = Line(store)
        self.line.before = before
        self.host = self.another_host(self.line)
        async with asyncio.timeout(WAIT_S):
            await self.host.start()

    def another_host(self, line: Line) -> Host:
        """A host that is not started yet, on a store."""
        return Host(
            store=line,  # pyright: ignore[reportArgumentType]  # it hands on what it does not have
            agents={"scripted": self.agent},
            clock=self.clock,
            ids=self._ids,
            settings=self.settings,
            workspace=lambda _session_id: self._workspace,
            seed=1,
            peers=line.peers,
            name=self.name,
        )

    async def change(self, **settings: Any) -> None:
        """Stop the host in good order and start one with other settings."""
        await self.host.stop()
        self.settings = replace(self.settings, **settings)
        await self.begin(self.line.store)

    async def fall(self) -> Store:
        """End the host as a crash does: nothing of it runs on, nothing more of it reaches the store.

        Returns:
            What the next host finds. `begin` it.
        """
        self.line.cut = True
        owners = ("host:", "neighbours:", "actor:", "driver:")
        dead = [task for task in asyncio.all_tasks() if task.get_name().startswith(owners)]
        for task in dead:
            task.cancel()
        if dead:
            await asyncio.wait(dead, timeout=WAIT_S)
        return await self._shelf.crashed(self.line.store)

    async def die(self) -> None:
        """A crash, and the next host's start."""
        await self.begin(await self.fall())

    async def leave(self) -> None:
        """Stop the host and close the store."""
        self.line.before = self.line.after = None
        async with asyncio.timeout(2 * WAIT_S):
            await self.host.stop()
            await self.line.store.close()

    # Asking

    async def open(self, key: str = "k", **fields: Any) -> str:
        """Make a session; its id."""
        view, _ = await self.host.create_session(NewSession(agent="scripted", key=key, **fields), return_existing=False)
        return view.id

    async def send(self, ref: str, text: str, *, create: bool = False, **fields: Any) -> Receipt:
        """Send a message; its receipt as of its acceptance."""
        new = NewSession(agent="scripted", key=ref) if create else None
        async with asyncio.timeout(WAIT_S):
            return await self.host.send(ref, NewMessage(text=text, **fields), create=new)

    async def end_of(self, receipt: Receipt) -> Receipt:
        """The receipt of a message at its end."""
        end = await self.host.wait_message(receipt.id, WAIT_S)
        assert end.ended_at is not None, f"{end.state}: {end.waiting_for}"
        return end

    async def ends_of(self, receipts: Iterable[Receipt]) -> list[Receipt]:
        """The same of several, in their order."""
        return list(await asyncio.gather(*[self.end_of(receipt) for receipt in receipts]))

    async def ask(self, ref: str, text: str, **fields: Any) -> Receipt:
        """Send a message and wait for its end."""
        return await self.end_of(await self.send(ref, text, **fields))

    async def hold(self, ref: str, text: str = "hold", **fields: Any) -> Receipt:
        """Send a message whose answer has begun, and is held, when this returns."""
        receipt = await self.send(ref, text, **fields)
        await self.until(receipt.session_id, lambda session: _speaks(session, receipt.id))
        return await self.host.receipt(receipt.id)

    async def until(self, session_id: str, true: Callable[[Session], object]) -> Session:
        """Wait until something holds of a session as its host knows it."""
        actor = self.actor(session_id)
        actor.wake()
        async with asyncio.timeout(WAIT_S):
            await actor.until(lambda: actor.session is not None and bool(true(actor.session)))
        assert actor.session is not None
        return actor.session

    async def until_away(self, session_id: str) -> None:
        """Wait until the session's agent is gone and its host knows it."""
        actor = self.actor(session_id)
        actor.wake()
        async with asyncio.timeout(WAIT_S):
            await actor.until(lambda: actor.agent_away and bool(actor.session) and not _has_agent(actor.session))

    def actor(self, session_id: str) -> SessionActor:
        """The actor of a session."""
        return self.host.actor(session_id)

    # Looking

    def conversation(self) -> ScriptedConversation:
        """The conversation that was opened last."""
        return self.agent.conversations[-1]

    def prompts(self) -> list[str]:
        """The texts of all prompts that agents were ever given, in order of conversations."""
        return [text for conversation in self.agent.conversations for _, text in conversation.prompts]

    async def types(self, session_id: str) -> list[str]:
        """The types of all events in a session's journal."""
        return [entry.type for entry in await self.line.store.entries(session_id, after=0, limit=10_000)]

    async def transcript(self, ref: str, **which: Any) -> list[tuple[str, str]]:
        """Role and text of each line of a conversation."""
        page = await self.host.transcript(ref, **which)
        return [(item.role, item.text) for item in page.items]


def holds(commit: Commit, *types: str) -> bool:
    """Whether a commit has an event of one of these types."""
    return any(entry.type in types for entry in commit.entries)


def _speaks(session: Session, message_id: str) -> bool:
    running = session.running
    return bool(running and running.touched and any(message.id == message_id for message in running.messages))


def _has_agent(session: Session | None) -> bool:
    return bool(session and session.agent_run)
