"""What each directive makes of the echo agent, through its adapter and a real process."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.echo import EchoAgent
from antiphon.core.session import Usage
from antiphon.ports.agent import Asked, Ended, Exited, Part, Text, ToolEnded, ToolStarted, Used
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.staging import Conversation
from antiphon.testing.processes import alive, eventually


def conversation(tmp_path: Path, **options: Any) -> AbstractAsyncContextManager[Conversation]:
    agent = EchoAgent("echo", options)
    return AgentContract().conversation(Peer(agent=agent, cwd=str(tmp_path), says=str, patience_s=10))


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Conversation]:
    async with conversation(tmp_path) as talk:
        yield talk


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("hello", "echo: hello"),
        ("  as it is \n", "echo:   as it is \n"),
        ("lone \ud800 surrogate", "echo: lone \ud800 surrogate"),
        ("[[sleep 0.01]] awake", "echo: awake"),
        ("[[stream 3 every 1]] end", "1 2 3 echo: end"),
        ("[[stream 0 every 1]] end", "echo: end"),
        ("[[tool saw]] felled", "echo: felled"),
        ("[[bytes 70]]", "The quick brown fox jumps over the lazy dog, 0123456789 times.\nThe quiecho: "),
    ],
)
async def test_a_reply_is_what_the_text_says(talk: Conversation, text: str, reply: str):
    assert not (await talk.ask("turn_1", text)).error
    assert talk.reply("turn_1") == reply


async def test_a_hold_waits_for_a_file_of_its_name(talk: Conversation, tmp_path: Path):
    await talk.prompt("turn_1", "[[stream 1 every 0]] [[hold gate]] through")
    await talk.first(Text)
    await talk.within(talk.agent.steer("turn_1", "msg_1", ()))
    assert not talk.all(Ended)
    (tmp_path / "gate").touch()
    await talk.ended("turn_1")
    assert talk.reply("turn_1").startswith("1 echo: through")


async def test_bytes_are_as_many_as_were_asked_for_and_the_same_each_time(talk: Conversation):
    for turn_id in ("turn_1", "turn_2"):
        await talk.ask(turn_id, "[[bytes 300000]]")
    assert talk.reply("turn_1") == talk.reply("turn_2")
    assert len(talk.reply("turn_1").encode()) == 300_000 + len("echo: ")


async def test_tools_are_told_from_start_to_end(talk: Conversation):
    await talk.ask("turn_1", "[[tool saw]] [[tool axe]]")
    assert [tool.name for tool in talk.all(ToolStarted)] == ["saw", "axe"]
    assert [tool.tool_id for tool in talk.all(ToolStarted)] == [tool.tool_id for tool in talk.all(ToolEnded)]
    assert {tool.outcome for tool in talk.all(ToolEnded)} == {"completed"}


async def test_a_denied_question_is_in_the_reply_with_the_note(talk: Conversation):
    await talk.prompt("turn_1", "[[ask fell the maple]] done")
    asked = await talk.first(Asked)
    assert asked.question == "fell the maple"
    assert [option["kind"] for option in asked.options] == ["allow_once", "reject_once"]
    await talk.agent.answer(asked.request_id, False, None, "it is protected")
    await talk.ended("turn_1")
    assert talk.reply("turn_1") == "denied: fell the maple (it is protected)\necho: done"


async def test_two_questions_of_one_turn_are_two(talk: Conversation):
    await talk.prompt("turn_1", "[[ask one]] [[ask two]] done")
    for place in range(2):
        await talk.until(lambda p=place: len(talk.all(Asked)) > p, "a question")
        await talk.agent.answer(talk.all(Asked)[place].request_id, True, None, None)
    await talk.ended("turn_1")
    assert talk.reply("turn_1") == "echo: done"


async def test_a_failure_has_its_message_and_what_was_said_before_is_kept(talk: Conversation):
    ended = await talk.ask("turn_1", "[[stream 2 every 0]] [[fail no more wood]] never said")
    assert ended.error
    assert (ended.error.code, ended.error.detail) == ("agent_failed", "no more wood")
    assert talk.reply("turn_1") == "1 2 "


async def test_an_exit_has_its_code(talk: Conversation):
    await talk.prompt("turn_1", "[[stream 1 every 0]] [[exit 3]]")
    exited = await talk.exited()
    assert (exited.exit_code, exited.reason) == (3, "died")
    assert talk.reply("turn_1") == "1 "


async def test_pid_is_that_of_the_process(talk: Conversation):
    await talk.ask("turn_1", "[[pid]]")
    assert talk.reply("turn_1") == f"pid {talk.agent.pid}\necho: "


async def test_characters_cut_between_two_writes_arrive_whole(talk: Conversation):
    await talk.ask("turn_1", "[[split-utf8]] cut")
    assert talk.reply("turn_1") == "é ü 漢字 😀 👩\u200d👩\u200d👧\necho: cut"


async def test_a_flood_on_stderr_does_not_hold_up_the_reply(talk: Conversation):
    await talk.ask("turn_1", "[[stderr 3000000]] dry")
    assert talk.reply("turn_1") == "echo: dry"


async def test_usage_counts_words(talk: Conversation):
    ended = await talk.ask("turn_1", "[[stream 2 every 0]] three more words")
    assert ended.usage == Usage(input_tokens=7, output_tokens=6)
    assert talk.all(Used)[0].usage == ended.usage


@pytest.mark.parametrize(
    "busy", ["[[sleep 60]]", "[[hold never]]", "[[stream 9999 every 1]]", "[[ask why]]", "[[bytes 999999999]]"]
)
async def test_a_cancel_is_heard_at_once_whatever_it_does(talk: Conversation, busy: str):
    await talk.prompt("turn_1", f"[[stream 2 every 0]] {busy} never said")
    await talk.first(Text)
    began = time.monotonic()
    await talk.agent.cancel("turn_1")
    ended = await talk.ended("turn_1")
    assert time.monotonic() - began < 0.5
    assert ended.cancelled
    assert talk.reply("turn_1").startswith("1 ")
    assert "echo:" not in talk.reply("turn_1")
    await talk.ask("turn_2", "next")
    assert talk.reply("turn_2") == "echo: next"


async def test_a_late_answer_comes_after_the_cancel_and_ends_the_turn(talk: Conversation):
    await talk.prompt("turn_1", "[[late 0.1]] [[stream 1 every 0]] [[hold never]] too late")
    await talk.first(Text)
    began = time.monotonic()
    await talk.agent.cancel("turn_1")
    assert (await talk.ended("turn_1")).cancelled
    assert time.monotonic() - began >= 0.1
    assert talk.reply("turn_1") == "1 echo: too late"


async def test_who_ignores_a_cancel_goes_on(talk: Conversation, tmp_path: Path):
    await talk.prompt("turn_1", "[[ignore-cancel]] [[stream 1 every 0]] [[hold gate]] unmoved")
    await talk.first(Text)
    await talk.agent.cancel("turn_1")
    (tmp_path / "gate").touch()
    ended = await talk.ended("turn_1")
    assert not ended.cancelled
    assert talk.reply("turn_1") == "1 echo: unmoved"
    await talk.prompt("turn_2", "[[sleep 60]]")
    await talk.agent.cancel("turn_2")
    assert (await talk.ended("turn_2")).cancelled, "it holds for one turn only"


async def test_closing_politely_ends_an_idle_agent_without_a_signal(talk: Conversation):
    await talk.ask("turn_1", "hello")
    await talk.agent.close(5)
    exited = await talk.exited()
    assert (exited.exit_code, exited.reason) == (0, "closed")


async def test_a_line_over_the_limit_fails_its_turn_and_nothing_else(tmp_path: Path):
    async with conversation(tmp_path, line_limit=10_000) as talk:
        ended = await talk.ask("turn_1", "[[bytes 20000]]")
        assert ended.error
        assert "over the limit" in ended.error.detail
        await talk.ask("turn_2", "still here")
        assert talk.reply("turn_2") == "echo: still here"


async def test_a_steer_may_hold_directives_too(talk: Conversation, tmp_path: Path):
    await talk.prompt("turn_1", "[[hold gate]] first")
    for message_id, text in (("msg_1", "[[stream 2 every 0]] second"), ("msg_2", "third")):
        await talk.agent.steer("turn_1", message_id, (Part(text=text, message_id=message_id),))
        await talk.until(lambda m=message_id: talk.steers(m), "the steer")
    (tmp_path / "gate").touch()
    await talk.ended("turn_1")
    assert talk.reply("turn_1") == "echo: first\n1 2 echo: second\necho: third"


async def test_a_process_that_is_stopped_is_closed_all_the_same(talk: Conversation):
    await talk.ask("turn_1", "hello")
    assert talk.agent.pid
    os.kill(talk.agent.pid, 19)
    await talk.within(talk.agent.close(0.5))
    assert isinstance(talk.heard[-1], Exited)


async def test_an_agent_that_does_not_read_is_ended_when_too_much_waits_for_it(talk: Conversation):
    await talk.ask("turn_1", "hello")
    pid = talk.agent.pid
    assert pid
    os.kill(pid, 19)
    async with asyncio.timeout(10):
        while not talk.all(Exited):
            await talk.prompt("turn_2", "x" * 20_000_000)
            await asyncio.sleep(0)
    await eventually(lambda: not alive(pid), what="its end")


@pytest.mark.parametrize("options", [{"colour": "red"}, {"line_limit": "big"}, {"line_limit": 0}])
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"option|line_limit"):
        EchoAgent("echo", options)
