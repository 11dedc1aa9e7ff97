"""The real opencode, driven through the adapter against the loopback model server. It takes long to begin, so each test
does much with one session. Claude Code behind ACP has the whole contract, in tests/conformance."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import real_acp
from antiphon.ports.agent import Asked, Ended, Exited, Text, Thought, ToolEnded, ToolStarted
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import eventually, marked, new_mark
from integration.acp.talk import Desk, Talk

pytestmark = [
    pytest.mark.skipif(real_acp.opencode_missing() is not None, reason=str(real_acp.opencode_missing())),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def desk(tmp_path: Path, model: ModelServer) -> AsyncIterator[Desk]:
    """Sessions with the real opencode, which asks before it acts."""
    desk = Desk(tmp_path, real_acp.opencode(tmp_path / "home", model.url, asks=True).table())
    yield desk
    await desk.close()


async def asked_about(talk: Talk, command: str) -> tuple[str, Asked]:
    """Have a command asked for; the turn and the question."""
    turn_id = await talk.say(f"[[shell {command}]] [[output]]")
    asked = await talk.until(Asked)
    assert asked.turn_id == turn_id
    return turn_id, asked


async def test_opencode_asks_and_hears_the_answer(desk: Desk) -> None:
    talk = await desk.open(model="loop/fake-model", mode="build")

    turn_id, asked = await asked_about(talk, "echo felled > allowed; echo done")
    assert "echo felled > allowed; echo done" in asked.question
    assert {option["kind"] for option in asked.options} == {"allow_once", "allow_always", "reject_once"}
    await talk.running.answer(asked.request_id, True, None, None)
    ended = await talk.end(turn_id)
    assert (ended.error, ended.cancelled) == (None, False)
    assert "done" in talk.reply(turn_id)
    assert (desk.cwd / "allowed").read_text() == "felled\n"
    (started,), (tool_ended,) = talk.of(ToolStarted), talk.of(ToolEnded)
    assert (started.name, started.tool_id) == (asked.tool, tool_ended.tool_id)
    assert started.input["command"] == "echo felled > allowed; echo done"
    assert (tool_ended.outcome, tool_ended.output) == ("completed", "done\n")

    turn_id, asked = await asked_about(talk, "touch denied")
    await talk.running.answer(asked.request_id, False, None, None)
    await talk.end(turn_id)

    turn_id, asked = await asked_about(talk, "touch cancelled")
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    await talk.running.answer(asked.request_id, True, None, None)

    ended, reply = await talk.turn("[[think hm]] maple")
    assert (ended.error, reply) == (None, "model: maple")
    assert [thought.text for thought in talk.of(Thought)] == ["hm"]
    assert not (desk.cwd / "denied").exists()
    assert not (desk.cwd / "cancelled").exists()


async def test_opencode_is_cancelled_fails_is_killed_and_goes_on(desk: Desk, model: ModelServer) -> None:
    mark = new_mark()
    talk = await desk.open(extra=mark)
    ended, reply = await talk.turn("[[verbatim]]my name is Ada")
    assert (ended.error, reply) == (None, "my name is Ada")
    assert ended.usage
    assert ended.usage.output_tokens > 0

    at_once = await talk.say("[[hold never]] splinters")
    await talk.running.cancel(at_once)
    assert (await talk.end(at_once)).cancelled

    in_text = await talk.say("[[say here]] [[hold never]] splinters")
    await talk.until(Text, lambda text: text.turn_id == in_text)
    await talk.running.cancel(in_text)
    assert (await talk.end(in_text)).cancelled

    ended, _ = await talk.turn("[[error 400 no such luck]]")
    assert ended.error
    assert "no such luck" in ended.error.detail
    assert "splinters" not in "".join(text.text for text in talk.of(Text))

    in_tool, asked = await asked_about(talk, "trap '' TERM HUP INT; sleep 300; sleep 300")
    await talk.running.answer(asked.request_id, True, None, None)
    await eventually(lambda: len(marked(mark)) > 2, 30, "a shell that runs")
    pid = talk.running.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    await talk.until(Exited)
    assert in_tool not in {ended.turn_id for ended in talk.of(Ended)}
    await eventually(lambda: not marked(mark), 30, "the end of the shell")

    talk = await desk.open(talk.running.resume_token)
    ended, reply = await talk.turn("[[recall]]")
    assert ended.error is None
    assert reply.startswith("my name is Ada")
