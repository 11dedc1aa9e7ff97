"""A turn that gets nowhere is told of; one that works in silence is not."""

import asyncio
from typing import Any

import pytest

from antiphon.host.settings import AgentSettings
from antiphon.ports.agent import AgentSpec
from antiphon.ports.vitals import Signs
from antiphon.testing.scripted_agent import Ask, Hold, ScriptedAgent, UseTool
from hostlab.stage import Stage, in_virtual_time, staged

PATIENCE_S = 60.0
PID = 4711


class Machine:
    """A process table: what it shows is said by the test. `busy` is the share of a processor that the agent uses."""

    def __init__(self, *, busy: float = 0.0, ages_s: tuple[float, ...] = (), stopped: bool = False) -> None:
        self.busy, self.ages_s, self.stopped, self.there = busy, ages_s, stopped, True

    def look(self, pid: int) -> Signs | None:
        assert pid == PID
        cpu_s = self.busy * asyncio.get_running_loop().time()
        return Signs(cpu_s=cpu_s, ages_s=self.ages_s, stopped=self.stopped) if self.there else None


class Bodily(ScriptedAgent):
    """A scripted agent with a process."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(lambda _: steps or [Hold("gate")], name="bodily")

    async def open(self, spec: AgentSpec, resume_token: str | None) -> Any:
        return _Bodily(await super().open(spec, resume_token))


class _Bodily:
    pid = PID

    def __init__(self, conversation: Any) -> None:
        self._conversation = conversation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conversation, name)


async def begin(stage: Stage, **fields: Any) -> tuple[str, str]:
    """Start a turn of the agent with a process; its session and its message."""
    session_id = await stage.open(agent="bodily", **fields)
    receipt = await stage.send("k", "go")
    await stage.until(session_id, lambda session: bool(session.running and session.agent_run))
    return session_id, receipt.id


async def status_after(stage: Stage, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return (await stage.host.session("k")).status


@in_virtual_time
async def test_a_turn_that_does_nothing_is_stalled_after_its_patience_and_is_found_by_that() -> None:
    async with staged(Bodily(), vitals=Machine(), stall_after_s=PATIENCE_S) as stage:
        session_id, _ = await begin(stage)
        assert await status_after(stage, PATIENCE_S - 2) == "running"
        assert await status_after(stage, 4) == "stalled"
        found = await stage.host.sessions(statuses=("stalled",))
        assert [session.id for session in found.items] == [session_id]
        assert (await stage.host.sessions(statuses=("running",))).items == ()
        assert (await stage.types(session_id))[-2:] == ["turn.stalled", "session.status"]
        assert await status_after(stage, 10 * PATIENCE_S) == "stalled", "nobody ends it"
        assert (await stage.types(session_id)).count("turn.stalled") == 1


@in_virtual_time
async def test_who_waits_behind_a_stalled_turn_is_told_so() -> None:
    async with staged(Bodily(), vitals=Machine(), stall_after_s=PATIENCE_S) as stage:
        _, message_id = await begin(stage)
        queued = await stage.send("k", "next")
        assert await status_after(stage, PATIENCE_S + 2) == "stalled"
        turn_id = (await stage.host.receipt(message_id)).turn_id
        waits = (await stage.host.receipt(queued.id)).waiting_for
        assert waits == f"turn {turn_id} to end, which is stalled: nothing was heard of it for long"


@in_virtual_time
async def test_without_a_process_table_the_clock_alone_decides() -> None:
    async with staged(Bodily(), stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, PATIENCE_S - 2) == "running"
        assert await status_after(stage, 4) == "stalled"


@in_virtual_time
async def test_a_process_that_works_in_silence_is_not_stalled_until_that_lasts_too_long() -> None:
    async with staged(Bodily(), vitals=Machine(busy=0.5), stall_after_s=PATIENCE_S, busy_stall_after_s=1000) as stage:
        await begin(stage)
        assert await status_after(stage, 990) == "running"
        assert await status_after(stage, 15) == "stalled"


@in_virtual_time
async def test_a_process_that_ceases_to_work_is_stalled_a_patience_later() -> None:
    machine = Machine(busy=0.5)
    async with staged(Bodily(), vitals=machine, stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, 300) == "running"
        machine.busy = 0.0  # what it used so far is gone too, as when a child ends that nobody waited for
        assert await status_after(stage, PATIENCE_S - 20) == "running"
        assert await status_after(stage, 25) == "stalled"


@in_virtual_time
async def test_the_little_that_an_idle_program_uses_is_no_sign_of_life() -> None:
    async with staged(Bodily(), vitals=Machine(busy=0.01), stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, PATIENCE_S + 2) == "stalled"


@pytest.mark.parametrize(("age_s", "expected"), [(1.0, "running"), (10_000.0, "stalled")], ids=["tool", "server"])
@in_virtual_time
async def test_a_tool_in_a_process_of_this_turn_is_a_sign_of_life_and_an_older_helper_is_not(
    age_s: float, expected: str
) -> None:
    agent = Bodily(UseTool("shell", (Hold("gate"),)))
    async with staged(agent, vitals=Machine(ages_s=(age_s,)), stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, 3 * PATIENCE_S) == expected


@in_virtual_time
async def test_a_child_without_a_tool_is_no_sign_of_life() -> None:
    async with staged(Bodily(), vitals=Machine(ages_s=(1.0,)), stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, PATIENCE_S + 2) == "stalled"


@in_virtual_time
async def test_a_stopped_process_is_stalled_whatever_it_used_and_it_is_said() -> None:
    async with staged(Bodily(), vitals=Machine(busy=0.9, stopped=True), stall_after_s=PATIENCE_S) as stage:
        session_id, _ = await begin(stage)
        assert await status_after(stage, PATIENCE_S + 2) == "stalled"
        entries = await stage.store.memory.entries(session_id, after=0, limit=1000)
        [told] = [entry.data["detail"] for entry in entries if entry.type == "turn.stalled"]
        assert f"its process {PID} is stopped" in told


@in_virtual_time
async def test_a_stalled_turn_goes_on_with_the_next_word() -> None:
    agent = Bodily()
    async with staged(agent, vitals=Machine(), stall_after_s=PATIENCE_S) as stage:
        _, message_id = await begin(stage)
        assert await status_after(stage, PATIENCE_S + 2) == "stalled"
        agent.release("gate")
        assert (await stage.end_of(message_id)).state == "answered"
        assert (await stage.host.session("k")).status == "idle"


@in_virtual_time
async def test_who_waits_for_a_person_is_asking_and_not_stalled() -> None:
    async with staged(Bodily(Ask("May I?")), vitals=Machine(), stall_after_s=PATIENCE_S) as stage:
        await begin(stage)
        assert await status_after(stage, 5 * PATIENCE_S) == "asking"


@pytest.mark.parametrize("where", ["session", "agent", "host"])
@in_virtual_time
async def test_a_session_goes_before_its_agent_and_that_before_the_host(where: str) -> None:
    agents = {"bodily": AgentSettings(stall_after_s=20.0 if where == "agent" else None)}
    own = {"stall_after_s": 20.0} if where == "session" else {}
    async with staged(
        Bodily(), vitals=Machine(), stall_after_s=20.0 if where == "host" else 500.0, agents=agents
    ) as stage:
        await begin(stage, settings=own)
        assert await status_after(stage, 15) == "running"
        assert await status_after(stage, 7) == "stalled"


@in_virtual_time
async def test_where_it_is_configured_a_turn_is_failed_after_it_was_stalled_for_so_long() -> None:
    async with staged(Bodily(), vitals=Machine(), stall_after_s=PATIENCE_S, end_stalled_after_s=100.0) as stage:
        _, message_id = await begin(stage)
        assert await status_after(stage, PATIENCE_S + 95) == "stalled"
        end = await stage.end_of(message_id)
        assert end.state == "failed"
        assert end.error
        assert "stalled" in end.error.detail
        assert stage.clock.monotonic() < PATIENCE_S + 110
        again = await stage.send("k", "again")
        await asyncio.sleep(5)
        assert (await stage.host.receipt(again.id)).state == "running", "a new agent has it"
