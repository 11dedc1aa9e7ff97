"""A scripted Codex that misbehaves in ways that the real one does not on demand."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.agents.codex import CodexAgent
from antiphon.ports.agent import Ended, Exited, OpenFailed, Part, Text, Wrote
from antiphon.testing.processes import alive, marked, new_mark
from integration.codex.talk import Desk, Talk

Step = dict[str, Any]
THREAD = "thread-1"


def tell(method: str, **params: Any) -> Step:
    return {"tell": {"method": method, "params": {"threadId": THREAD, **params}}}


def started(codex_id: str) -> Step:
    return tell("turn/started", turn={"id": codex_id, "status": "inProgress"})


def completed(codex_id: str, status: str = "completed") -> Step:
    return tell("turn/completed", turn={"id": codex_id, "status": status})


def delta(codex_id: str, text: str) -> Step:
    return tell("item/agentMessage/delta", turnId=codex_id, itemId=f"m-{codex_id}", delta=text)


def accept(codex_id: str) -> Step:
    return {"answer": {"turn": {"id": codex_id, "status": "inProgress"}}}


AWAIT: Step = {"await": "turn/start"}


def turn(codex_id: str, text: str) -> list[Step]:
    """A turn as it should be."""
    return [AWAIT, accept(codex_id), started(codex_id), delta(codex_id, text), completed(codex_id)]


class Lab:
    """Sessions with scripted Codexes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._desks: list[Desk] = []
        self.mark = new_mark()

    async def open(self, *steps: Step, resume_token: str | None = None, **options: Any) -> Talk:
        script = self._directory / f"script{len(self._desks)}.json"
        script.write_bytes(msgspec.json.encode(steps))
        command = [sys.executable, "-m", "antiphon.testing.fault_lab.codex", str(script)]
        desk = Desk(self._directory, {"command": command, "environment": self.mark, **options})
        self._desks.append(desk)
        return await desk.open(resume_token)

    async def close(self) -> None:
        for desk in self._desks:
            await desk.close()
        assert marked(self.mark) == set()


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    await lab.close()


async def test_a_turn_as_it_should_be(lab: Lab) -> None:
    talk = await lab.open(*turn("x1", "one"), *turn("x2", "two"))
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == ["one", "two"]
    await talk.running.close(2)
    assert (await talk.exit()).exit_code == 0


# Orders


async def test_a_turn_that_is_over_before_it_was_accepted_is_whole(lab: Lab) -> None:
    early = [AWAIT, started("x1"), delta("x1", "one"), completed("x1"), accept("x1")]
    talk = await lab.open(*early, *turn("x2", "two"))
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == ["one", "two"]


async def test_late_words_and_second_stop_markers_stay_out_of_the_next_turn(lab: Lab) -> None:
    late = [delta("x1", "late"), completed("x1"), completed("x1", "failed")]
    second = [AWAIT, *late, accept("x2"), *late, started("x2"), *late, delta("x2", "two"), *late, completed("x2")]
    talk = await lab.open(*turn("x1", "one"), *late, *second)
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == ["one", "two"]
    assert [(ended.turn_id, ended.error) for ended in talk.of(Ended)] == [("turn_1", None), ("turn_2", None)]


# Bytes


@pytest.mark.parametrize(
    "bad",
    [{"raw": "WARNING: not of the protocol"}, {"hex": "fffe00"}, {"raw": ""}, {"raw": "{}"}, {"raw": '{"id": 99}'}],
)
async def test_lines_that_are_not_of_the_protocol_stop_neither_the_opening_nor_a_turn(lab: Lab, bad: Step) -> None:
    opening = [bad, {"await": "initialize"}, bad, {"answer": {}}, bad]
    talk = await lab.open(*opening, AWAIT, bad, accept("x1"), bad, started("x1"), delta("x1", "one"), completed("x1"))
    assert (await talk.turn("a"))[1] == "one"


