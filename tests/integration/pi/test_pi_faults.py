"""A scripted pi that misbehaves in ways that the real one does not on demand."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.agents.pi import PiAgent
from antiphon.ports.agent import AgentSpec, Began, Ended, Exited, OpenFailed, Resumable, RunningAgent, Text, Wrote
from antiphon.testing.processes import alive, eventually, marked, new_mark
from integration.codex.talk import PATIENCE_S, Talk, environment

Step = dict[str, Any]
OPENED: Step = {"await": "get_state"}
PROMPTED: list[Step] = [{"await": "prompt"}, {"answer": None}]
START: Step = {"tell": {"type": "agent_start"}}
END: Step = {"tell": {"type": "agent_end", "messages": []}}
STATE: Step = {"await": "get_state"}
IDLE: Step = {"answer": {"isStreaming": False}}


def piece(text: str) -> Step:
    delta = {"type": "text_delta", "contentIndex": 0, "delta": text}
    return {"tell": {"type": "message_update", "message": {}, "assistantMessageEvent": delta}}


def whole(text: str, stop: str = "stop", **fields: Any) -> Step:
    content = [{"type": "text", "text": text}]
    usage = {"input": 3, "output": 2, "cacheRead": 1, "cost": {"total": 0.5}}
    message = {"role": "assistant", "content": content, "stopReason": stop, "usage": usage, **fields}
    return {"tell": {"type": "message_end", "message": message}}


def turn(text: str) -> list[Step]:
    """A turn as it should be."""
    return [*PROMPTED, START, piece(text), whole(text), END]


def retry(attempt: int) -> Step:
    event = {"attempt": attempt, "maxAttempts": 3, "delayMs": 10, "errorMessage": "503 come back"}
    return {"tell": {"type": "auto_retry_start", **event}}


class Lab:
    """Sessions with scripted pis."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.place = directory / "place"
        self._open: list[RunningAgent] = []
        self.mark = new_mark()

    async def open(self, *steps: Step, resume_token: str | None = None, **options: Any) -> Talk:
        script = self._directory / f"script{len(self._open)}.json"
        script.write_bytes(msgspec.json.encode(steps))
        command = [sys.executable, "-m", "antiphon.testing.fault_lab.pi", str(script)]
        spec = AgentSpec(
            name="pi",
            session_id="ses_1",
            cwd=str(self._directory),
            environment={**environment(self._directory), **self.mark},
            place=str(self.place),
        )
        running = await PiAgent("pi", {"command": command, **options}).open(spec, resume_token)
        self._open.append(running)
        return Talk(running)

    async def close(self) -> None:
        for running in self._open:
            await running.close(0)
        assert marked(self.mark) == set()


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    await lab.close()


async def two_turns(talk: Talk) -> list[str]:
    return [(await talk.turn("a"))[1], (await talk.turn("b"))[1]]


async def failed(talk: Talk, words: str) -> str:
    ended, reply = await talk.turn("a")
    assert ended.error
    assert words in ended.error.detail
    return reply


async def test_turns_as_they_should_be(lab: Lab) -> None:
    talk = await lab.open(*turn("one"), *turn("two"))
    assert await two_turns(talk) == ["one", "two"]
    assert [said.resume_token for said in talk.of(Resumable)] == ["lab.jsonl"]
    assert (usage := talk.of(Ended)[0].usage)
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (4, 2, 0.5)
    await talk.running.close(PATIENCE_S)
    assert (await talk.exit()).exit_code == 0


# Orders


async def test_an_end_after_which_pi_goes_on_is_none(lab: Lab) -> None:
    again = [START, piece("half"), whole("half", "error", errorMessage="503 come back"), END, retry(1), STATE, IDLE]
    talk = await lab.open(*PROMPTED, *again, START, piece("half of it"), whole("half of it"), END, *turn("two"))
    assert await two_turns(talk) == ["half of it", "two"]
    assert len(talk.of(Ended)) == 2
    assert "503 come back" in talk.of(Wrote)[0].text


async def test_tries_that_run_out_fail_the_turn_once(lab: Lab) -> None:
    error = whole("", "error", errorMessage="503 come back")
    over: Step = {"tell": {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "503 come back"}}
    talk = await lab.open(*PROMPTED, START, error, END, retry(1), START, error, END, over, *turn("two"))
    assert await failed(talk, "503 come back") == ""
    assert (await talk.turn("b"))[1] == "two"


