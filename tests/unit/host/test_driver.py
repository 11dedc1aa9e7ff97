"""What the driver makes of agents that do as they should, and of those that do not."""

import asyncio
from typing import Any

import pytest

from antiphon.core.errors import NotFound, PermissionAnswered, StoreUnavailable, TurnEnded
from antiphon.ports import agent as port
from antiphon.ports.agent import Capabilities
from antiphon.ports.store import StoreDamaged
from antiphon.testing.scripted_agent import (
    Ask,
    Die,
    Hold,
    IgnoreCancel,
    Say,
    SayAfterEnd,
    ScriptedAgent,
    ScriptedConversation,
    UseTool,
    Wait,
)
from hostlab.stage import Awkward, Stage, in_virtual_time, staged

pytestmark = pytest.mark.filterwarnings("error")


async def turn_of(stage: Stage, message_id: str) -> str:
    """The turn that a message runs in, once it does."""
    receipt = await stage.host.receipt(message_id)
    session = await stage.until(receipt.session_id, lambda session: session.running is not None)
    assert session.running is not None
    return session.running.turn.id


# A cancel at every stage of a turn


@in_virtual_time
async def test_a_cancel_while_the_agent_opens_ends_the_turn_at_once_and_leaves_no_agent() -> None:
    async with staged() as stage:
        await stage.open()
        stage.agent.opening.clear()
        receipt = await stage.send("k", "hello")
        done = await stage.host.cancel_turn(await turn_of(stage, receipt.id))
        assert (done.state, done.confirmed, stage.agent.conversations) == ("cancelled", True, [])
        assert stage.clock.monotonic() < 1
        stage.agent.opening.set()
        assert (await stage.ask("k", "next")).reply == "answer to next"
        assert stage.prompts() == ["next"]


@in_virtual_time
async def test_a_cancel_in_the_middle_of_a_prompt_ends_the_agent_which_is_never_spoken_to_again() -> None:
    halves: list[str] = []

    async def half_a_prompt(conversation: ScriptedConversation, turn_id: str, parts: Any) -> None:
        if not halves:
            halves.append(turn_id)
            await asyncio.sleep(3600)
        await conversation.prompt(turn_id, parts)

    agent = Awkward(prompt=half_a_prompt)
    async with staged(agent) as stage:
        await stage.open(agent="awkward")
        receipt = await stage.send("k", "hello")
        turn_id = await turn_of(stage, receipt.id)
        await asyncio.sleep(1)
        done = await stage.host.cancel_turn(turn_id)
        assert (done.state, done.confirmed, halves) == ("cancelled", True, [turn_id])
        assert stage.clock.monotonic() < 1.5, "it is not asked whether it would stop"
        assert (await stage.ask("k", "next")).reply == "answer to next"
        assert agent.conversations[0].prompts == []
        assert len(agent.conversations) == 2


@in_virtual_time
async def test_a_cancel_of_a_turn_that_has_ended_does_not_touch_the_prompt_of_the_next() -> None:
    slow = asyncio.Event()

    async def slow_prompt(conversation: ScriptedConversation, turn_id: str, parts: Any) -> None:
        await slow.wait()
        await conversation.prompt(turn_id, parts)

    agent = Awkward(prompt=slow_prompt)
    async with staged(agent) as stage:
        await stage.open(agent="awkward")
        slow.set()
        first = await stage.ask("k", "first")
        slow.clear()
        second = await stage.send("k", "second")
        await turn_of(stage, second.id)
        assert first.turn_id is not None
        with pytest.raises(TurnEnded):
            await stage.host.cancel_turn(first.turn_id)
        driver = stage.actor(first.session_id)._driver
        await driver._stop_turn(first.turn_id)  # as of a cancel that the end has overtaken
        slow.set()
        assert (await stage.end_of(second.id)).reply == "answer to second"


