"""The contract suite finds an adapter that breaks the contract: each of these breaks one clause."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.ports.agent import AgentSpec, Capabilities, Ended, Exited, Part, Said, Steered, Text
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.scripted_agent import Ask, Die, Hold, Say, ScriptedAgent, ScriptedConversation, Step


def obey(text: str) -> list[Step]:
    word, _, rest = text.partition(" ")
    gate, _, after = rest.partition(" ")
    steps: dict[str, list[Step]] = {"hold": [Hold(gate), Say(after)], "ask": [Ask(rest)], "die": [Die(3)]}
    return steps.get(word, [Say(text)])


class Broken(ScriptedConversation):
    """A conversation to break."""

    async def said(self) -> AsyncGenerator[Said]:
        async for said in super().said():
            for each in self.told(said):
                yield each

    def told(self, said: Said) -> list[Said]:
        return [said]


class EndsTwice(Broken):
    def told(self, said: Said) -> list[Said]:
        return [said, said] if isinstance(said, Ended) else [said]


class ExitsTwice(Broken):
    def told(self, said: Said) -> list[Said]:
        return [said, said] if isinstance(said, Exited) else [said]


class TalksAfterItsExit(Broken):
    def told(self, said: Said) -> list[Said]:
        return [said, Text(turn_id="turn_1", text="boo")] if isinstance(said, Exited) else [said]


class ForgetsItsSteers(Broken):
    def told(self, said: Said) -> list[Said]:
        return [] if isinstance(said, Steered) else [said]


class ClaimsEverySteer(Broken):
    def told(self, said: Said) -> list[Said]:
        return (
            [Steered(turn_id=said.turn_id, message_id=said.message_id, taken=True)]
            if isinstance(said, Steered)
            else [said]
        )


class SaysEverythingForTheLastTurn(Broken):
    def told(self, said: Said) -> list[Said]:
        return [Text(turn_id=self.prompts[0][0], text=said.text)] if isinstance(said, Text) else [said]


class CancelsWhateverRuns(Broken):
    async def cancel(self, turn_id: str) -> None:
        await super().cancel(self.prompts[-1][0] if self.prompts else turn_id)


class IsDeafToCancels(Broken):
    async def cancel(self, turn_id: str) -> None:
        pass


class AllowsEverything(Broken):
    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        await super().answer(request_id, True, option_id, note)


class ComplainsWhenDead(Broken):
    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        if self._exited:
            raise BrokenPipeError
        await super().prompt(turn_id, parts)


class NeverCloses(Broken):
    async def close(self, patience_s: float) -> None:
        if patience_s:
            await super().close(patience_s)


def of(conversation: type[Broken]) -> ScriptedAgent:
    """An agent whose conversations are broken in that way."""

    class Agent(ScriptedAgent):
        async def open(self, spec: AgentSpec, resume_token: str | None) -> ScriptedConversation:
            opened = conversation(self, spec, resume_token)
            self.conversations.append(opened)
            return opened

    return Agent(obey)


def peer_of(agent: ScriptedAgent, cwd: Path) -> Peer:
    return Peer(
        agent=agent,
        cwd=str(cwd),
        says=lambda word: f"say {word}",
        holds=lambda gate, word: f"hold {gate} {word}",
        release=agent.release,
        asks=lambda question: f"ask {question}",
        dies=lambda code: f"die {code}",
        patience_s=0.3,
    )


suite = AgentContract()
BROKEN: list[tuple[type[Broken], Callable[[Peer], Awaitable[None]]]] = [
    (EndsTwice, suite.test_a_prompt_is_answered_and_its_turn_ends),
    (ExitsTwice, suite.test_a_prompt_is_answered_and_its_turn_ends),
    (TalksAfterItsExit, suite.test_a_prompt_is_answered_and_its_turn_ends),
    (ForgetsItsSteers, suite.test_a_steer_into_a_running_turn_is_answered_in_it),
    (ForgetsItsSteers, suite.test_a_steer_of_a_turn_that_has_ended_is_not_taken),
    (ClaimsEverySteer, suite.test_a_steer_of_a_turn_that_has_ended_is_not_taken),
    (SaysEverythingForTheLastTurn, suite.test_each_answer_belongs_to_its_own_prompt),
    (CancelsWhateverRuns, suite.test_a_cancel_names_its_turn_and_hits_no_other),
    (IsDeafToCancels, suite.test_a_cancelled_turn_ends_and_the_next_prompt_is_answered),
    (IsDeafToCancels, suite.test_a_turn_is_interrupted_in_its_process_by_who_declares_it_and_by_nobody_else),
    (AllowsEverything, suite.test_the_agent_is_told_whether_it_may),
    (ComplainsWhenDead, suite.test_every_call_after_its_death_does_nothing),
    (NeverCloses, suite.test_closing_ends_it_whatever_it_does),
]


@pytest.mark.parametrize(
    ("conversation", "test"), BROKEN, ids=lambda each: getattr(each, "__name__", "").removeprefix("test_")
)
async def test_the_suite_finds_who(conversation: type[Broken], test: Callable[[Peer], Awaitable[None]], tmp_path: Path):
    with pytest.raises((AssertionError, BrokenPipeError, TimeoutError)):
        await test(peer_of(of(conversation), tmp_path))


async def test_the_same_conversation_unbroken_passes(tmp_path: Path):
    for _, test in BROKEN:
        await test(peer_of(of(Broken), tmp_path))


@pytest.mark.parametrize(
    ("lacking", "test"),
    [
        ("usage", suite.test_usage_is_told_by_who_declares_it_and_by_nobody_else),
        ("resume", suite.test_a_conversation_goes_on_in_a_new_process),
    ],
)
async def test_the_suite_finds_who_declares_what_it_does_not_do(lacking: str, test: Any, tmp_path: Path):
    agent = of(Broken)
    peer = replace(peer_of(agent, tmp_path), agent=Pretender(agent, lacking))
    with pytest.raises(AssertionError):
        await test(peer)


@pytest.mark.parametrize(
    ("hidden", "test"),
    [
        ("permissions", suite.test_who_does_not_declare_that_it_asks_never_asks),
        ("interrupt", suite.test_a_turn_is_interrupted_in_its_process_by_who_declares_it_and_by_nobody_else),
        ("usage", suite.test_usage_is_told_by_who_declares_it_and_by_nobody_else),
    ],
)
async def test_the_suite_finds_who_does_what_it_does_not_declare(hidden: str, test: Any, tmp_path: Path):
    agent = of(Broken)
    modest = Pretender(agent, "nothing")
    declared: dict[str, Any] = {name: name != hidden for name in agent.capabilities.__struct_fields__}
    modest.capabilities = Capabilities(**declared)
    with pytest.raises(AssertionError):
        await test(replace(peer_of(agent, tmp_path), agent=modest))


class Pretender:
    """Declares everything; the agent behind it lacks one thing."""

    def __init__(self, agent: ScriptedAgent, lacking: str) -> None:
        self.name, self.capabilities, self._agent = agent.name, agent.capabilities, agent
        lacks: dict[str, Any] = {name: name != lacking for name in agent.capabilities.__struct_fields__}
        agent.capabilities = Capabilities(**lacks)

    async def open(self, spec: AgentSpec, resume_token: str | None) -> ScriptedConversation:
        return await self._agent.open(spec, resume_token)

    async def missing(self) -> str | None:
        return None
