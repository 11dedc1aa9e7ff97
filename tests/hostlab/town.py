"""Hosts over one store, each with an agent of its own, so that it can be seen who answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from msgspec.structs import replace

from antiphon.core.session import Session
from antiphon.errands import WholeStore
from antiphon.host.host import Host
from antiphon.host.service import NewMessage
from antiphon.host.views import Receipt
from antiphon.ports.store import Notice
from antiphon.store.memory import MemoryStore
from antiphon.store.postgres import PostgresStore
from antiphon.system import SystemClock, SystemIds
from antiphon.testing.scripted_agent import ScriptedAgent
from hostlab.house import SETTINGS, BriskClock, script
from hostlab.line import Line

WAIT_S = 10.0


class Common(Protocol):
    """A store that several hosts share."""

    async def open(self) -> WholeStore:
        """A way to it of one host's own. The caller closes it."""
        ...


class CommonMemory:
    """In memory; a host dies by `lose`."""

    def __init__(self, clock: BriskClock) -> None:
        self._clock = clock
        self._first = MemoryStore()

    async def open(self) -> MemoryStore:
        return self._first.join(self._clock)


class CommonPostgres:
    """A schema of a real server."""

    def __init__(self, url: str, schema: str) -> None:
        self._url, self._schema = url, schema

    async def open(self) -> PostgresStore:
        return await PostgresStore.open(self._url, clock=SystemClock(), schema_name=self._schema, connections=6)


class DeafLine(Line):
    """A way to the store on which no notice comes through while it is deaf."""

    def __init__(self, store: WholeStore) -> None:
        super().__init__(store)
        self.deaf = False

    async def notices(self) -> AsyncIterator[Notice]:
        async for notice in self.store.notices():
            if not self.deaf:
                yield notice


class Resident:
    """One of the hosts."""

    def __init__(self, host: Host, line: DeafLine, agent: ScriptedAgent) -> None:
        self.host, self.line, self.agent = host, line, agent

    async def send(self, ref: str, text: str, **fields: Any) -> Receipt:
        """Send a message at this door."""
        return await self.host.send(ref, NewMessage(text=text, **fields))

    async def end_of(self, receipt: Receipt) -> Receipt:
        """Wait at this door for a message's end."""
        async with asyncio.timeout(WAIT_S):
            return await self.host.wait_message(receipt.id, None)

    async def ask(self, ref: str, text: str, **fields: Any) -> Receipt:
        """Send a message and wait for its end."""
        return await self.end_of(await self.send(ref, text, **fields))

    async def hold(self, ref: str, text: str = "hold") -> Receipt:
        """Send a message whose turn runs, whoever runs it, until its text is released as a gate."""
        receipt = await self.send(ref, text)
        await self.until(receipt.session_id, lambda session: session.running is not None and session.running.touched)
        return receipt

    async def until(self, session_id: str, true: Callable[[Session], object]) -> Session:
        """The session, as soon as something holds of what is stored."""
        async with asyncio.timeout(WAIT_S):
            while True:
                session = await self.line.store.load(session_id)
                if session is not None and true(session):
                    return session
                await asyncio.sleep(0.005)

    async def owns(self, session_id: str) -> None:
        """Wait until this host owns the session."""
        async with asyncio.timeout(WAIT_S):
            while True:
                owner = await self.line.peers.owner(session_id)
                if owner is not None and owner.id == self.host.context.host_id:
                    return
                await asyncio.sleep(0.005)

    async def owns_not(self, session_id: str) -> None:
        """Wait until this host does not own the session."""
        async with asyncio.timeout(WAIT_S):
            actor = self.host.actor(session_id)
            await actor.until(lambda: not actor.owns)

    @property
    def answered(self) -> list[str]:
        """What this host's agent was asked, in order."""
        return [text for conversation in self.agent.conversations for _, text in conversation.prompts]


class Town:
    """All of the hosts."""

    def __init__(self, common: Common, clock: BriskClock, workspace: str) -> None:
        self._common, self._clock, self._workspace = common, clock, workspace
        self._ids = SystemIds()
        self.residents: list[Resident] = []

    async def settle(self, name: str, **settings: Any) -> Resident:
        """A further host, started."""
        line, agent = DeafLine(await self._common.open()), ScriptedAgent(script)
        host = Host(
            store=line,  # pyright: ignore[reportArgumentType]  # it hands on what it does not have
            agents={"scripted": agent},
            clock=self._clock,
            ids=self._ids,
            settings=replace(SETTINGS, **settings),
            workspace=lambda _session_id: self._workspace,
            seed=1,
            peers=line.peers,
            name=name,
        )
        self.residents.append(resident := Resident(host, line, agent))
        async with asyncio.timeout(WAIT_S):
            await host.start()
        return resident

    async def leave(self) -> None:
        """Stop all hosts."""
        for resident in self.residents:
            async with asyncio.timeout(2 * WAIT_S):
                await resident.host.stop()
                await resident.line.store.close()