@in_virtual_time
async def test_an_agent_that_ignores_a_cancel_is_ended_and_the_cancel_confirmed_once_it_is() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: (
            [Say("so far "), IgnoreCancel(), Hold("never")] if text == "a" else [Say(text)]
        )
        held = await stage.hold("k" if await stage.open() else "", "a")
        assert held.turn_id is not None
        began = stage.clock.monotonic()
        done = await stage.host.cancel_turn(held.turn_id)
        assert (done.state, done.confirmed) == ("cancelled", True)
        assert 1.0 <= stage.clock.monotonic() - began < 3.0
        assert (await stage.host.receipt(held.id)).reply == "so far "
        assert (await stage.ask("k", "b")).reply == "b"


@in_virtual_time
async def test_a_cancel_beside_a_deletion_is_confirmed_only_when_the_agent_is_gone() -> None:
    closing = asyncio.Event()

    async def slow_close(conversation: ScriptedConversation, patience_s: float) -> None:
        await closing.wait()
        await conversation.close(patience_s)

    agent = Awkward(close=slow_close)
    async with staged(agent) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        assert held.turn_id is not None
        cancelling = asyncio.ensure_future(stage.host.cancel_turn(held.turn_id))
        deleting = asyncio.ensure_future(stage.host.delete_session("k"))
        await asyncio.sleep(0.2)
        stage.agent.release("hold")
        assert not cancelling.done() or agent.conversations[0]._turn is None
        closing.set()
        assert (await cancelling).confirmed
        await deleting


@in_virtual_time
async def test_what_is_said_after_the_end_of_a_turn_is_in_no_answer() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Say(text), SayAfterEnd("afterthought")]
        await stage.open()
        assert [(await stage.ask("k", text)).reply for text in ("a", "b", "c")] == ["a", "b", "c"]


# Agents that die


@in_virtual_time
async def test_an_agent_that_died_while_idle_is_replaced_for_the_next_message() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        stage.conversation().die()
        await stage.until_away(session_id)
        assert (await stage.ask("k", "second")).reply == "answer to second"
        assert len(stage.agent.conversations) == 2


@in_virtual_time
async def test_an_agent_that_dies_as_a_message_arrives_leaves_no_message_without_an_end() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.ask("k", "first")
        sending = asyncio.ensure_future(stage.send("k", "second"))
        stage.conversation().die()
        end = await stage.end_of((await sending).id)
        assert end.state in ("answered", "failed")
        assert (await stage.ask("k", "third")).reply == "answer to third"


@in_virtual_time
async def test_an_agent_that_dies_in_its_turn_fails_it_with_what_it_said_and_its_exit_code() -> None:
    async with staged() as stage:
        stage.agent.script = lambda text: [Say("so far"), Die(3)] if text == "a" else [Say(text)]
        await stage.open()
        end = await stage.ask("k", "a")
        assert (end.state, end.reply) == ("failed", "so far")
        assert end.error is not None
        assert (end.error.code, "with code 3" in end.error.detail) == ("agent_failed", True)
        assert (await stage.ask("k", "b")).reply == "b"


@in_virtual_time
async def test_an_agent_that_dies_in_a_tool_ends_the_tool_with_the_turn() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [UseTool("saw", (Die(),))]
        session_id = await stage.open()
        await stage.ask("k", "a")
        types = await stage.types(session_id)
        assert types.count("turn.tool_started") == types.count("turn.tool_ended") == 1


# Agents that can't be opened


@in_virtual_time
async def test_an_agent_that_can_not_be_opened_fails_the_message_and_the_next_tries_afresh() -> None:
    async with staged() as stage:
        await stage.open()
        stage.agent.refusal = "Install it: pip install it."
        end = await stage.ask("k", "a")
        assert end.error is not None
        assert (end.state, end.error.code, end.error.detail) == ("failed", "agent_unavailable", stage.agent.refusal)
        stage.agent.refusal = None
        assert (await stage.ask("k", "b")).reply == "answer to b"


