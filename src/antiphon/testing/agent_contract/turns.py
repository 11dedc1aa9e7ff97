"""Prompts, answers, failures, cancels: to which turn everything belongs, and how it ends."""

import asyncio

import pytest

from antiphon.ports.agent import Ended, Part, Text
from antiphon.testing.agent_contract.staging import Peer, Suite, staged

TEXT = "a\u2028b\u2029c\x85d 😀👩\u200d👩\u200d👧 e\u0301 ключ \"q\" 'r' \\n $HOME %s {x} [[x]]\n\nline\tend"
RACES = 10


class TurnsContract(Suite):
    """Prompts, answers, failures, cancels."""

    async def test_a_prompt_is_answered_and_its_turn_ends(self, peer: Peer) -> None:
        async with self.conversation(peer) as talk:
            ended = await talk.ask("turn_1", peer.says("maple"))
            assert (ended.error, ended.cancelled) == (None, False)
            assert "maple" in talk.reply("turn_1")

    async def test_each_answer_belongs_to_its_own_prompt(self, peer: Peer) -> None:
        words = ("maple", "birch", "willow")
        async with self.conversation(peer) as talk:
            for word in words:
                await talk.ask(f"turn_{word}", peer.says(word))
            for word in words:
                reply = talk.reply(f"turn_{word}")
                assert word in reply
                assert not any(other in reply for other in words if other != word), reply
            assert [ended.turn_id for ended in talk.all(Ended)] == [f"turn_{word}" for word in words]

    async def test_any_text_comes_back_whole(self, peer: Peer) -> None:
        if not peer.verbatim:
            pytest.skip("this agent does not repeat texts")
        long = "é" * 50_000 + "maple"
        async with self.conversation(peer) as talk:
            for turn_id, text in (("turn_1", TEXT), ("turn_2", long)):
                await talk.ask(turn_id, peer.says(text))
                assert text in talk.reply(turn_id)
                assert "\ufffd" not in talk.reply(turn_id)

    async def test_every_part_of_a_prompt_is_heard(self, peer: Peer) -> None:
        if not peer.verbatim:
            pytest.skip("this agent does not repeat texts")
        parts = (Part(text=peer.says("maple")), Part(path="/tmp/birch.txt"), Part(text="willow"))  # noqa: S108
        async with self.conversation(peer) as talk:
            await talk.agent.prompt("turn_1", parts)
            await talk.ended("turn_1")
            assert all(word in talk.reply("turn_1") for word in ("maple", "/tmp/birch.txt", "willow"))  # noqa: S108

    async def test_a_failed_turn_says_why_and_the_next_one_is_answered(self, peer: Peer) -> None:
        fails = staged(peer.fails, "fail")
        async with self.conversation(peer) as talk:
            ended = await talk.ask("turn_1", fails("splinters"))
            assert ended.error
            assert "splinters" in ended.error.detail
            assert ended.error.code.startswith("agent_")
            assert not (await talk.ask("turn_2", peer.says("maple"))).error

    async def test_a_cancelled_turn_ends_and_the_next_prompt_is_answered(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as talk:
            for place in range(3):
                await talk.prompt(f"turn_{place}", holds(f"gate_{place}", "splinters"))
                for _ in range(2):
                    await talk.within(talk.agent.cancel(f"turn_{place}"))
                ended = await talk.ended(f"turn_{place}")
                assert ended.cancelled
                assert "splinters" not in talk.reply(f"turn_{place}")
            assert not (await talk.ask("turn_after", peer.says("maple"))).error
            assert "maple" in talk.reply("turn_after")
            assert "splinters" not in talk.reply("turn_after")

    async def test_a_cancel_names_its_turn_and_hits_no_other(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as talk:
            await talk.within(talk.agent.cancel("turn_that_never_was"))
            await talk.ask("turn_1", peer.says("birch"))
            await talk.prompt("turn_2", holds("gate", "maple"))
            await talk.within(talk.agent.cancel("turn_1"))
            await talk.within(talk.agent.cancel("turn_that_never_was"))
            peer.release("gate")
            ended = await talk.ended("turn_2")
            assert (ended.error, ended.cancelled) == (None, False)
            assert "maple" in talk.reply("turn_2")

    async def test_a_cancel_at_the_moment_of_the_end_leaves_one_end(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as talk:
            for place in range(RACES):
                turn_id = f"turn_{place}"
                await talk.prompt(turn_id, holds(f"gate_{place}", f"maple_{place}"))
                peer.release(f"gate_{place}")
                for _ in range(place):
                    await asyncio.sleep(0.002)
                await talk.within(talk.agent.cancel(turn_id))
                ended = await talk.ended(turn_id)
                assert ended.cancelled or f"maple_{place}" in talk.reply(turn_id)
            await talk.ask("turn_after", peer.says("birch"))
            assert "birch" in talk.reply("turn_after")

    async def test_a_late_answer_carries_the_turn_that_it_belongs_to(self, peer: Peer) -> None:
        late = staged(peer.late, "answer after a cancel")
        async with self.conversation(peer) as talk:
            await talk.prompt("turn_1", late("gate", "splinters"))
            await talk.first(Text, "turn_1")
            await talk.within(talk.agent.cancel("turn_1"))
            await talk.ended("turn_1")
            await talk.ask("turn_2", peer.says("maple"))
            await talk.until(lambda: "splinters" in talk.reply("turn_1"), "the late answer")
            assert "splinters" not in talk.reply("turn_2")
            assert {text.turn_id for text in talk.all(Text)} == {"turn_1", "turn_2"}

    async def test_two_conversations_do_not_disturb_each_other(self, peer: Peer) -> None:
        holds = staged(peer.holds, "hold")
        async with self.conversation(peer) as held, self.conversation(peer) as other:
            await held.prompt("turn_1", holds("gate", "maple"))
            await other.ask("turn_2", peer.says("birch"))
            assert "birch" in other.reply("turn_2")
            await other.within(other.agent.close(1))
            assert not held.all(Ended)
            peer.release("gate")
            await held.ended("turn_1")
            assert "maple" in held.reply("turn_1")
            assert not held.reply("turn_2")
