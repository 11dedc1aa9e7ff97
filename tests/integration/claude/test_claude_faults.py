"""A scripted Claude Code that misbehaves in ways that the real one does not on demand."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.agents.claude import ClaudeAgent
from antiphon.agents.claude.conversation import UNPROVEN
from antiphon.ports.agent import Asked, Began, Ended, Exited, OpenFailed, Part, Resumable, Steered, Text, Wrote
from antiphon.testing.processes import alive, marked, new_mark
from integration.claude.talk import Desk, Talk

Step = dict[str, Any]
SESSION = "0198c5a2-0000-7000-8000-000000000000"
AWAIT: Step = {"await": "user"}


def tell(kind: str, **fields: Any) -> Step:
    return {"tell": {"type": kind, "session_id": SESSION, **fields}}


def started(name: str) -> Step:
    return tell("command_lifecycle", command_uuid=name, state="started")


def replay(name: str) -> Step:
    return tell("user", uuid=name, isReplay=True, message={"role": "user", "content": "said"})


def begin(message: str, *names: str) -> Step:
    event = {"type": "message_start", "message": {"id": message, "role": "assistant", "content": []}}
    return tell("stream_event", event=event, **({"user_message_uuids": names} if names else {}))


def delta(message: str, text: str) -> Step:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return tell("stream_event", event=event, api_message_id=message)


def whole(message: str, text: str, **fields: Any) -> Step:
    content = [{"type": "text", "text": text}]
    return tell("assistant", message={"id": message, "role": "assistant", "content": content}, **fields)


def result(*names: str, **fields: Any) -> Step:
    told = {"subtype": "success", "is_error": False, "num_turns": 1, "total_cost_usd": 0.1, **fields}
    return tell("result", **told, **({"user_message_uuids": names} if names else {}))


def aborted(*names: str) -> Step:
    return result(*names, subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")


def turn(name: str, text: str) -> list[Step]:
    """A turn as it should be."""
    message = f"m-{name}"
    said = [begin(message, name), delta(message, text), whole(message, text)]
    return [AWAIT, started(name), replay(name), *said, result(name)]


class Lab:
    """Sessions with scripted Claude Codes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._desks: list[Desk] = []
        self.mark = new_mark()

    async def open(self, *steps: Step, resume_token: str | None = None, **options: Any) -> Talk:
        script = self._directory / f"script{len(self._desks)}.json"
        script.write_bytes(msgspec.json.encode(steps))
        command = [sys.executable, "-m", "antiphon.testing.fault_lab.claude", str(script)]
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


async def two_turns(talk: Talk) -> list[str]:
    return [(await talk.turn("a"))[1], (await talk.turn("b"))[1]]


def ends(talk: Talk) -> list[tuple[str, bool]]:
    return [(ended.turn_id, ended.error is None) for ended in talk.of(Ended)]


async def test_turns_as_they_should_be(lab: Lab) -> None:
    talk = await lab.open(*turn("$1", "one"), *turn("$2", "two"))
    assert await two_turns(talk) == ["one", "two"]
    assert [said.resume_token for said in talk.of(Resumable)] == [UNPROVEN + SESSION]  # this program keeps nothing
    await talk.running.close(2)
    assert (await talk.exit()).exit_code == 0


# Orders


async def test_late_results_and_late_words_stay_out_of_the_next_turn(lab: Lab) -> None:
    late = [
        delta("m-$1", "late"),
        whole("m-$1", "late"),
        result("$1"),
        result("$1", is_error=True),
        begin("m-$1", "$1"),
    ]
    second = [AWAIT, *late, started("$2"), *late, begin("m-$2", "$2"), *late, delta("m-$2", "two"), *late, result("$2")]
    talk = await lab.open(*turn("$1", "one"), *late, *second)
    assert await two_turns(talk) == ["one", "two"]
    assert ends(talk) == [("turn_1", True), ("turn_2", True)]
    assert not talk.of(Began)


@pytest.mark.parametrize(
    "unsolicited",
    [
        result(origin={"kind": "task-notification"}),
        result(num_turns=0),
        result("00000000-0000-4000-8000-000000000000"),
    ],
)
async def test_a_result_that_names_none_of_ours_ends_no_turn_of_ours(lab: Lab, unsolicited: Step) -> None:
    first, *rest = turn("$1", "one")
    steps = [unsolicited, first, unsolicited, *rest[:-1], unsolicited, rest[-1], unsolicited, *turn("$2", "two")]
    talk = await lab.open(*steps)
    assert await two_turns(talk) == ["one", "two"]
    assert ends(talk) == [("turn_1", True), ("turn_2", True)]