@in_virtual_time
async def test_an_agent_that_does_not_open_in_time_fails_the_message() -> None:
    async with staged(open_timeout_s=5.0) as stage:
        await stage.open()
        stage.agent.opening.clear()
        end = await stage.ask("k", "a")
        assert end.error is not None
        assert (end.state, end.error.code) == ("failed", "agent_unavailable")
        assert 5.0 <= stage.clock.monotonic() < 6.0


@in_virtual_time
async def test_an_agent_that_the_host_does_not_know_fails_the_message() -> None:
    async with staged() as stage:
        other = ScriptedAgent(name="other")
        stage.host.context.agents["other"] = other  # pyright: ignore[reportIndexIssue]
        await stage.open(agent="other")
        del stage.host.context.agents["other"]  # pyright: ignore[reportIndexIssue]
        end = await stage.ask("k", "a")
        assert end.error is not None
        assert end.error.code == "agent_unavailable"


@in_virtual_time
async def test_a_message_whose_text_can_not_be_read_fails_and_the_next_runs() -> None:
    async with staged(max_agents=1) as stage:
        session_id = await stage.open()
        await stage.open("other")
        held = await stage.hold("other")
        stage.actor(session_id)
        waiting = await stage.send("k", "x" * 100_000)

        async def damaged(method: str) -> None:
            if method == "messages":
                raise StoreDamaged("It can't be read.")

        stage.store.reading = damaged
        stage.agent.release("hold")
        await stage.end_of(held.id)
        end = await stage.end_of(waiting.id)
        assert end.error is not None
        assert (end.state, end.error.code) == ("failed", "agent_unavailable")
        stage.store.reading = None
        assert (await stage.ask("k", "next")).reply == "answer to next"


@in_virtual_time
async def test_a_message_whose_text_can_not_be_read_just_now_waits_for_the_store() -> None:
    async with staged(max_agents=1) as stage:
        await stage.open()
        text = "x" * 100_000
        away = [True]

        async def unreadable(method: str) -> None:
            if method == "messages" and away:
                raise StoreUnavailable("It is away.")

        stage.store.reading = unreadable
        receipt = await stage.send("k", text)
        await asyncio.sleep(30)
        away.clear()
        assert (await stage.end_of(receipt.id)).reply == f"answer to {text}"
        assert stage.prompts() == [text]


# A session that goes away under its agent


@in_virtual_time
async def test_a_deletion_while_the_agent_opens_breaks_the_opening_off() -> None:
    async with staged() as stage:
        await stage.open()
        stage.agent.opening.clear()
        receipt = await stage.send("k", "hello")
        waiter = asyncio.ensure_future(stage.host.wait_message(receipt.id, None))
        await turn_of(stage, receipt.id)
        await stage.host.delete_session("k")
        assert stage.clock.monotonic() < 1
        assert (await waiter).state == "cancelled"
        stage.agent.opening.set()
        assert (stage.agent.conversations, (await stage.host.status()).agents_open) == ([], 0)


@in_virtual_time
async def test_a_deletion_while_an_idle_agent_is_about_to_be_prompted_ends_the_agent() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.ask("k", "first")
        reading, gate = asyncio.Event(), asyncio.Event()

        async def slow(method: str) -> None:
            if method == "messages":
                reading.set()
                await gate.wait()

        stage.store.reading = slow
        await stage.send("k", "x" * 100_000)
        await reading.wait()
        await stage.host.delete_session("k")
        assert stage.clock.monotonic() < 2
        assert (await stage.host.status()).agents_open == 0
        assert stage.prompts() == ["first"]
        gate.set()


@in_virtual_time
async def test_a_deletion_in_the_middle_of_a_prompt_ends_the_agent() -> None:
    async def never(_conversation: ScriptedConversation, _turn_id: str, _parts: Any) -> None:
        await asyncio.sleep(3600)

    async with staged(Awkward(prompt=never)) as stage:
        await stage.open(agent="awkward")
        receipt = await stage.send("k", "hello")
        await turn_of(stage, receipt.id)
        await asyncio.sleep(1)
        await stage.host.delete_session("k")
        assert (await stage.host.status()).agents_open == 0
        assert stage.clock.monotonic() < 5


