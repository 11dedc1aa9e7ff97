"""The scripted agent does what its script says (that it keeps the port's contract is tested elsewhere)."""

import asyncio
from collections.abc import Iterable

import pytest

from antiphon.ports.agent import (
    AgentSpec,
    Began,
    Ended,
    Exited,
    OpenFailed,
    Part,
    Said,
    Text,
    Thought,
    ToolEnded,
    Wrote,
)
from antiphon.testing.scripted_agent import (
    Fail,
    Hold,
    Say,
    ScriptedAgent,
    ScriptedConversation,
    Step,
    Think,
    UseTool,
    Wait,
)

SPEC = AgentSpec(name="scripted", session_id="ses_1", cwd="/")


class SlowClock:
    """A clock whose sleepers wait for `pass_on`."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.cut_short = 0
        self.sleeping = asyncio.Event()
        self._over = asyncio.Event()

    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.sleeping.set()
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            self.cut_short += 1
            raise

    def pass_on(self) -> None:
        self._over.set()


async def heard(conversation: ScriptedConversation, until: type[Said]) -> list[Said]:
    """What is said up to the first of that kind."""
    said: list[Said] = []
    async with asyncio.timeout(5):
        async for each in conversation.said():
            said.append(each)
            if isinstance(each, until):
                break
    return said


def texts(said: Iterable[Said]) -> str:
    return "".join(each.text for each in said if isinstance(each, Text))


async def played(*steps: Step) -> list[Said]:
    agent = ScriptedAgent(lambda _: steps)
    conversation = await agent.open(SPEC, None)
    await conversation.prompt("turn_1", (Part(text="go"),))
    return await heard(conversation, Ended)


async def test_steps_are_played_in_their_order():
    said = await played(Think("hm"), UseTool("saw", (Say("zzz"),)), Say(" done"))
    assert said[0] == Thought(turn_id="turn_1", text="hm")
    assert texts(said) == "zzz done"
    kinds = [type(each) for each in said]
    assert kinds.index(ToolEnded) == kinds.index(Text) + 1, "the tool ends after what it does"


async def test_a_failure_ends_the_turn_where_it_is():
    said = await played(Say("part"), Fail("no more", code="agent_unavailable"), Say("never"))
    ended = said[-1]
    assert isinstance(ended, Ended)
    assert ended.error
    assert (ended.error.code, ended.error.detail) == ("agent_unavailable", "no more")
    assert texts(said) == "part"


async def test_time_passes_by_the_clock_it_was_given():
    clock = SlowClock()
    agent = ScriptedAgent(lambda _: [Wait(3600), Say("later")], clock=clock)
    conversation = await agent.open(SPEC, None)
    await conversation.prompt("turn_1", (Part(text="go"),))
    reading = asyncio.create_task(heard(conversation, Ended))
    await asyncio.wait_for(clock.sleeping.wait(), 5)
    assert not reading.done()
    clock.pass_on()
    assert texts(await reading) == "later"
    assert clock.asked == [3600]


async def test_a_cancel_cuts_a_wait_short_and_leaves_no_sleeper():
    clock = SlowClock()
    agent = ScriptedAgent(lambda _: [Wait(3600), Say("never")], clock=clock)
    conversation = await agent.open(SPEC, None)
    await conversation.prompt("turn_1", (Part(text="go"),))
    reading = asyncio.create_task(heard(conversation, Ended))
    await asyncio.wait_for(clock.sleeping.wait(), 5)
    await conversation.cancel("turn_1")
    said = await reading
    assert isinstance(said[-1], Ended)
    assert said[-1].cancelled
    assert texts(said) == ""
    assert clock.cut_short == 1


async def test_a_gate_stays_open_for_who_comes_later():
    agent = ScriptedAgent(lambda _: [Hold("gate"), Say("through")])
    agent.release("gate")
    conversation = await agent.open(SPEC, None)
    await conversation.prompt("turn_1", (Part(text="go"),))
    assert texts(await heard(conversation, Ended)) == "through"


async def test_it_can_begin_a_turn_by_itself_and_make_remarks():
    conversation = await ScriptedAgent().open(SPEC, None)
    conversation.write("retrying")
    conversation.begin("turn_own", Say("by the way"))
    said = await heard(conversation, Ended)
    assert [type(each) for each in said[:2]] == [Wrote, Began]
    assert texts(said) == "by the way"
    assert isinstance(said[-1], Ended)
    assert (said[-1].turn_id, said[-1].error, said[-1].cancelled) == ("turn_own", None, False)


async def test_it_can_die_from_outside():
    conversation = await ScriptedAgent(lambda _: [Hold("never")]).open(SPEC, None)
    await conversation.prompt("turn_1", (Part(text="go"),))
    reading = asyncio.create_task(heard(conversation, Exited))
    conversation.die(7, "worn out")
    assert (await reading)[-1] == Exited(exit_code=7, reason="died", detail="worn out")


async def test_it_can_refuse_to_open():
    agent = ScriptedAgent()
    agent.refusal = "There is no such agent; plant one."
    assert await agent.missing() == agent.refusal
    with pytest.raises(OpenFailed, match="plant one"):
        await agent.open(SPEC, None)


async def test_it_can_take_its_time_to_open():
    agent = ScriptedAgent()
    agent.opening.clear()
    opening = asyncio.create_task(agent.open(SPEC, None))
    await asyncio.sleep(0)
    assert not opening.done()
    agent.opening.set()
    assert await opening in agent.conversations


async def test_it_remembers_what_it_was_told():
    agent = ScriptedAgent()
    conversation = await agent.open(SPEC, "conversation of old")
    await conversation.prompt("turn_1", (Part(text="one"), Part(text="two"), Part(path="/a")))
    await conversation.cancel("turn_0")
    assert conversation.prompts == [("turn_1", "one\n\ntwo\n/a")]
    assert conversation.cancels == ["turn_0"]
    assert (conversation.resumed_from, conversation.resume_token) == ("conversation of old", "conversation of old")