async def test_a_result_before_a_word_was_said_ends_the_turn(lab: Lab) -> None:
    talk = await lab.open(AWAIT, result("$1"), *turn("$2", "two"))
    assert await two_turns(talk) == ["", "two"]


async def test_what_came_only_as_a_whole_is_said_once_and_what_came_in_pieces_too(lab: Lab) -> None:
    said = [
        whole("m1", "one"),
        begin("m2"),
        delta("m2", "t"),
        delta("m2", "wo"),
        whole("m2", "two"),
        whole("m2", "more"),
    ]
    talk = await lab.open(AWAIT, started("$1"), *said, result("$1"))
    assert (await talk.turn("a"))[1] == "one\n\ntwo\n\nmore"


async def test_a_turn_of_its_own_that_a_message_joins_goes_on_as_its_answer(lab: Lab) -> None:
    own = [begin("m-own"), delta("m-own", "by itself")]
    joined = [
        AWAIT,
        started("$1"),
        begin("m-1"),
        delta("m-1", "one"),
        result("$1", origin={"kind": "task-notification"}),
    ]
    talk = await lab.open(*own, *joined)
    began = await talk.until(Began)
    ended, reply = await talk.turn("a")
    assert (ended.error, reply, talk.reply(began.turn_id)) == (None, "one", "by itself")
    assert [end.turn_id for end in talk.of(Ended)] == [began.turn_id, "turn_1"]


async def test_a_message_that_waits_behind_a_turn_of_its_own_is_answered_in_its_own(lab: Lab) -> None:
    own = [begin("m-own"), delta("m-own", "by itself"), result(origin={"kind": "task-notification"})]
    talk = await lab.open(AWAIT, *own, *turn("$1", "one")[1:])
    ended, reply = await talk.turn("a")
    assert (ended.turn_id, reply) == ("turn_1", "one")
    assert [end.turn_id == "turn_1" for end in talk.of(Ended)] == [False, True]


async def test_an_error_that_names_no_message_ends_the_turn_that_runs(lab: Lab) -> None:
    error = result(subtype="error_during_execution", is_error=True, num_turns=0, errors=["no luck"])
    talk = await lab.open(AWAIT, started("$1"), error, *turn("$2", "two"))
    ended, _ = await talk.turn("a")
    assert ended.error
    assert "no luck" in ended.error.detail
    assert (await talk.turn("b"))[1] == "two"


# Steers and cancels