@in_virtual_time
async def test_a_stop_while_an_agent_is_woken_leaves_no_agent() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.host.stop_session("k")
        stage.agent.opening.clear()
        await stage.host.resume_session("k")
        await asyncio.sleep(0.1)
        await stage.host.stop_session("k")
        assert (await stage.host.status()).agents_open == 0
        stage.agent.opening.set()
        await asyncio.sleep(1)
        assert (await stage.host.status()).agents_open == 0


@in_virtual_time
async def test_a_clear_while_an_agent_is_woken_gives_the_next_message_an_agent_of_the_new_generation() -> None:
    async with staged() as stage:
        await stage.open()
        await stage.host.stop_session("k")
        stage.agent.opening.clear()
        await stage.host.resume_session("k")
        await asyncio.sleep(0.1)
        await stage.host.clear_session("k")
        stage.agent.opening.set()
        assert (await stage.ask("k", "hello")).reply == "answer to hello"
        assert stage.conversation().spec.generation == 2
        assert [conversation.prompts for conversation in stage.agent.conversations[:-1]] == [[]]


@in_virtual_time
async def test_after_a_clear_the_old_agent_is_gone_before_the_new_one_opens() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        queued = await stage.send("k", "queued")
        await stage.host.clear_session("k")
        assert (await stage.end_of(held.id)).state == "cancelled"
        end = await stage.end_of(queued.id)
        assert (end.reply, end.generation) == ("answer to queued", 2)
        old, new = stage.agent.conversations
        assert (old.spec.generation, new.spec.generation, new.resumed_from) == (1, 2, None)
        types = await stage.types(held.session_id)
        assert types.index("agent.exited") < types.index("agent.started", types.index("agent.started") + 1)


@in_virtual_time
async def test_a_turn_that_begins_and_is_cleared_in_one_commit_reaches_no_agent() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        sending, clearing = stage.send(session_id, "second"), stage.host.clear_session(session_id)
        receipt, _ = await asyncio.gather(sending, clearing)
        assert (await stage.end_of(receipt.id)).state == "cancelled"
        assert stage.prompts() == ["first"]


@in_virtual_time
async def test_an_idle_agent_is_let_go_and_a_message_that_comes_just_then_waits_for_its_end() -> None:
    closing, gate = asyncio.Event(), asyncio.Event()

    async def slow_close(conversation: ScriptedConversation, patience_s: float) -> None:
        closing.set()
        await gate.wait()
        await conversation.close(patience_s)

    agent = Awkward(close=slow_close)
    async with staged(agent, agent_idle_s=10.0) as stage:
        await stage.open(agent="awkward")
        await stage.ask("k", "first")
        await closing.wait()
        receipt = await stage.send("k", "second")
        assert receipt.waiting_for == "the agent's last process to be gone"
        gate.set()
        assert (await stage.end_of(receipt.id)).reply == "answer to second"
        assert len(agent.conversations) == 2


# Adapters that raise, or do not keep their contract otherwise


@in_virtual_time
@pytest.mark.parametrize("method", ["prompt", "said", "close"])
async def test_an_adapter_that_raises_fails_its_turn_and_the_next_message_finds_a_new_agent(method: str) -> None:
    raised: list[str] = []

    def trip(conversation: ScriptedConversation, *args: Any) -> Any:
        if not raised:
            raised.append(method)
            raise RuntimeError("a flaw of the adapter")
        return getattr(conversation, method)(*args)

    replacements: dict[str, Any] = {method: trip}
    agent = Awkward(**replacements)
    async with staged(agent, cancel_grace_s=0.2) as stage:
        await stage.open(agent="awkward")
        first = await stage.send("k", "hold" if method == "close" else "first")
        if method == "close":
            await stage.until(first.session_id, lambda session: bool(session.running and session.running.touched))
            agent.conversations[0].cancel = _deaf  # pyright: ignore[reportAttributeAccessIssue]
            assert first.turn_id is not None
            await stage.host.cancel_turn(first.turn_id)
        end = await stage.end_of(first.id)
        assert (end.state, raised) == ("cancelled" if method == "close" else "failed", [method])
        assert (await stage.ask("k", "second")).reply == "answer to second"
        assert len(agent.conversations) == 2


