"""How an agent is staged, and a conversation with it of which nothing is missed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from antiphon.agents.environment import clean_environment
from antiphon.ports.agent import Agent, AgentSpec, Ended, Exited, Part, RunningAgent, Said, Steered, Text
from antiphon.testing.processes import alive, eventually, marked, new_mark

Answer = TypeVar("Answer")
Kind = TypeVar("Kind", bound=Said)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An agent, and the prompts that make it do what a test needs; None where it can't be made to.

    Attributes:
        agent: The adapter.
        cwd: A working directory, existing and absolute.
        environment: The environment of its process.
        model: Its model.
        place: A directory in which an adapter that keeps the conversation by itself may do so.
        says: A word -> a prompt that is answered with this word in the answer.
        holds: The name of a gate, and a word -> a prompt whose turn runs until `release`, then says the word.
        release: The name of a gate -> nothing; whoever waits at it goes on.
        asks: A question -> a prompt that makes it ask for a permission, with this question in the request.
        fails: A reason -> a prompt whose turn fails for this reason.
        dies: An exit code -> a prompt in whose turn the process exits.
        stubborn: The name of a gate -> a prompt that says something, holds there, and ignores a cancel and SIGTERM.
        late: The name of a gate, and a word -> a prompt that says something, holds there, and after a cancel says the
            word.
        spawns: A prompt that leaves a process behind which ignores SIGTERM.
        recalls: A prompt that is answered with what the conversation was about, `says`' word, after a resumption.
        verbatim: Whether `says` brings back any text exactly, not only a word.
        patience_s: How long any one step may take.
    """

    agent: Agent
    cwd: str
    environment: Mapping[str, str] = field(default_factory=clean_environment)
    model: str | None = None
    place: str | None = None
    says: Callable[[str], str]
    holds: Callable[[str, str], str] | None = None
    release: Callable[[str], object] = str
    asks: Callable[[str], str] | None = None
    fails: Callable[[str], str] | None = None
    dies: Callable[[int], str] | None = None
    stubborn: Callable[[str], str] | None = None
    late: Callable[[str, str], str] | None = None
    spawns: Callable[[], str] | None = None
    recalls: Callable[[], str] | None = None
    verbatim: bool = False
    patience_s: float = 5.0


class Conversation:
    """An open agent, all that it has said so far in `heard`, and the processes that it meanwhile was in `pids`."""

    def __init__(self, agent: RunningAgent, patience_s: float) -> None:
        self.agent = agent
        self.heard: list[Said] = []
        self.pids: set[int] = set()
        self._patience_s = patience_s
        self._changed = asyncio.Event()
        self._over = False

    async def read(self) -> None:
        """Read to the end. The conversation's owner runs it."""
        try:
            async for said in self.agent.said():
                self.heard.append(said)
                self.pids |= {pid for pid in (self.agent.pid,) if pid is not None}
                self._changed.set()
        finally:
            self._over = True
            self._changed.set()

    async def until(self, question: Callable[[], Answer], what: str) -> Answer:
        """Wait until the answer is true; ask whenever something was said."""
        try:
            async with asyncio.timeout(self._patience_s):
                while not (answer := question()):
                    assert not self._over, f"it said all that it had to say, but not {what}: {self.heard}"
                    self._changed.clear()
                    await self._changed.wait()
                return answer
        except TimeoutError:
            raise AssertionError(f"not within {self._patience_s:g} s: {what}; heard: {self.heard}") from None

    async def prompt(self, turn_id: str, text: str) -> None:
        """Begin a turn with one text."""
        await self.within(self.agent.prompt(turn_id, (Part(text=text),)))

    async def ask(self, turn_id: str, text: str) -> Ended:
        """Begin a turn and wait for its end."""
        await self.prompt(turn_id, text)
        return await self.ended(turn_id)

    async def within(self, doing: Awaitable[Answer]) -> Answer:
        """Do something that must not take long."""
        async with asyncio.timeout(self._patience_s):
            return await doing

    def all(self, kind: type[Kind], turn_id: str | None = None) -> list[Kind]:
        """Everything of a kind that was said, of one turn or at all."""
        return [
            said
            for said in self.heard
            if isinstance(said, kind) and (turn_id is None or getattr(said, "turn_id", None) == turn_id)
        ]

    async def first(self, kind: type[Kind], turn_id: str | None = None) -> Kind:
        """The first of a kind, if need be after waiting for it."""
        found = await self.until(lambda: self.all(kind, turn_id), f"{kind.__name__} of {turn_id or 'the agent'}")
        return found[0]

    async def ended(self, turn_id: str) -> Ended:
        """The end of a turn."""
        return await self.first(Ended, turn_id)

    async def exited(self) -> Exited:
        """The end of the agent, after which it says nothing."""
        exited = await self.first(Exited)
        await self.until(lambda: self._over, "the end of what it says")
        return exited

    def reply(self, turn_id: str) -> str:
        """The texts of a turn, joined."""
        return "".join(text.text for text in self.all(Text, turn_id))

    def steers(self, message_id: str) -> list[Steered]:
        """What was told about a steer."""
        return [steered for steered in self.all(Steered) if steered.message_id == message_id]

    def check(self) -> None:
        """What holds at the end of every conversation."""
        exits = self.all(Exited)
        assert len(exits) == 1, f"`Exited` was said {len(exits)} times"
        assert self.heard[-1] is exits[0], f"something was said after `Exited`: {self.heard[-1]}"
        ends = [ended.turn_id for ended in self.all(Ended)]
        assert len(ends) == len(set(ends)), f"a turn ended more than once: {ends}"
        steers = [steered.message_id for steered in self.all(Steered)]
        assert len(steers) == len(set(steers)), f"a steer was told about more than once: {steers}"
        assert self.agent.pid is None or not alive(self.agent.pid), "its process is still there"


class Suite:
    """Tests of an adapter. `peer` is a fixture: override it."""

    @pytest.fixture
    def peer(self) -> Peer:
        """The agent under test, and how it is staged."""
        raise NotImplementedError

    def spec(self, peer: Peer, mark: Mapping[str, str]) -> AgentSpec:
        """What the agent is opened with. The mark in its environment finds whatever it starts."""
        return AgentSpec(
            name=peer.agent.name,
            session_id="ses_contract",
            session_key="contract:1",
            cwd=peer.cwd,
            model=peer.model,
            environment={**peer.environment, **mark},
            place=peer.place,
        )

    @asynccontextmanager
    async def conversation(self, peer: Peer, resume_token: str | None = None) -> AsyncGenerator[Conversation]:
        """An open agent. Afterwards it is closed, and nothing that it started is alive."""
        mark = new_mark()
        async with asyncio.timeout(peer.patience_s):
            running = await peer.agent.open(self.spec(peer, mark), resume_token)
        talk = Conversation(running, peer.patience_s)
        reading = asyncio.get_running_loop().create_task(talk.read())
        try:
            yield talk
        finally:
            await talk.within(running.close(0))
            await asyncio.wait_for(reading, peer.patience_s)
            await eventually(lambda: not marked(mark), what="the end of every process that the agent started")
        talk.check()


def staged(way: Answer | None, what: str) -> Answer:
    """The way to stage something, if there is one; else the test is skipped."""
    if way is None:
        pytest.skip(f"this agent can't be made to {what}")
    return way