async def test_a_cancel_while_pi_waits_to_try_again_ends_the_turn(lab: Lab) -> None:
    error = whole("", "error", errorMessage="503 come back")
    over: Step = {"tell": {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "Retry cancelled"}}
    talk = await lab.open(
        *PROMPTED, START, error, END, retry(1), {"await": "abort"}, over, {"answer": None}, *turn("two")
    )

    async def cancel(turn_id: str) -> None:
        await talk.until(Wrote)
        await talk.running.cancel(turn_id)

    assert (await talk.turn("a", cancel))[0].cancelled
    assert (await talk.turn("b"))[1] == "two"


async def test_a_turn_lasts_until_the_conversation_is_shortened(lab: Lab) -> None:
    begins: Step = {"tell": {"type": "compaction_start", "reason": "overflow"}}
    ends: Step = {"tell": {"type": "compaction_end", "reason": "overflow", "result": {}, "willRetry": True}}
    first = [START, whole("", "error", errorMessage="too long"), END, begins, STATE, IDLE, ends]
    talk = await lab.open(*PROMPTED, *first, START, whole("one"), END, *turn("two"))
    assert await two_turns(talk) == ["one", "two"]
    assert "summary" in talk.of(Wrote)[0].text


async def test_a_prompt_for_which_pi_does_not_work_ends_at_once(lab: Lab) -> None:
    talk = await lab.open(*PROMPTED, *turn("two"))
    ended, reply = await talk.turn("/command")
    assert (ended.error, ended.cancelled, reply) == (None, False, "")
    assert (await talk.turn("b"))[1] == "two"


async def test_a_prompt_that_pi_refuses_fails_its_turn(lab: Lab) -> None:
    talk = await lab.open({"await": "prompt"}, {"refuse": "no key"}, *turn("two"))
    assert await failed(talk, "no key") == ""
    assert (await talk.turn("b"))[1] == "two"


async def test_a_cancel_before_pi_works_stops_it_as_soon_as_it_does(lab: Lab) -> None:
    aborted = [START, {"await": "abort"}, whole("", "aborted", errorMessage="Request was aborted."), END]
    talk = await lab.open(*PROMPTED, STATE, {"answer": {"isStreaming": True}}, *aborted, {"answer": None}, *turn("two"))
    turn_id = await talk.say("a")
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    assert (await talk.turn("b"))[1] == "two"