async def _deaf(_turn_id: str) -> None:
    """Take no notice."""


@in_virtual_time
async def test_an_adapter_that_raises_when_its_turn_is_cancelled_loses_its_agent_and_the_cancel_is_confirmed() -> None:
    async def trip(_conversation: ScriptedConversation, _turn_id: str) -> None:
        raise RuntimeError("a flaw of the adapter")

    async with staged(Awkward(cancel=trip)) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        assert held.turn_id is not None
        done = await stage.host.cancel_turn(held.turn_id)
        assert (done.state, done.confirmed) == ("cancelled", True)
        assert (await stage.ask("k", "next")).reply == "answer to next"


@in_virtual_time
async def test_an_adapter_that_raises_when_a_question_is_answered_loses_its_agent() -> None:
    async def trip(_conversation: ScriptedConversation, *_args: Any) -> None:
        raise RuntimeError("a flaw of the adapter")

    agent = Awkward(answer=trip)
    async with staged(agent) as stage:
        agent.script = lambda text: [Ask("May I?"), Say(text)] if text == "ask" else [Say(text)]
        await stage.open(agent="awkward")
        receipt = await stage.send("k", "ask")
        await stage.until(receipt.session_id, lambda session: bool(session.permissions))
        (asked,) = (await stage.host.permissions(state="pending")).items
        await stage.host.answer_permission(asked.id, decision="allow", option_id=None, note=None, by="me")
        assert (await stage.end_of(receipt.id)).state == "failed"
        assert (await stage.ask("k", "next")).reply == "next"


@in_virtual_time
async def test_a_steer_on_which_the_adapter_raises_gets_a_turn_of_its_own() -> None:
    async def trip(_conversation: ScriptedConversation, *_args: Any) -> None:
        raise RuntimeError("a flaw of the adapter")

    async with staged(Awkward(steer=trip)) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        steer = await stage.send("k", "steer", when_busy="steer")
        await asyncio.sleep(1)
        stage.host.context.agents["awkward"].release("hold")  # pyright: ignore[reportAttributeAccessIssue]
        ends = await stage.end_of(held.id), await stage.end_of(steer.id)
        assert [end.delivered_as for end in ends] == ["turn", "turn"]


@in_virtual_time
async def test_an_adapter_whose_agent_never_says_that_it_is_gone_is_given_up_in_bounded_time() -> None:
    async def hang(_conversation: ScriptedConversation, _patience_s: float) -> None:
        await asyncio.sleep(1_000_000)

    agent = Awkward(close=hang)
    async with staged(agent) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        agent.conversations[0].cancel = _deaf  # pyright: ignore[reportAttributeAccessIssue]
        assert held.turn_id is not None
        done = await stage.host.cancel_turn(held.turn_id)
        assert (done.state, done.confirmed) == ("cancelled", True)
        assert stage.clock.monotonic() < 15
        assert (await stage.ask("k", "next")).reply == "answer to next"


@in_virtual_time
async def test_an_agent_whose_ending_was_cut_short_as_by_a_host_that_stood_still_is_ended_after_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[float] = []

    async def at_the_second_try(conversation: ScriptedConversation, patience_s: float) -> None:
        tries.append(patience_s)
        if len(tries) == 1:
            await asyncio.sleep(1_000_000)
        await conversation.close(patience_s)

    agent = Awkward(close=at_the_second_try)
    async with staged(agent) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        agent.conversations[0].cancel = _deaf  # pyright: ignore[reportAttributeAccessIssue]
        assert held.turn_id is not None
        done = await stage.host.cancel_turn(held.turn_id)
        assert (done.state, done.confirmed, tries[1:]) == ("cancelled", True, [0])
    assert "could not be ended" not in caplog.text