async def test_single_bytes_many_lines_in_one_read_and_a_flood_on_stderr_are_heard(lab: Lab) -> None:
    strange = "é 漢 😀 \u2028\u2029\x85"
    awaited, *rest = turn("x2", "two")
    slowly: list[Step] = [{"bytewise": True}, *turn("x1", strange), {"bytewise": False}]
    talk = await lab.open(*slowly, {"stderr": 3_000_000}, awaited, {"at_once": rest})
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == [strange, "two"]


async def test_a_line_of_ten_megabytes_is_heard(lab: Lab) -> None:
    big = "y" * 10_000_000
    talk = await lab.open(AWAIT, accept("x1"), started("x1"), delta("x1", big), completed("x1"))
    assert (await talk.turn("a"))[1] == big


async def test_a_line_over_the_limit_fails_its_turn_and_not_the_session(lab: Lab) -> None:
    head = f'{{"method":"item/agentMessage/delta","params":{{"threadId":"{THREAD}","turnId":"x1","delta":"'
    long = {"long": [head, 200_000]}
    over = [AWAIT, accept("x1"), started("x1"), long, {"await": "turn/interrupt"}, {"answer": {}}]
    talk = await lab.open(*over, completed("x1", "interrupted"), *turn("x2", "two"), line_limit=100_000)
    ended, _ = await talk.turn("a")
    assert ended.error
    assert "over the limit" in ended.error.detail
    assert (await talk.turn("b"))[1] == "two"


async def test_an_answer_over_the_limit_while_opening_is_told(lab: Lab) -> None:
    with pytest.raises(OpenFailed, match="over the limit"):
        await lab.open({"await": "initialize"}, {"long": ['{"id":1,"result":"', 200_000]}, line_limit=100_000)


async def test_a_reader_that_is_slow_slows_codex_and_loses_nothing(lab: Lab) -> None:
    words = [delta("x1", f"{number} ") for number in range(5_000)]
    talk = await lab.open(AWAIT, accept("x1"), started("x1"), *words, completed("x1"))
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.end(turn_id)
    assert talk.reply(turn_id) == "".join(f"{number} " for number in range(5_000))


# Deaths

DEATHS: list[Step] = [{"exit": 7}, {"signal": 9}]


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("awaited", ["initialize", "initialized", "thread/start"])
async def test_a_death_while_opening_is_told_with_what_codex_wrote(lab: Lab, death: Step, awaited: str) -> None:
    with pytest.raises(OpenFailed, match="Codex ended") as told:
        await lab.open({"await": awaited}, {"stderr": "no such luck"}, death)
    assert "no such luck" in str(told.value)


async def test_a_codex_that_talks_and_never_answers_is_not_opened(lab: Lab) -> None:
    with pytest.raises(OpenFailed, match="does not answer initialize"):
        await lab.open({"await": "initialize"}, *[tell("warning", message="word")] * 1_001)


@pytest.mark.parametrize("refused", ["initialize", "thread/start"])
async def test_a_refusal_while_opening_is_told(lab: Lab, refused: str) -> None:
    with pytest.raises(OpenFailed, match="because of the weather"):
        await lab.open({"await": refused}, {"refuse": "because of the weather"})


async def test_a_thread_that_cannot_be_read_while_opening_is_told(lab: Lab) -> None:
    with pytest.raises(OpenFailed):
        await lab.open({"await": "thread/start"}, {"answer": {"thread": None}})


LIFE = [AWAIT, accept("x1"), started("x1"), delta("x1", "one"), completed("x1")]


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("point", range(1, len(LIFE) + 1))
async def test_a_death_at_any_point_of_a_turn_is_told_last(lab: Lab, death: Step, point: int) -> None:
    talk = await lab.open(*LIFE[:point], death)
    await talk.say("a")
    exited = await talk.exit()
    assert exited.exit_code == (7 if "exit" in death else -9)
    assert exited.reason == "died"
    over = point == len(LIFE)
    assert [ended.turn_id for ended in talk.of(Ended)] == ["turn_1"] * over
    assert talk.reply("turn_1") == ("one" if point >= 4 else "")