async def test_a_cancel_that_comes_too_late_leaves_the_answer(lab: Lab) -> None:
    talk = await lab.open(*PROMPTED, START, piece("one"), {"await": "abort"}, whole("one"), END, *turn("two"))

    async def cancel(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.cancel(turn_id)

    ended, reply = await talk.turn("a", cancel)
    assert (ended.cancelled, ended.error, reply) == (False, None, "one")
    assert (await talk.turn("b"))[1] == "two"


async def test_what_pi_does_by_itself_is_a_turn_of_its_own(lab: Lab) -> None:
    """agent-of-empires#2326"""
    own = [START, piece("by itself"), whole("by itself"), END]
    talk = await lab.open(*turn("one"), *own, *turn("two"))
    assert (await talk.turn("a"))[1] == "one"
    began = await talk.until(Began)
    await talk.end(began.turn_id)
    assert talk.reply(began.turn_id) == "by itself"
    assert (await talk.turn("b"))[1] == "two"


async def test_what_came_only_as_a_whole_is_said_once_and_messages_are_set_apart(lab: Lab) -> None:
    talk = await lab.open(*PROMPTED, START, whole("one", "toolUse"), piece("t"), piece("wo"), whole("two"), END)
    assert (await talk.turn("a"))[1] == "one\n\ntwo"


async def test_a_dialog_of_an_extension_is_dismissed(lab: Lab) -> None:
    asks: Step = {"tell": {"type": "extension_ui_request", "id": "x", "method": "confirm", "title": "Sure?"}}
    talk = await lab.open(*PROMPTED, START, asks, {"await": "extension_ui_response"}, whole("one"), END)
    assert (await talk.turn("a"))[1] == "one"


# Bytes


@pytest.mark.parametrize(
    "bad",
    [{"raw": "WARNING: not of the protocol"}, {"hex": "fffe00"}, {"raw": ""}, {"raw": '{"type":7}'}, {"raw": "{}"}],
)
async def test_lines_that_are_not_of_the_protocol_stop_neither_the_opening_nor_a_turn(lab: Lab, bad: Step) -> None:
    """claude-agent-sdk-python#550"""
    lines = [line for step in turn("one") for line in (step, bad)]
    talk = await lab.open(bad, OPENED, bad, {"answer": {"sessionFile": "/x/lab.jsonl"}}, *lines)
    assert (await talk.turn("a"))[1] == "one"


async def test_a_line_in_single_bytes_and_one_of_ten_megabytes_are_heard(lab: Lab) -> None:
    strange = "é 漢 😀 \u2028\u2029\x85"
    split: list[Step] = [{"bytewise": True}, piece(strange), {"bytewise": False}]
    talk = await lab.open(*PROMPTED, START, *split, piece("y" * 10_000_000), END)
    assert (await talk.turn("a"))[1] == strange + "y" * 10_000_000


async def test_single_bytes_many_lines_in_one_read_and_a_flood_on_stderr_are_heard(lab: Lab) -> None:
    strange = "é 漢 😀 \u2028\u2029\x85"
    awaited, *rest = turn("two")
    slowly: list[Step] = [{"bytewise": True}, *turn(strange), {"bytewise": False}]
    talk = await lab.open(*slowly, {"stderr": 3_000_000}, awaited, {"at_once": rest})
    assert [(await talk.turn("a"))[1], (await talk.turn("b"))[1]] == [strange, "two"]


async def test_a_line_over_the_limit_fails_its_turn_and_not_the_session(lab: Lab) -> None:
    """claude-agent-sdk-python#98, ACP python-sdk#27"""
    over: Step = {"long": ['{"type":"message_update","message":"', 200_000]}
    first = [START, piece("y" * 70_000), piece("small"), over, {"await": "abort"}, whole("", "aborted"), END]
    talk = await lab.open(*PROMPTED, *first, *turn("two"), line_limit=100_000)
    assert await failed(talk, "over the limit") == "y" * 70_000 + "small"
    assert (await talk.turn("b"))[1] == "two"


async def test_a_line_over_the_limit_that_repeats_what_was_said_fails_nothing(lab: Lab) -> None:
    repeats = [{"long": [f'{{"type":"{kind}","x":"', 200_000]} for kind in ("turn_end", "agent_end")]
    talk = await lab.open(*PROMPTED, START, piece("one"), whole("one"), *repeats, *turn("two"), line_limit=100_000)
    assert await two_turns(talk) == ["one", "two"]


# Deaths


@pytest.mark.parametrize("death", [{"exit": 7}, {"signal": 9}])
async def test_a_death_while_opening_is_told_with_what_it_wrote(lab: Lab, death: Step) -> None:
    with pytest.raises(OpenFailed, match="no such luck"):
        await lab.open(OPENED, {"stderr": "no such luck"}, death)


@pytest.mark.parametrize("place", range(len(turn("one"))))
async def test_a_death_at_any_point_of_a_turn_is_told_last(lab: Lab, place: int) -> None:
    talk = await lab.open(*turn("one")[: place + 1], {"stderr": "farewell"}, {"exit": 7}, line_limit=100_000)
    await talk.say("a")
    exited = await talk.exit()
    assert (exited.exit_code, exited.reason) == (7, "died")
    assert "farewell" in exited.detail
    assert len(talk.of(Ended)) <= 1


async def test_one_that_hangs_and_ignores_every_polite_word_is_ended(lab: Lab) -> None:
    talk = await lab.open(*PROMPTED, START, piece("one"), {"hang": True})
    await talk.say("a")
    await talk.until(Text)
    pid = talk.running.pid
    assert pid
    await talk.running.close(0.2)
    assert (await talk.until(Exited)).reason == "closed"
    await eventually(lambda: not alive(pid), PATIENCE_S)


@pytest.mark.parametrize("end", [[], [{"await": "prompt"}, {"exit": 3}]], ids=["closed", "dies"])
async def test_what_it_forked_ends_with_it_whatever_it_ignores(lab: Lab, end: list[Step]) -> None:
    talk = await lab.open({"fork": True}, *turn("one"), *end)
    assert (await talk.turn("a"))[1] == "one"
    if end:
        await talk.say("b")
    else:
        assert len(marked(lab.mark)) > 1
        await talk.running.close(0.5)
    await talk.exit()
    assert marked(lab.mark) == set()


async def test_a_conversation_that_is_gone_is_not_begun_anew(lab: Lab) -> None:
    for token in ("gone.jsonl", "../gone.jsonl", "/etc/passwd"):
        with pytest.raises(OpenFailed, match="`clear` the session"):
            await lab.open(resume_token=token)
    (lab.place / "here.jsonl").touch()
    assert (await lab.open(resume_token="here.jsonl")).running.resume_token == "lab.jsonl"