@in_virtual_time
async def test_an_adapter_that_falls_silent_without_saying_that_its_agent_is_gone_ends_the_turn() -> None:
    async def silent(_conversation: ScriptedConversation) -> Any:
        for nothing in ():
            yield nothing

    async with staged(Awkward(said=silent)) as stage:
        await stage.open(agent="awkward")
        end = await stage.ask("k", "hello")
        assert end.error is not None
        assert (end.state, end.error.code) == ("failed", "agent_failed")


@in_virtual_time
async def test_a_host_stops_in_bounded_time_though_an_adapter_hangs_wherever_it_can() -> None:
    async def hang(_conversation: ScriptedConversation, *_args: Any) -> None:
        await asyncio.sleep(1_000_000)

    async with staged(Awkward(close=hang, prompt=hang, cancel=hang)) as stage:
        await stage.open(agent="awkward")
        await stage.send("k", "hello")
        await asyncio.sleep(1)
        began = stage.clock.monotonic()
        await stage.host.stop()
        assert stage.clock.monotonic() - began < 30


@in_virtual_time
@pytest.mark.parametrize("method", ["prompt", "steer", "answer"])
async def test_an_adapter_that_never_takes_what_it_is_told_does_not_hold_up_the_session_for_ever(method: str) -> None:
    hung: list[str] = []

    async def hang(conversation: ScriptedConversation, *args: Any) -> None:
        if not hung:
            hung.append(method)
            await asyncio.sleep(1_000_000)
        await getattr(conversation, method)(*args)

    replacements: dict[str, Any] = {method: hang}
    agent = Awkward(**replacements)
    async with staged(agent, open_timeout_s=40.0) as stage:
        asks = [Ask("May I?")] if method == "answer" else []
        agent.script = lambda text: [*(asks if text == "first" else []), Say(text)]
        session_id = await stage.open(agent="awkward")
        first = await stage.send("k", "first")
        if method == "steer":
            agent.script = lambda text: [Say(text), Wait(1.0)]
            agent.clock = stage.clock
            first = await stage.send("k", "second")
            await stage.until(session_id, lambda session: bool(session.running and session.running.touched))
            await stage.send("k", "steer", when_busy="steer")
        if method == "answer":
            await stage.until(session_id, lambda session: bool(session.permissions))
            (asked,) = (await stage.host.permissions(state="pending")).items
            await stage.host.answer_permission(asked.id, decision="allow", option_id=None, note=None, by="me")
        end = await stage.end_of(first.id)
        assert end.state == ("answered" if method == "steer" else "failed")
        assert (await stage.ask("k", "next")).reply == "next"
        assert hung == [method]


# Steers


@in_virtual_time
async def test_steers_reach_the_agent_in_their_order_however_long_each_takes_to_be_read() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        reads = [0]

        async def first_is_slow(method: str) -> None:
            if method == "messages":
                reads[0] += 1
                await asyncio.sleep(1.0 / reads[0])

        stage.store.reading = first_is_slow
        steers = [await stage.send("k", text, when_busy="steer") for text in ("one", "two", "three")]
        await asyncio.sleep(5)
        stage.agent.release("hold")
        end = await stage.end_of(held.id)
        assert end.reply == "so far answer to hold\nanswer to one\nanswer to two\nanswer to three"
        assert [(await stage.end_of(steer.id)).delivered_as for steer in steers] == ["steer"] * 3


