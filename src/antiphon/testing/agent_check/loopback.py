"""One agent behind a host of its own, with the model server for a model: no key, no network, nothing kept.

Two turns of which the second knows the first, a cancel, a resume; then whether anything of it is still alive.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.agents.catalogue import UnknownAdapter, build, kind_of
from antiphon.agents.environment import clean_environment
from antiphon.agents.loopback import Loopback, loopback_of
from antiphon.core.errors import AntiphonError
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.settings import HostSettings
from antiphon.host.views import Receipt
from antiphon.ports.agent import Agent
from antiphon.store.memory import MemoryStore
from antiphon.system import SystemClock, SystemIds
from antiphon.testing.agent_check.outcome import Outcome
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import eventually, marked, new_mark

__all__ = ["Outcome", "UnknownAdapter", "check"]

FIRST, SECOND, GATE = "maple", "birch", "gate"
GONE_WITHIN_S = 10.0


class _Wrong(Exception):
    """A step did not go right; the text says how."""


async def check(name: str, adapter: str, options: Mapping[str, Any], told: Callable[[Outcome], object]) -> bool:
    """Try an agent out. `told` hears of each step as it ends; the answer is whether none failed.

    Args:
        name: The agent's name in the configuration.
        adapter: Its adapter, a built-in one by name or `module:class`.
        options: Its table.
        told: Hears of each step.

    Raises:
        UnknownAdapter: There is no such adapter, or it does not take the options.
    """
    with tempfile.TemporaryDirectory(prefix="antiphon-check-", ignore_cleanup_errors=True) as directory:
        home = _made(directory, "home")
        async with ModelServer() as model:
            pointed = loopback_of(kind_of(adapter, name), options, model.url, home)
            agent = build(adapter, name, dict(pointed.options))
            missing = await agent.missing()
            if missing is not None:
                told(Outcome("installed", "failed", missing))
                return False
            told(Outcome("installed", "ok"))
            mark = new_mark()
            environment = clean_environment({"HOME": str(home), **mark})
            async with _host(agent, _made(directory, "work"), Path(directory, "conversations"), environment) as host:
                fine = await _Trial(host, agent, pointed, model, told).run()
            return await _step(told, "nothing is left running", _nothing_left(mark)) and fine


def _made(directory: str, name: str) -> Path:
    path = Path(directory, name)
    path.mkdir()
    return path


@asynccontextmanager
async def _host(agent: Agent, work: Path, belongings: Path, environment: Mapping[str, str]) -> AsyncGenerator[Host]:
    host = Host(
        store=MemoryStore(epoch="check"),
        agents={agent.name: agent},
        clock=SystemClock(),
        ids=SystemIds(),
        settings=HostSettings(drain_s=0),
        workspace=lambda _: str(work),
        belongings=belongings,
        environment=lambda: environment,
    )
    try:
        await host.start()
        yield host
    finally:
        await host.stop()


async def _step(told: Callable[[Outcome], object], step: str, doing: Awaitable[str]) -> bool:
    """Do one step and tell what became of it. What it returns is said beside `ok`."""
    try:
        detail = await doing
    except (_Wrong, AntiphonError, AssertionError) as error:
        told(Outcome(step, "failed", str(error)))
        return False
    except TimeoutError:
        told(Outcome(step, "failed", "It did not come to an end in time."))
        return False
    told(Outcome(step, "ok", detail))
    return True


async def _nothing_left(mark: dict[str, str]) -> str:
    await eventually(lambda: not marked(mark), GONE_WITHIN_S, "the end of every process that the agent started")
    return ""


class _Trial:
    """One agent in one session."""

    def __init__(
        self, host: Host, agent: Agent, pointed: Loopback, model: ModelServer, told: Callable[[Outcome], object]
    ) -> None:
        self._host = host
        self._agent = agent
        self._pointed = pointed
        self._model = model
        self._told = told
        self._session_id = ""

    async def run(self) -> bool:
        """Everything in order. Without a first answer there is no point in going on."""
        if not await _step(self._told, "a turn", self._first()):
            return False
        results = [await _step(self._told, "a second turn", self._second())]
        if self._pointed.holds:
            results.append(await _step(self._told, "a cancel", self._cancel(self._pointed.holds)))
        else:
            self._told(Outcome("a cancel", "skipped", "It can't be made to hold a turn."))
        results.append(await _step(self._told, "a resume", self._resume()))
        return all(results)

    async def _first(self) -> str:
        session, _ = await self._host.create_session(
            NewSession(agent=self._agent.name, model=self._pointed.model), return_existing=False
        )
        self._session_id = session.id
        return await self._says(FIRST)

    async def _second(self) -> str:
        if self._pointed.recalls is None:
            await self._says(SECOND)
            return "It keeps no conversation." if self._pointed.answers else ""
        await self._recall()
        return "It knows the first."

    async def _cancel(self, holds: Callable[[str, str], str]) -> str:
        receipt = await self._host.send(self._session_id, NewMessage(text=holds(GATE, SECOND)))
        async with asyncio.timeout(self._pointed.patience_s):
            turn_id = await self._turn_of(receipt.id)
            if self._pointed.model is not None:
                await self._model.reached(GATE)
            cancelled = await self._host.cancel_turn(turn_id)
        if cancelled.state != "cancelled" or not cancelled.confirmed:
            raise _Wrong(f"The cancelled turn is {cancelled.state}.")
        self._model.release(GATE)
        await self._says(FIRST)
        return "The next turn was answered."

    async def _resume(self) -> str:
        async with asyncio.timeout(self._pointed.patience_s):
            await self._host.stop_session(self._session_id)
            await self._host.resume_session(self._session_id)
        if self._pointed.recalls and self._agent.capabilities.resume:
            await self._recall()
            return "A new process knows the conversation."
        await self._says(SECOND)
        return "A new process answers." if self._pointed.answers else ""

    async def _turn_of(self, message_id: str) -> str:
        """The turn that answers a message, once it runs."""
        while True:
            receipt = await self._host.receipt(message_id)
            if receipt.turn_id is not None:
                return receipt.turn_id
            await asyncio.sleep(0.01)

    async def _says(self, word: str) -> str:
        reply = await self._answered(self._pointed.says(word))
        if self._pointed.answers and word not in reply:
            raise _Wrong(f"It answered {reply[:200]!r}, without the word {word!r}.")
        return ""

    async def _recall(self) -> None:
        assert self._pointed.recalls, "whoever calls has looked"
        reply = await self._answered(self._pointed.recalls())
        if FIRST not in reply:
            raise _Wrong(f"It does not know the first turn. It answered {reply[:200]!r}.")

    async def _answered(self, text: str) -> str:
        accepted = await self._host.send(self._session_id, NewMessage(text=text))
        receipt = await self._host.wait_message(accepted.id, self._pointed.patience_s)
        if receipt.state != "answered":
            raise _Wrong(_why(receipt, self._pointed.patience_s))
        return receipt.reply or ""


def _why(receipt: Receipt, patience_s: float) -> str:
    if receipt.ended_at is None:
        return f"No answer within {patience_s:g} s."
    return receipt.error.detail if receipt.error else f"The message is {receipt.state}."
