"""What an adapter declares and therefore does: steers, permissions, resumption, usage."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.ports.agent import Asked, Ended, Exited, Part, Resumable, Used
from antiphon.testing.agent_contract.staging import Conversation, Peer, Suite, staged

RACES = 10


class PeopleContract(Suite):
    """What an adapter declares."""

    # Steers

    async def test_a_steer_into_a_running_turn_is_answered_in_it(self, peer: Peer) -> None:
        holds = self.steerable(peer)
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", holds("gate", "maple"))
            await self.steer(talk, "turn_1", "msg_1", peer.says("birch"))
            peer.release("gate")
            ended = await talk.ended("turn_1")
            told = talk.steers("msg_1")
            assert [(steered.turn_id, steered.taken) for steered in told] == [("turn_1", True)]
            assert talk.heard.index(told[0]) < talk.heard.index(ended)
            assert "maple" in talk.reply("turn_1")
            assert "birch" in talk.reply("turn_1")

    async def test_a_steer_of_a_turn_that_has_ended_is_not_taken(self, peer: Peer) -> None:
        self.steerable(peer)
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            await self.steer(talk, "turn_1", "msg_1", peer.says("birch"))
            (steered,) = await talk.until(lambda: talk.steers("msg_1"), "what became of the steer")
            assert not steered.taken
            await talk.ask("turn_2", peer.says("willow"))
            assert "birch" not in talk.reply("turn_1") + talk.reply("turn_2")

    async def test_a_steer_at_the_moment_of_the_end_is_told_once_and_before_it(self, peer: Peer) -> None:
        holds = self.steerable(peer)
        async with self.conversation(peer) as talk:
            for place in range(RACES):
                turn_id, message_id, word = f"turn_{place}", f"msg_{place}", f"birch_{place}"
                await talk.prompt(turn_id, holds(f"gate_{place}", "maple"))
                peer.release(f"gate_{place}")
                for _ in range(place):
                    await asyncio.sleep(0.003)
                await self.steer(talk, turn_id, message_id, peer.says(word))
                ended = await talk.ended(turn_id)
                steered = (await talk.until(lambda m=message_id: talk.steers(m), "what became of the steer"))[0]
                told_before = talk.heard.index(steered) < talk.heard.index(ended)
                # The end may be said, and not be heard yet, when the steer comes: then it is not taken.
                assert told_before or not steered.taken, "taken after the end"
                assert steered.taken == (word in talk.reply(turn_id))

    def steerable(self, peer: Peer) -> Callable[[str, str], str]:
        """How to hold a turn of an agent that takes steers."""
        if not peer.agent.capabilities.steer:
            pytest.skip("this agent takes no steers")
        return staged(peer.holds, "hold")

    async def steer(self, talk: Conversation, turn_id: str, message_id: str, text: str) -> None:
        """Hand a message to a turn."""
        await talk.within(talk.agent.steer(turn_id, message_id, (Part(text=text, message_id=message_id),)))

    # Permissions

    async def test_the_agent_is_told_whether_it_may(self, peer: Peer) -> None:
        asks = self.asking(peer)
        async with self.conversation(peer) as talk:
            for allow, turn_id in ((True, "turn_allowed"), (False, "turn_denied")):
                await talk.prompt(turn_id, asks("may I fell the maple"))
                asked = await talk.first(Asked, turn_id)
                assert "may I fell the maple" in asked.question
                await talk.within(talk.agent.answer(asked.request_id, allow, None, None))
                ended = await talk.ended(turn_id)
                assert ended.error is None or not allow
            allowed, denied = (talk.all(Ended, turn_id)[0] for turn_id in ("turn_allowed", "turn_denied"))
            told = denied.error or denied.cancelled or talk.reply("turn_denied") != talk.reply("turn_allowed")
            assert told, f"nothing shows that it was denied: {allowed}, {denied}"

    async def test_an_answer_counts_once_and_only_for_its_question(self, peer: Peer) -> None:
        asks = self.asking(peer)
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", asks("may I fell the maple"))
            asked = await talk.first(Asked, "turn_1")
            await talk.within(talk.agent.answer("no such request", True, None, None))
            assert not talk.all(Ended)
            await talk.within(talk.agent.answer(asked.request_id, True, None, "by all means"))
            await talk.within(talk.agent.answer(asked.request_id, False, None, None))
            assert not (await talk.ended("turn_1")).error
            await talk.within(talk.agent.answer(asked.request_id, False, None, None))
            assert not (await talk.ask("turn_2", peer.says("birch"))).error

    async def test_a_cancel_settles_a_question(self, peer: Peer) -> None:
        asks = self.asking(peer)
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", asks("may I fell the maple"))
            asked = await talk.first(Asked, "turn_1")
            await talk.within(talk.agent.cancel("turn_1"))
            assert (await talk.ended("turn_1")).cancelled
            await talk.within(talk.agent.answer(asked.request_id, True, None, None))
            await talk.ask("turn_2", peer.says("birch"))
            assert "birch" in talk.reply("turn_2")

    async def test_who_does_not_declare_that_it_asks_never_asks(self, peer: Peer) -> None:
        asks = staged(peer.asks, "ask")
        if peer.agent.capabilities.permissions:
            pytest.skip("this agent asks")
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", asks("may I fell the maple"))
            assert not talk.all(Asked)

    def asking(self, peer: Peer) -> Callable[[str], str]:
        """How to make an agent ask that does ask."""
        if not peer.agent.capabilities.permissions:
            pytest.skip("this agent does not ask")
        return staged(peer.asks, "ask")

    # Interruption, resumption, forgetting, usage

    async def test_a_turn_is_interrupted_in_its_process_by_who_declares_it_and_by_nobody_else(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", holds("gate", "maple"))
            await talk.within(talk.agent.cancel("turn_1"))
            if not peer.agent.capabilities.interrupt:
                peer.release("gate")
            ended = await talk.ended("turn_1")
            assert ended.cancelled == peer.agent.capabilities.interrupt
            assert not talk.all(Exited), "a cancel is no end of the agent"
            await talk.ask("turn_2", peer.says("birch"))
            assert "birch" in talk.reply("turn_2")

    async def test_who_declares_that_it_forgets_a_cancelled_turn_forgets_it(self, peer: Peer) -> None:
        holds, recalls = staged(peer.holds, "hold"), staged(peer.recalls, "recall")
        if not peer.agent.capabilities.rollback:
            pytest.skip("this agent forgets nothing")
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            await talk.prompt("turn_2", holds("gate", "splinters"))
            await talk.within(talk.agent.cancel("turn_2"))
            await talk.ended("turn_2")
            await talk.ask("turn_3", recalls())
            assert "maple" in talk.reply("turn_3")
            assert "splinters" not in talk.reply("turn_3")

    async def test_a_conversation_goes_on_in_a_new_process(self, peer: Peer) -> None:
        if not peer.agent.capabilities.resume:
            pytest.skip("this agent can't resume")
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            token = talk.agent.resume_token
            assert token
            assert all(told.resume_token == token for told in talk.all(Resumable)[-1:])
            await talk.within(talk.agent.close(peer.patience_s / 2))
        async with self.conversation(peer, token) as talk:
            assert not (await talk.ask("turn_2", peer.says("birch"))).error
            assert "birch" in talk.reply("turn_2")
            if peer.recalls:
                await talk.ask("turn_3", peer.recalls())
                assert "maple" in talk.reply("turn_3")

    async def test_a_conversation_goes_on_after_its_process_was_killed(self, peer: Peer) -> None:
        dies = staged(peer.dies, "die")
        if not peer.agent.capabilities.resume:
            pytest.skip("this agent can't resume")
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            token = talk.agent.resume_token
            await talk.prompt("turn_2", dies(9))
            await talk.first(Exited)
        async with self.conversation(peer, token) as talk:
            assert not (await talk.ask("turn_3", peer.says("birch"))).error

    async def test_no_token_is_given_by_who_cannot_resume(self, peer: Peer) -> None:
        if peer.agent.capabilities.resume:
            pytest.skip("this agent can resume")
        async with self.conversation(peer) as talk:
            await talk.ask("turn_1", peer.says("maple"))
            assert talk.agent.resume_token is None
            assert not talk.all(Resumable)

    async def test_usage_is_told_by_who_declares_it_and_by_nobody_else(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            ended = await talk.ask("turn_1", peer.says("maple"))
            told = [said.usage for said in talk.all(Used, "turn_1")] + [ended.usage]
            used = [usage for usage in told if usage and usage.input_tokens + usage.output_tokens > 0]
            assert bool(used) == peer.agent.capabilities.usage