@in_virtual_time
async def test_a_steer_brings_its_files_along() -> None:
    steered: list[tuple[port.Part, ...]] = []

    async def steer(conversation: ScriptedConversation, turn_id: str, message_id: str, parts: Any) -> None:
        steered.append(parts)
        await conversation.steer(turn_id, message_id, parts)

    agent = Awkward(steer=steer)
    async with staged(agent) as stage:
        held = await stage.hold("k" if await stage.open(agent="awkward") else "")
        await stage.send("k", "look", when_busy="steer", files=({"path": "/tmp/picture.png"},))
        await asyncio.sleep(1)
        agent.release("hold")
        await stage.end_of(held.id)
        assert [[part.path or part.text for part in parts] for parts in steered] == [["look", "/tmp/picture.png"]]


@in_virtual_time
async def test_a_steer_that_is_read_only_after_its_turn_has_ended_gets_a_turn_of_its_own() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        gate = asyncio.Event()

        async def slow(method: str) -> None:
            if method == "messages":
                await gate.wait()

        stage.store.reading = slow
        steer = await stage.send("k", "steer", when_busy="steer")
        await asyncio.sleep(0.1)
        stage.agent.release("hold")
        assert (await stage.end_of(held.id)).reply == "so far answer to hold"
        gate.set()
        end = await stage.end_of(steer.id)
        assert (end.reply, end.delivered_as) == ("answer to steer", "turn")
        assert stage.prompts() == ["hold", "steer"]


# Questions


@in_virtual_time
async def test_an_answer_that_comes_after_the_agent_is_gone_is_refused_and_tells_nobody() -> None:
    async with staged() as stage:
        stage.agent.script = lambda _text: [Ask("May I?"), Say("done")]
        await stage.open()
        receipt = await stage.send("k", "ask")
        await stage.until(receipt.session_id, lambda session: bool(session.permissions))
        (asked,) = (await stage.host.permissions(state="pending")).items
        stage.conversation().die()
        assert (await stage.end_of(receipt.id)).state == "failed"
        with pytest.raises(PermissionAnswered):
            await stage.host.answer_permission(asked.id, decision="allow", option_id=None, note=None, by="me")
        assert stage.conversation().answers == {}
        assert (await stage.host.permission(asked.id)).state == "expired"


@in_virtual_time
async def test_a_question_is_answered_by_policy_at_its_deadline() -> None:
    async with staged(permission_deadline_s=60.0) as stage:
        stage.agent.script = lambda _text: [Ask("May I?"), Say("done")]
        await stage.open()
        receipt = await stage.send("k", "ask")
        end = await stage.host.wait_message(receipt.id, 100)
        assert (end.state, end.reply) == ("answered", "denied\ndone")
        assert 60 <= stage.clock.monotonic() < 62


@in_virtual_time
async def test_a_question_in_a_turn_that_the_session_does_not_know_is_denied_so_that_nobody_waits_for_ever() -> None:
    async with staged() as stage:
        held = await stage.hold("k" if await stage.open() else "")
        conversation = stage.conversation()
        conversation.tell(port.Asked(turn_id="turn_of_its_own", request_id="its question", question="May I?"))
        conversation.notice()
        await asyncio.sleep(1)
        assert conversation.answers == {"its question": (False, None)}
        assert (await stage.host.permissions(state=None)).items == ()
        stage.agent.release("hold")
        assert (await stage.end_of(held.id)).state == "answered"


# Turns of the agent's own


@in_virtual_time
async def test_an_agent_busy_with_a_turn_of_its_own_is_prompted_once_that_is_over() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        opened = stage.actor(session_id)._driver._open
        assert opened is not None
        opened.turn_id, opened.ended = "turn_own", asyncio.Event()  # as of one that began while a message was accepted
        receipt = await stage.send("k", "second")
        await asyncio.sleep(0.5)
        assert stage.prompts() == ["first"]
        opened.turn_id = None
        opened.ended.set()
        assert (await stage.end_of(receipt.id)).reply == "answer to second"
        assert len(stage.agent.conversations) == 1


