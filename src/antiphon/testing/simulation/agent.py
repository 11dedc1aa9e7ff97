"""Simulated agents: the adapter, and the process that it starts."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from antiphon.core.session import Problem, Usage
from antiphon.ports import agent as port
from antiphon.testing.simulation.machine import Delivered, Machine
from antiphon.testing.simulation.temper import Temper, temper
from antiphon.testing.simulation.wire import LIFE, Life


class SimulatedAgent:
    """An adapter whose agents answer each part of a prompt with the same text in brackets, when nothing prevents it."""

    def __init__(self, name: str, machine: Machine, capabilities: port.Capabilities) -> None:
        self.name = name
        self.capabilities = capabilities
        self._machine = machine

    async def missing(self) -> str | None:
        """It is always there."""
        return None

    async def open(self, spec: port.AgentSpec, resume_token: str | None) -> port.RunningAgent:
        """See `Agent.open`."""
        machine, weather = self._machine, self._machine.weather
        life = _own_life()
        if resume_token and resume_token != f"{spec.session_id}/{spec.generation}":
            machine.ledger.finding(f"P10: {spec.session_id}/{spec.generation} resumes {resume_token}")
        number, up = machine.enter(spec.session_id, life), False
        try:
            await machine.pause(weather.open_slow_s)
            if machine.dice.random() < weather.open_hangs:
                await asyncio.sleep(60)
            if machine.dice.random() < weather.open_fails:
                raise port.OpenFailed("It is not in the mood.")
            up = True
        finally:
            if not up and not life.dead:
                machine.leave(spec.session_id, life)
        return Process(machine, life, spec, number, self.capabilities)


def _own_life() -> Life:
    life = LIFE.get()
    if life is None or life.dead:
        raise asyncio.CancelledError
    return life


class _Turn:
    """A turn that an agent works on."""

    def __init__(
        self, turn_id: str, parts: tuple[port.Part, ...], temper: Temper, *, forgets_to_end: bool = False
    ) -> None:
        self.forgets_to_end = forgets_to_end
        self.id = turn_id
        self.parts = deque(parts)
        self.temper = temper
        self.work: asyncio.Task[None] | None = None
        self.answered: asyncio.Future[bool] | None = None
        self.cancelled = False


class Process:
    """One simulated agent process."""

    def __init__(
        self, machine: Machine, life: Life, spec: port.AgentSpec, number: int, capabilities: port.Capabilities
    ) -> None:
        self.life = life
        self.number = number
        self.pid: int | None = number
        self.resume_token = f"{spec.session_id}/{spec.generation}" if capabilities.resume else None
        self._machine = machine
        self.session_id = spec.session_id
        self._turn: _Turn | None = None
        self._next: _Turn | None = None
        self._alive = True
        self._half_prompted = False
        self._said: deque[port.Said | Exception] = deque()
        self._more = asyncio.Event()
        self._errands: list[asyncio.Task[None]] = []
        machine.settle(spec.session_id, self)
        if machine.dice.random() < machine.weather.dies / 3:
            self._errand(self._die_sometime())

    @property
    def turn_id(self) -> str | None:
        """The turn it works on."""
        return self._turn.id if self._turn else None

    # What its owner does with it

    async def prompt(self, turn_id: str, parts: tuple[port.Part, ...]) -> None:
        """See `RunningAgent.prompt`."""
        _own_life()
        if not self._alive:
            return
        finding = self._machine.ledger.finding
        if self._half_prompted:
            finding(f"P4: agent {self.pid} is prompted after it has read half a prompt")
        self._half_prompted = True
        await self._machine.pause(0.05)
        self._half_prompted = False
        turn = _Turn(turn_id, parts, temper(self._machine.dice, self._machine.weather))
        if turn.temper.prompt_raises:
            raise RuntimeError("the pipe is a pear")
        if not self._alive:
            return
        if self._next or (self._turn and self._turn.id not in self._machine.own):
            finding(f"P1: {turn_id} is begun while {self.turn_id} runs")
        texts = tuple(part.text for part in parts)
        ids, now = tuple(part.message_id for part in parts), self._machine.loop.time()
        self._machine.delivered.append(Delivered(turn_id, ids, texts, pid=self.number, at=now))
        self._machine.trace.note("agent gets", self.pid, turn_id, *texts)
        self._machine.said.setdefault(turn_id, [])
        if self._turn and not (self._turn.forgets_to_end and self._turn.work and self._turn.work.done()):
            self._next = turn
        else:
            self._begin(turn)

    async def steer(self, turn_id: str, message_id: str, parts: tuple[port.Part, ...]) -> None:
        """See `RunningAgent.steer`."""
        _own_life()
        await self._machine.pause(0.02)
        turn = self._turn
        if not self._alive:
            return
        if turn is None or turn.id != turn_id or turn.cancelled:
            self._say(port.Steered(turn_id=turn_id, message_id=message_id, taken=False))
            return
        if turn.temper.steers == "raises":
            raise RuntimeError("the wheel came off")
        if turn.temper.steers == "exit":
            self._exit(7, "steered into a wall")
            return
        taken = turn.temper.steers == "taken"
        if taken:
            texts = tuple(part.text for part in parts)
            self._machine.delivered.append(Delivered(turn_id, (message_id,), texts, steered=True))
            turn.parts.extend(parts)
        self._say(port.Steered(turn_id=turn_id, message_id=message_id, taken=taken))

    async def cancel(self, turn_id: str) -> None:
        """See `RunningAgent.cancel`."""
        _own_life()
        await self._machine.pause(0.02)
        turn = self._next if self._next and self._next.id == turn_id else self._turn
        if turn is None or turn.id != turn_id or turn.cancelled or not self._alive:
            return
        self._machine.trace.note("agent cancels", self.pid, turn_id, turn.temper.on_cancel)
        if turn.temper.on_cancel == "raises":
            raise RuntimeError("cancelled the wrong thing")
        if turn.temper.on_cancel == "never":
            return
        turn.cancelled = True
        if turn.work:
            turn.work.cancel()
        self._errand(self._cut_short(turn))

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        """See `RunningAgent.answer`."""
        _own_life()
        await self._machine.pause(0.02)
        turn = self._turn
        if turn is None or turn.answered is None or request_id != f"ask-{turn.id}" or not self._alive:
            return
        if turn.temper.answer_raises:
            raise RuntimeError("the answer is 42")
        if turn.answered.done():
            if not turn.cancelled:
                self._machine.ledger.finding(f"P4: the question of {turn.id} is answered twice")
            return
        turn.answered.set_result(allow)

    async def close(self, patience_s: float) -> None:
        """See `RunningAgent.close`."""
        _own_life()
        if self._alive:
            await self._machine.pause(patience_s)
        self._exit(0, "closed")

    def said(self) -> AsyncIterator[port.Said]:
        """See `RunningAgent.said`."""
        return _Stream(self)

    # What it does

    def _say(self, said: port.Said | Exception) -> None:
        self._said.append(said)
        self._more.set()

    async def hear(self) -> port.Said:
        """The next thing it says."""
        while not self._said:
            self._more.clear()
            await self._more.wait()
        said = self._said.popleft()
        if isinstance(said, Exception):
            raise said
        return said

    def _errand(self, work: Coroutine[Any, Any, None]) -> None:
        self._errands.append(self._machine.run(work))

    def _begin(self, turn: _Turn) -> None:
        self._turn = turn
        turn.work = self._machine.run(self._work(turn))

    async def _work(self, turn: _Turn) -> None:
        plan, pause = turn.temper, self._machine.pause
        if plan.thinks:
            self._say(port.Thought(turn_id=turn.id, text="hm"))
        if plan.asks:
            await self._ask(turn)
        while turn.parts:
            await self._speak(turn, f"[{turn.parts.popleft().text}]")
        if plan.tool:
            self._say(port.ToolStarted(turn_id=turn.id, tool_id=f"tool-{turn.id}", name="saw"))
            await pause(plan.pause_s)
            self._say(port.ToolEnded(turn_id=turn.id, tool_id=f"tool-{turn.id}"))
        await pause(plan.pause_s)
        while turn.parts:
            await self._speak(turn, f"[{turn.parts.popleft().text}]")
        if turn.forgets_to_end:
            if self._next:
                self._begin_next()
            return
        if plan.end == "exit":
            self._exit(9, "it died")
        elif plan.end == "break":
            self._say(RuntimeError("the adapter tripped"))
        else:
            self._end(turn, error=Problem(code="agent_failed", detail="It failed.") if plan.end == "failed" else None)

    async def _ask(self, turn: _Turn) -> None:
        turn.answered = asyncio.get_running_loop().create_future()
        self._say(port.Asked(turn_id=turn.id, request_id=f"ask-{turn.id}", question="May I?"))
        allowed = await turn.answered
        self._tell(turn, "[allowed]" if allowed else "[denied]")

    async def _speak(self, turn: _Turn, text: str) -> None:
        size = max(1, -(-len(text) // turn.temper.pieces))
        for start in range(0, len(text), size):
            await self._machine.pause(turn.temper.pause_s)
            self._tell(turn, text[start : start + size])

    def _tell(self, turn: _Turn, text: str) -> None:
        self._machine.said[turn.id].append(text)
        self._say(port.Text(turn_id=turn.id, text=text))

    async def _cut_short(self, turn: _Turn) -> None:
        plan = turn.temper
        await self._machine.pause(1.5 if plan.on_cancel == "late" else 0.1)
        if plan.on_cancel == "exit":
            self._exit(5, "cancelled to death")
            return
        if plan.on_cancel == "late":
            self._say(port.Text(turn_id=turn.id, text="[late]"))
        self._end(turn, cancelled=plan.on_cancel != "completes")

    def _end(self, turn: _Turn, *, error: Problem | None = None, cancelled: bool = False) -> None:
        if not self._alive:
            return
        if turn is self._next:
            self._next = None
        else:
            self._turn = None
        ended = port.Ended(turn_id=turn.id, error=error, cancelled=cancelled, usage=Usage(input_tokens=1))
        self._machine.trace.note("agent ends", self.pid, turn.id)
        self._machine.ended.setdefault(turn.id, self._machine.loop.time())
        self._say(ended)
        if turn.temper.again:
            self._say(ended)
        if turn.temper.talks_on:
            self._errand(self._talk_on(turn))
        if self._turn is None and self._next:
            self._begin_next()
        elif turn.temper.begins:
            self._errand(self._begin_by_itself())

    def _begin_next(self) -> None:
        following, self._next = self._next, None
        if following:
            self._begin(following)

    async def _talk_on(self, turn: _Turn) -> None:
        await self._machine.pause(0.3)
        if self._alive:
            self._say(port.Text(turn_id=turn.id, text="[and another thing]"))

    async def _begin_by_itself(self) -> None:
        await self._machine.pause(0.2)
        if not self._alive or self._turn:
            return
        turn_id = self._machine.ids.new("turn")
        self._machine.own.add(turn_id)
        self._machine.said[turn_id] = []
        self._say(port.Began(turn_id=turn_id))
        plan = temper(self._machine.dice, self._machine.weather)
        self._begin(_Turn(turn_id, (port.Part(text="own"),), plan, forgets_to_end=self._machine.dice.random() < 0.2))

    async def _die_sometime(self) -> None:
        await asyncio.sleep(2 * self._machine.dice.random())
        self._exit(11, "it died")

    def _exit(self, code: int, reason: str) -> None:
        if not self._alive:
            return
        self._machine.trace.note("agent exits", self.pid, reason)
        self.perish()
        self._machine.leave(self.session_id, self)
        self._say(port.Exited(exit_code=code, reason=reason))

    def perish(self) -> None:
        """Stop at once, in the middle of whatever it does."""
        self._alive, turn = False, self._turn
        self._turn = self._next = None
        current = asyncio.current_task()
        for task in (*self._errands, *([turn.work] if turn and turn.work else ())):
            if task is not current:
                task.cancel()


class _Stream:
    """Everything a process says; it ends after `Exited`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._over = False

    def __aiter__(self) -> "_Stream":
        return self

    async def __anext__(self) -> port.Said:
        if self._over:
            raise StopAsyncIteration
        said = await self._process.hear()
        self._over = isinstance(said, port.Exited)
        return said