async def test_a_death_while_idle_is_told(lab: Lab) -> None:
    talk = await lab.open(*turn("x1", "one"), {"stderr": "\x1b[31mfarewell\x1b[0m"}, {"exit": 3})
    await talk.turn("a")
    exited = await talk.exit()
    assert (exited.exit_code, exited.detail) == (3, "farewell")


async def test_a_codex_that_closes_its_output_is_ended(lab: Lab) -> None:
    talk = await lab.open(AWAIT, accept("x1"), {"close": "stdout"})
    pid = talk.running.pid
    assert pid is not None
    await talk.say("a")
    exited = await talk.exit()
    assert exited.reason == "died"
    assert not alive(pid)


async def test_a_codex_that_hears_nothing_is_killed_in_the_time_that_closing_may_take(lab: Lab) -> None:
    talk = await lab.open(AWAIT, accept("x1"), started("x1"), {"hang": True})
    await talk.say("a")
    await talk.running.cancel("turn_1")
    pid = talk.running.pid
    assert pid is not None
    async with asyncio.timeout(3):
        await talk.running.close(0.5)
    assert not alive(pid)
    assert (await talk.exit()).exit_code == -9


@pytest.mark.parametrize("end", [[], [{"exit": 3}]], ids=["closed", "dies"])
async def test_what_it_forked_ends_with_it_whatever_it_ignores(lab: Lab, end: list[Step]) -> None:
    talk = await lab.open({"fork": True}, *turn("x1", "one"), *end)
    assert (await talk.turn("a"))[1] == "one"
    if not end:
        assert len(marked(lab.mark)) > 1
        await talk.running.close(0.5)
    await talk.exit()
    assert marked(lab.mark) == set()


async def test_closing_without_a_reader_ends_all_the_same(lab: Lab) -> None:
    words = [delta("x1", "word ") for _ in range(5_000)]
    talk = await lab.open(AWAIT, accept("x1"), started("x1"), *words)
    pid = talk.running.pid
    assert pid is not None
    await talk.running.prompt("turn_1", (Part(text="a"),))
    async with asyncio.timeout(3):
        await talk.running.close(0)
    assert not alive(pid)
    assert isinstance((await talk.rest())[-1], Exited)


# Questions


async def test_a_request_that_nobody_knows_is_refused_so_that_codex_goes_on(lab: Lab) -> None:
    request = {"tell": {"id": 70, "method": "item/tool/call", "params": {"threadId": THREAD, "turnId": "x1"}}}
    steps = [AWAIT, accept("x1"), started("x1"), request, {"await_answer": 70}, delta("x1", "one"), completed("x1")]
    talk = await lab.open(*steps)
    assert (await talk.turn("a"))[1] == "one"


async def test_remarks_reach_a_person(lab: Lab) -> None:
    talk = await lab.open(tell("warning", message="Beware."), *turn("x1", "one"))
    await talk.turn("a")
    assert Wrote(text="Beware.") in talk.heard


# Setting up


async def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    agent = CodexAgent("codex", {"command": str(tmp_path / "codex")})
    assert "is not a program" in str(await agent.missing())
    with pytest.raises(OpenFailed, match="is not a program"):
        await Desk(tmp_path, {"command": str(tmp_path / "codex")}).open()


async def test_a_home_that_is_not_there_is_missing(lab: Lab, tmp_path: Path) -> None:
    home = str(tmp_path / "nowhere")
    assert "nowhere" in str(await CodexAgent("codex", {"command": sys.executable, "home": home}).missing())
    with pytest.raises(OpenFailed, match="nowhere"):
        await lab.open(home=home)


async def test_a_resumed_thread_has_its_token_at_once(lab: Lab) -> None:
    talk = await lab.open(resume_token=THREAD)
    assert talk.running.resume_token == THREAD