@in_virtual_time
async def test_an_agent_whose_own_turn_does_not_end_is_opened_anew_for_a_message() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        opened = stage.actor(session_id)._driver._open
        assert opened is not None
        opened.turn_id, opened.ended = "turn_own", asyncio.Event()
        assert (await stage.ask("k", "second")).reply == "answer to second"
        assert len(stage.agent.conversations) == 2


@in_virtual_time
async def test_a_turn_of_the_agents_own_that_falls_silent_is_over_and_what_waits_runs() -> None:
    async with staged(stall_after_s=60.0) as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        turn_id = stage.ids.new("turn")
        stage.conversation().begin(turn_id, Say("by the way "), Wait(50.0), Say("also "), Hold("never"))
        await stage.until(session_id, lambda session: bool(session.running and session.running.touched))
        waiting = await stage.send("k", "second")
        for number in range(100):  # what others do here says nothing of the agent
            await stage.host.patch_session("k", {"title": f"{number}"}, if_match=None)
            await asyncio.sleep(1)
        assert (await stage.host.turn(turn_id)).state == "running"
        end = await stage.host.wait_message(waiting.id, 60)
        assert (end.state, end.reply) == ("answered", "answer to second")
        assert 110 <= stage.clock.monotonic() < 120
        own = await stage.host.turn(turn_id)
        assert (own.state, own.reply) == ("completed", "by the way also ")


@in_virtual_time
async def test_a_turn_of_the_agents_own_can_be_cancelled() -> None:
    async with staged() as stage:
        session_id = await stage.open()
        await stage.ask("k", "first")
        turn_id = stage.ids.new("turn")
        stage.conversation().begin(turn_id, Say("by the way "), Hold("never"))
        await stage.until(session_id, lambda session: bool(session.running and session.running.touched))
        done = await stage.host.cancel_turn(turn_id)
        assert (done.state, done.confirmed) == ("cancelled", True)
        assert (await stage.host.turn(turn_id)).reply == "by the way "


# What an agent can do


@in_virtual_time
async def test_an_agent_that_takes_no_steers_is_given_none() -> None:
    plain = ScriptedAgent(name="plain", capabilities=Capabilities(interrupt=True))
    async with staged(plain) as stage:
        plain.script = stage.agent.script
        held = await stage.hold("k" if await stage.open(agent="plain") else "")
        steer = await stage.send("k", "steer", when_busy="steer")
        await asyncio.sleep(1)
        plain.release("hold")
        assert (await stage.end_of(held.id)).reply == "so far answer to hold"
        assert (await stage.end_of(steer.id)).delivered_as == "turn"


@in_virtual_time
async def test_a_long_piece_is_told_in_several_events_that_join_to_the_same() -> None:
    async with staged() as stage:
        text = "0123456789" * 20_000
        stage.agent.script = lambda _text: [Say(text)]
        session_id = await stage.open()
        assert (await stage.ask("k", "long")).reply == text
        assert (await stage.types(session_id)).count("turn.text") == 4


@in_virtual_time
async def test_no_more_agents_are_open_than_may_be_and_every_session_gets_its_turn() -> None:
    async with staged(max_agents=2) as stage:
        stage.agent.script = lambda text: [Wait(1.0), Say(text)]
        keys = [f"k{number}" for number in range(7)]
        for key in keys:
            await stage.open(key)
        sent = [await stage.send(key, key) for key in keys]
        most = 0
        for _ in range(60):
            await asyncio.sleep(0.2)
            most = max(most, (await stage.host.status()).agents_open)
        assert [(await stage.end_of(receipt.id)).reply for receipt in sent] == keys
        assert most == 2
        started = [(await stage.host.receipt(receipt.id)).started_at for receipt in sent]
        assert started == sorted(started, key=str), "first come, first served"


@in_virtual_time
async def test_an_unknown_session_is_not_found_whatever_is_asked_of_it() -> None:
    async with staged() as stage:
        for ref in ("nobody", "ses_" + "0" * 32):
            with pytest.raises(NotFound, match=ref):
                await stage.send(ref, "hello")
