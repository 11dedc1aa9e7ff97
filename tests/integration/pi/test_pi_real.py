"""The real pi behind the loopback model server: tools, cancels, tries, deaths, files."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.pi import PiAgent
from antiphon.ports.agent import AgentSpec, Exited, RunningAgent, Text, ToolEnded, ToolStarted
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import alive, eventually
from integration.codex.talk import PATIENCE_S, Talk, environment
from real_pi import pi_missing, pi_table

pytestmark = pytest.mark.skipif(pi_missing() is not None, reason=str(pi_missing()))


class Desk:
    """Sessions with pi, all closed in the end."""

    def __init__(self, directory: Path, model: ModelServer) -> None:
        (directory / "work").mkdir()
        self.cwd = directory / "work"
        self._table = pi_table(directory / "pi_home", model.url)
        self._spec = AgentSpec(
            name="pi",
            session_id="ses_1",
            cwd=str(self.cwd),
            environment=environment(directory),
            place=str(directory / "place"),
        )
        self._open: list[RunningAgent] = []

    async def open(self, resume_token: str | None = None, **options: Any) -> Talk:
        running = await PiAgent("pi", {**self._table, **options}).open(self._spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        for running in self._open:
            await running.close(0)


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """A model server on loopback."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def desk(tmp_path: Path, model: ModelServer) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path, model)
    yield desk
    await desk.close()


async def test_tools_are_used_and_a_cancel_ends_one_and_the_turn(desk: Desk) -> None:
    """openclaw#14228"""
    talk = await desk.open()
    ended, reply = await talk.turn("[[think hm]] [[say first]] [[shell echo é 漢]] [[output]]")
    assert (ended.error, reply) == (None, "first\n\né 漢\n")
    started, done = talk.of(ToolStarted)[0], talk.of(ToolEnded)[0]
    assert (started.name, started.input["command"]) == ("bash", "echo é 漢")
    assert (done.tool_id, done.outcome, done.output) == (started.tool_id, "completed", "é 漢\n")

    async def cancel(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn("[[shell trap '' TERM; echo $$ > pid; sleep 300; sleep 300]] never", cancel)
    assert ended.cancelled
    assert (await talk.turn("hello"))[1] == "model: hello"
    if (desk.cwd / "pid").exists():
        pid = int((desk.cwd / "pid").read_text() or 0)
        await eventually(lambda: not pid or not alive(pid), PATIENCE_S)


async def test_a_model_that_has_trouble_is_asked_again_and_answers_once(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("[[error 503 1]] maple")
    assert (ended.error, reply) == (None, "model: maple")
    assert reply.count("maple") == 1


async def test_a_kill_in_the_middle_of_a_tool_leaves_nothing_running_and_a_conversation_that_goes_on(
    desk: Desk,
) -> None:
    """openclaw#106781, claude-agent-sdk-typescript#142"""
    talk = await desk.open()
    await talk.turn("my name is Ada")
    await talk.say("[[say partial]] [[shell trap '' TERM; echo $$; sleep 300; sleep 300]] never")
    await talk.until(Text, lambda said: said.text == "partial")
    await talk.until(ToolStarted)
    token, pid = talk.running.resume_token, talk.running.pid
    await talk.running.close(0)
    await talk.until(Exited)
    assert pid
    await eventually(lambda: not alive(pid), PATIENCE_S)
    ended, reply = await (await desk.open(token)).turn("[[recall]]")
    assert ended.error is None
    assert reply.startswith("my name is Ada")
