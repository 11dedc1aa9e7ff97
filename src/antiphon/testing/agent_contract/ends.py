"""How a conversation ends: by itself, by its owner, in the middle of everything; and that nothing of it is left."""

import asyncio
import os
import signal

import pytest

from antiphon.ports.agent import Ended, Exited, Part, RunningAgent, Text
from antiphon.testing.agent_contract.staging import Conversation, Peer, Suite, staged
from antiphon.testing.processes import alive, eventually, marked, new_mark

OPENING_CUT_AFTER_S = (0, 0.005, 0.02, 0.05, 0.1, 0.2)
SLACK_S = 3.0
"""How much longer than its patience a `close` may take: what is killed must also be reaped."""


class EndsContract(Suite):
    """How a conversation ends."""

    async def test_the_agent_says_that_it_is_there(self, peer: Peer) -> None:
        assert await peer.agent.missing() is None

    async def test_its_process_is_alive_while_it_is_open(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            assert talk.agent.pid is None or alive(talk.agent.pid)
            await talk.within(talk.agent.close(1))
            assert talk.agent.pid is None
            assert not any(map(alive, talk.pids))

    # By itself

    async def test_an_agent_that_dies_says_so_last(self, peer: Peer) -> None:
        dies = staged(peer.dies, "die")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", dies(3))
            exited = await talk.exited()
            assert exited.exit_code in (3, None)
            assert not talk.all(Ended)

    async def test_every_call_after_its_death_does_nothing(self, peer: Peer) -> None:
        dies = staged(peer.dies, "die")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", dies(3))
            await talk.exited()
            await self.call_everything(talk)
            assert isinstance(talk.heard[-1], Exited)

    async def test_an_agent_that_is_killed_from_outside_says_so(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", holds("gate", "maple"))
            pid = await self.pid_of(talk)
            os.kill(pid, signal.SIGKILL)
            await talk.until(lambda: talk.all(Exited) or talk.all(Ended), "its end")
            ends = talk.all(Ended)
            assert not ends or ends[0].error

    async def pid_of(self, talk: Conversation) -> int:
        """Its process, which may need a moment to start."""
        try:
            return await eventually(lambda: talk.agent.pid, within_s=2) or 0
        except AssertionError:
            pytest.skip("this agent has no process")

    # By its owner

    async def test_closing_ends_it_whatever_it_does(self, peer: Peer) -> None:
        for patience_s in (0, 0.5):
            async with self.conversation(peer) as talk:
                await talk.ask("turn_1", peer.says("maple"))
                await self.closed_in_time(talk.agent, patience_s)
                await talk.exited()
            if peer.holds:
                async with self.conversation(peer) as talk:
                    await talk.prompt("turn_1", peer.holds(f"gate_{patience_s}", "maple"))
                    await self.closed_in_time(talk.agent, patience_s)
                    await talk.exited()
                    assert "maple" not in talk.reply("turn_1")

    async def test_closing_before_the_first_word_ends_it(self, peer: Peer) -> None:
        for patience_s in (0, 0.5):
            async with self.conversation(peer) as talk:
                await self.closed_in_time(talk.agent, patience_s)
                await talk.exited()

    async def test_closing_right_after_a_prompt_ends_it(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", peer.says("maple"))
            await self.closed_in_time(talk.agent, 0.5)
            await talk.exited()

    async def test_closing_again_and_at_the_same_time_is_closing_once(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            closings = (talk.agent.close(1), talk.agent.close(0), talk.agent.close(1))
            await talk.within(asyncio.gather(*closings))
            await talk.within(talk.agent.close(1))
            await talk.exited()
            await self.call_everything(talk)

    async def test_a_cancelled_close_can_be_asked_for_again(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", peer.stubborn("gate") if peer.stubborn else peer.says("maple"))
            await talk.first(Text, "turn_1")
            for _ in range(2):
                closing = asyncio.get_running_loop().create_task(talk.agent.close(30))
                await asyncio.wait([closing], timeout=0.02)
                closing.cancel()
                await asyncio.wait([closing])
            await self.closed_in_time(talk.agent, 0)
            await talk.exited()

    async def test_an_agent_that_ignores_every_polite_word_is_closed_in_time(self, peer: Peer) -> None:
        stubborn = staged(peer.stubborn, "ignore a cancel")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", stubborn("gate"))
            await talk.first(Text, "turn_1")
            await talk.within(talk.agent.cancel("turn_1"))
            await self.closed_in_time(talk.agent, 0.5)
            await talk.exited()

    async def test_what_it_started_ends_with_it(self, peer: Peer) -> None:
        spawns = staged(peer.spawns, "leave a process behind")
        mark = new_mark()
        running = await peer.agent.open(self.spec(peer, mark), None)
        talk = Conversation(running, peer.patience_s)
        reading = asyncio.get_running_loop().create_task(talk.read())
        await talk.ask("turn_1", spawns())
        assert len(marked(mark)) > 1
        await self.closed_in_time(running, 0.5)
        assert not marked(mark)
        await asyncio.wait_for(reading, peer.patience_s)
        talk.check()

    async def test_a_cancelled_open_leaves_nothing_running(self, peer: Peer) -> None:
        mark = new_mark()
        for delay_s in OPENING_CUT_AFTER_S:
            opening = asyncio.get_running_loop().create_task(peer.agent.open(self.spec(peer, mark), None))
            await asyncio.wait([opening], timeout=delay_s)
            opening.cancel()
            await asyncio.wait([opening])
            if not opening.cancelled():
                await self.closed_in_time(opening.result(), 0)
            await eventually(lambda: not marked(mark), what=f"nothing alive, {delay_s} s into the opening")

    async def closed_in_time(self, agent: RunningAgent, patience_s: float) -> None:
        """Close it; that must not take much longer than the patience."""
        async with asyncio.timeout(patience_s + SLACK_S):
            await agent.close(patience_s)

    async def call_everything(self, talk: Conversation) -> None:
        """Every method, on an agent that is gone."""
        agent, parts = talk.agent, (Part(text="hello"),)
        await talk.within(agent.prompt("turn_dead", parts))
        await talk.within(agent.steer("turn_dead", "msg_dead", parts))
        await talk.within(agent.cancel("turn_dead"))
        await talk.within(agent.answer("request_dead", True, None, None))
        await talk.within(agent.close(1))
        assert agent.pid is None