async def test_a_steer_that_is_taken_up_although_it_was_taken_back_is_interrupted_and_unheard(lab: Lab) -> None:
    cut = [{"await": "cancel_async_message"}, {"answer": {"cancelled": False}}, {"await": "interrupt"}, {"answer": {}}]
    after = [
        aborted("$1"),
        started("$2"),
        begin("m2", "$2"),
        delta("m2", "never"),
        {"await": "interrupt"},
        aborted("$2"),
    ]
    talk = await lab.open(
        AWAIT, started("$1"), begin("m1", "$1"), delta("m1", "one"), AWAIT, *cut, *after, *turn("$3", "x")
    )

    async def steer_and_cancel(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.steer(turn_id, "msg_s", (Part(text="more"),))
        await talk.running.cancel(turn_id)

    ended, reply = await talk.turn("a", steer_and_cancel)
    assert (ended.cancelled, reply) == (True, "one")
    assert [steered.taken for steered in talk.of(Steered)] == [False]
    assert (await talk.turn("b"))[1] == "x"


async def test_a_steer_that_waits_when_the_turn_fails_is_taken_back(lab: Lab) -> None:
    failed = result("$1", is_error=True, result="no luck")
    back = [{"await": "cancel_async_message"}, {"answer": {"cancelled": True}}]
    talk = await lab.open(AWAIT, started("$1"), begin("m1", "$1"), delta("m1", "one"), AWAIT, failed, *back)

    async def steer(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.steer(turn_id, "msg_s", (Part(text="more"),))

    ended, _ = await talk.turn("a", steer)
    assert ended.error
    assert "no luck" in ended.error.detail
    assert [steered.taken for steered in talk.of(Steered)] == [False]


async def test_a_prompt_that_is_taken_back_before_it_began_is_cancelled(lab: Lab) -> None:
    talk = await lab.open(AWAIT, {"await": "cancel_async_message"}, {"answer": {"cancelled": True}}, *turn("$2", "two"))
    turn_id = await talk.say("a")
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    assert (await talk.turn("b"))[1] == "two"


async def test_a_cancel_that_comes_too_late_leaves_the_answer(lab: Lab) -> None:
    late = [{"await": "interrupt"}, result("$1"), {"answer": {"still_queued": []}}]
    talk = await lab.open(AWAIT, started("$1"), begin("m1", "$1"), delta("m1", "one"), *late, *turn("$2", "two"))

    async def cancel(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.cancel(turn_id)

    ended, reply = await talk.turn("a", cancel)
    assert (ended.cancelled, ended.error, reply) == (False, None, "one")
    assert (await talk.turn("b"))[1] == "two"


# Bytes


@pytest.mark.parametrize(
    "bad",
    [
        {"raw": "WARNING: not of the protocol"},
        {"hex": "fffe00"},
        {"raw": ""},
        {"raw": "{}"},
        {"raw": '{"type":"result","usage":7}'},
        {"raw": '{"type":"news","of":"tomorrow"}'},
        {"raw": '{"type":"control_response","response":{"request_id":"nobody"}}'},
    ],
)
async def test_lines_that_are_not_of_the_protocol_stop_neither_the_opening_nor_a_turn(lab: Lab, bad: Step) -> None:
    lines = [line for step in turn("$1", "one") for line in (step, bad)]
    talk = await lab.open(bad, {"await": "initialize"}, bad, {"answer": {}}, bad, *lines)
    assert (await talk.turn("a"))[1] == "one"


async def test_single_bytes_many_lines_in_one_read_and_a_flood_on_stderr_are_heard(lab: Lab) -> None:
    strange = "é 漢 😀 \u2028\u2029\x85"
    awaited, *rest = turn("$2", "two")
    slowly: list[Step] = [{"bytewise": True}, *turn("$1", strange), {"bytewise": False}]
    talk = await lab.open(*slowly, {"stderr": 3_000_000}, awaited, {"at_once": rest})
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == [strange, "two"]


async def test_a_line_of_ten_megabytes_is_heard(lab: Lab) -> None:
    big = "y" * 10_000_000
    talk = await lab.open(AWAIT, started("$1"), begin("m1", "$1"), delta("m1", big), result("$1"))
    assert (await talk.turn("a"))[1] == big


async def test_a_line_over_the_limit_fails_its_turn_and_not_the_session(lab: Lab) -> None:
    over = [
        AWAIT,
        started("$1"),
        {"long": ['{"type":"user","message":"', 200_000]},
        {"await": "interrupt"},
        aborted("$1"),
    ]
    talk = await lab.open(*over, *turn("$2", "two"), line_limit=100_000)
    ended, _ = await talk.turn("a")
    assert ended.error
    assert "over the limit" in ended.error.detail
    assert (await talk.turn("b"))[1] == "two"


async def test_a_result_over_the_limit_ends_its_turn_as_failed(lab: Lab) -> None:
    long = {"long": ['{"duration_api_ms":1,"total_cost_usd":0.1,"result":"', 200_000]}
    talk = await lab.open(*turn("$1", "one")[:-1], long, *turn("$2", "two"), line_limit=100_000)
    ended, reply = await talk.turn("a")
    assert ended.error
    assert reply == "one"
    assert (await talk.turn("b"))[1] == "two"


# Deaths

DEATHS: list[Step] = [{"exit": 7}, {"signal": 9}]
LIFE = turn("$1", "one")


@pytest.mark.parametrize("death", DEATHS)
async def test_a_death_while_opening_is_told_with_what_it_wrote(lab: Lab, death: Step) -> None:
    with pytest.raises(OpenFailed, match="no such luck"):
        await lab.open({"await": "initialize"}, {"stderr": "no such luck"}, death)


async def test_a_claude_code_that_talks_and_never_answers_is_not_opened(lab: Lab) -> None:
    with pytest.raises(OpenFailed, match="does not answer"):
        await lab.open({"await": "initialize"}, *[tell("system", subtype="news")] * 1_001)


async def test_a_refusal_while_opening_is_told(lab: Lab) -> None:
    with pytest.raises(OpenFailed, match="because of the weather"):
        await lab.open({"await": "initialize"}, {"refuse": "because of the weather"})


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("point", range(1, len(LIFE) + 1))
async def test_a_death_at_any_point_of_a_turn_is_told_last(lab: Lab, death: Step, point: int) -> None:
    talk = await lab.open(*LIFE[:point], death)
    await talk.say("a")
    exited = await talk.exit()
    assert exited.exit_code == (7 if "exit" in death else -9)
    assert exited.reason == "died"
    assert [ended.turn_id for ended in talk.of(Ended)] == ["turn_1"] * (point == len(LIFE))
    assert talk.reply("turn_1") == ("one" if point >= 5 else "")


async def test_a_death_while_idle_is_told(lab: Lab) -> None:
    talk = await lab.open(*turn("$1", "one"), {"stderr": "\x1b[31mfarewell\x1b[0m"}, {"exit": 3})
    await talk.turn("a")
    exited = await talk.exit()
    assert (exited.exit_code, exited.detail) == (3, "farewell")


async def test_a_claude_code_that_closes_its_output_is_ended(lab: Lab) -> None:
    talk = await lab.open(AWAIT, {"close": "stdout"})
    pid = talk.running.pid
    assert pid is not None
    await talk.say("a")
    assert (await talk.exit()).reason == "died"
    assert not alive(pid)


async def test_a_claude_code_that_hears_nothing_is_killed_in_the_time_that_closing_may_take(lab: Lab) -> None:
    talk = await lab.open(AWAIT, started("$1"), {"hang": True})
    await talk.say("a")
    await talk.running.cancel("turn_1")
    pid = talk.running.pid
    assert pid is not None
    async with asyncio.timeout(3):
        await talk.running.close(0.5)
    assert not alive(pid)
    said = await talk.rest()
    assert isinstance(said[-1], Exited)


# Questions


@pytest.mark.parametrize("end", [[], [{"exit": 3}]], ids=["closed", "dies"])
async def test_what_it_forked_ends_with_it_whatever_it_ignores(lab: Lab, end: list[Step]) -> None:
    talk = await lab.open({"fork": True}, *turn("$1", "one"), *end)
    assert (await talk.turn("a"))[1] == "one"
    if not end:
        assert len(marked(lab.mark)) > 1
        await talk.running.close(0.5)
    await talk.exit()
    assert marked(lab.mark) == set()


async def test_a_question_that_is_withdrawn_is_not_answered(lab: Lab) -> None:
    asks = tell(
        "control_request", request_id="q1", request={"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
    )
    withdrawn = [asks, tell("control_cancel_request", request_id="q1"), whole("m1", "one"), {"await": "interrupt"}]
    talk = await lab.open(AWAIT, started("$1"), *withdrawn, aborted("$1"))
    turn_id = await talk.say("a")
    asked = await talk.until(Asked)
    await talk.until(Text)
    await talk.running.answer(asked.request_id, True, None, None)
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled


async def test_a_request_that_nobody_knows_is_refused_so_that_it_goes_on(lab: Lab) -> None:
    request = tell("control_request", request_id="q1", request={"subtype": "hook_callback"})
    talk = await lab.open(AWAIT, started("$1"), request, {"await_answer": "q1"}, whole("m1", "one"), result("$1"))
    assert (await talk.turn("a"))[1] == "one"


async def test_retries_are_shown_and_what_is_repeated_is_said_once(lab: Lab) -> None:
    retry = tell(
        "system", subtype="api_retry", attempt=1, max_retries=3, retry_delay_ms=500, error_status=529, error="x"
    )
    said = [begin("m1", "$1"), delta("m1", "one "), retry, begin("m2"), delta("m2", "one "), delta("m2", "two")]
    talk = await lab.open(AWAIT, started("$1"), *said, whole("m2", "one two"), result("$1"))
    assert (await talk.turn("a"))[1] == "one two"
    [wrote] = talk.of(Wrote)
    assert "529" in wrote.text
    assert "1 of 3" in wrote.text


# Setting up


async def test_what_is_not_there_is_missing(lab: Lab, tmp_path: Path) -> None:
    agent = ClaudeAgent("claude", {"command": str(tmp_path / "claude")})
    assert "is not a program" in str(await agent.missing())
    home = str(tmp_path / "nowhere")
    assert "nowhere" in str(await ClaudeAgent("claude", {"command": sys.executable, "home": home}).missing())
    with pytest.raises(OpenFailed, match="nowhere"):
        await lab.open(home=home)


async def test_a_claude_code_that_is_not_installed_is_missing_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.agents.claude.options._bundled", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "pip install 'antiphon[claude]'" in str(await ClaudeAgent("claude", {}).missing())
