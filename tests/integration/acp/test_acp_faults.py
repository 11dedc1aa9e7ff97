"""A scripted ACP program that misbehaves in ways that real ones do not on demand."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.agents.acp import AcpAgent
from antiphon.ports.agent import (
    Asked,
    Ended,
    OpenFailed,
    Part,
    Resumable,
    Steered,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Wrote,
)
from antiphon.testing.fault_lab.acp import SECOND_PROMPT, SESSION_ID
from antiphon.testing.processes import alive, marked, new_mark
from integration.acp.talk import Desk, Talk

Step = dict[str, Any]
AWAIT: Step = {"await": "session/prompt"}
CANCEL: Step = {"await": "session/cancel"}
STOP: Step = {"answer": {"stopReason": "end_turn"}}
TEXT = "a\u2028b\u2029c\x85d 😀👩\u200d👩\u200d👧 é ключ"


def update(what: str, /, **fields: Any) -> Step:
    return {"update": {"sessionUpdate": what, **fields}}


def words(text: str, message: str | None = None) -> Step:
    more = {} if message is None else {"messageId": message}
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def tool(tool_id: str, status: str, **fields: Any) -> Step:
    return update(
        "tool_call" if status == "pending" else "tool_call_update", toolCallId=tool_id, status=status, **fields
    )


def stops(reason: str, **fields: Any) -> Step:
    return {"answer": {"stopReason": reason, **fields}}


def permission(number: int | str, *kinds: str, tool_id: str = "t") -> Step:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    call = {"toolCallId": tool_id, "title": "fell the maple", "kind": "execute", "rawInput": {"command": "fell maple"}}
    params = {"sessionId": SESSION_ID, "toolCall": call, "options": options}
    return {"tell": {"id": number, "method": "session/request_permission", "params": params}}


def turn(text: str) -> list[Step]:
    """A turn as it should be."""
    return [AWAIT, words(text), STOP]


class Lab:
    """Sessions with scripted programs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._desks: list[Desk] = []
        self.mark = new_mark()

    async def open(
        self, *steps: Step, resume_token: str | None = None, model: str | None = None, **options: Any
    ) -> Talk:
        script = self._directory / f"script{len(self._desks)}.json"
        script.write_bytes(msgspec.json.encode(steps))
        command = [sys.executable, "-m", "antiphon.testing.fault_lab.acp", str(script)]
        desk = Desk(self._directory, {"command": command, "environment": self.mark, **options})
        self._desks.append(desk)
        return await desk.open(resume_token, model=model)

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


async def stderr(talk: Talk) -> str:
    """What the program wrote to stderr, once it was killed: a polite end would keep it back."""
    pid = talk.running.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    return (await talk.exit()).detail


def remarks(talk: Talk) -> list[str]:
    return [wrote.text for wrote in talk.of(Wrote)]


async def test_turns_as_they_should_be(lab: Lab) -> None:
    talk = await lab.open(*turn("one"), *turn("two"))
    assert await two_turns(talk) == ["one", "two"]
    assert [said.resume_token for said in talk.of(Resumable)] == [SESSION_ID]
    assert [(ended.error, ended.cancelled) for ended in talk.of(Ended)] == [(None, False)] * 2
    await talk.running.close(2)
    assert (await talk.exit()).exit_code == 0


# Pairing


async def test_what_comes_in_one_read_with_the_answer_is_of_its_turn(lab: Lab) -> None:
    many = [words(f"{number} ") for number in range(500)]
    talk = await lab.open(AWAIT, {"at_once": [*many, STOP]}, *turn("two"))
    assert await two_turns(talk) == ["".join(f"{number} " for number in range(500)), "two"]


async def test_late_words_and_second_answers_belong_to_no_turn(lab: Lab) -> None:
    again: Step = {"tell": {"id": "$1", "result": {"stopReason": "end_turn"}}}
    late = [words("late", "m1"), tool("t1", "completed"), again]
    first = [AWAIT, words("one", "m1"), tool("t1", "pending"), tool("t1", "completed"), STOP]
    second = [AWAIT, *late, words("two", "m2"), *late, STOP, *late]
    talk = await lab.open(*first, *late, *second, *turn("three"))
    assert await two_turns(talk) == ["one", "two"]
    assert (await talk.turn("c"))[1] == "three"
    assert [ended.turn_id for ended in talk.of(Ended)] == ["turn_1", "turn_2", "turn_3"]
    assert [started.turn_id for started in talk.of(ToolStarted)] == ["turn_1"]


async def test_the_end_of_a_cancelled_turn_is_not_taken_for_the_end_of_the_next(lab: Lab) -> None:
    cancelled: Step = {"tell": {"id": "$1", "result": {"stopReason": "cancelled"}}}
    second = [AWAIT, cancelled, words("two"), cancelled, STOP]
    talk = await lab.open(AWAIT, words("one"), CANCEL, cancelled, cancelled, *second)
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    ended, reply = await talk.turn("b")
    assert (ended.cancelled, reply) == (False, "two")
    assert len(talk.of(Ended)) == 2


async def test_words_outside_of_a_turn_reach_a_person_and_no_turn(lab: Lab) -> None:
    talk = await lab.open(*turn("one"), words("the build "), words("is done"), *turn("two"))
    assert (await talk.turn("a"))[1] == "one"
    wrote = await talk.until(Wrote)
    assert wrote.text == "The agent said what belongs to no turn: the build is done"
    assert (await talk.turn("b"))[1] == "two"


async def test_an_agent_never_sees_a_second_prompt(lab: Lab) -> None:
    talk = await lab.open(AWAIT, words("one"), *[CANCEL] * 3, {"stderr": "cancelled\n"}, words("two"))
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.running.steer(turn_id, "msg_2", (Part(text="and this"),))
    assert (await talk.until(Steered)).taken is False
    for _ in range(3):
        await talk.running.cancel(turn_id)
    await talk.running.cancel("another")
    await talk.until(Text)
    told = await stderr(talk)
    assert "cancelled" in told
    assert SECOND_PROMPT not in told


async def test_another_session_of_the_same_program_is_not_heard(lab: Lab) -> None:
    elsewhere: Step = {
        "tell": {
            "method": "session/update",
            "params": {"sessionId": "child", "update": words("elsewhere")["update"]},
        }
    }
    talk = await lab.open(elsewhere, AWAIT, elsewhere, words("one"), elsewhere, STOP)
    assert (await talk.turn("a"))[1] == "one"
    assert not remarks(talk)


async def test_a_session_that_is_loaded_does_not_say_again_what_was_said(lab: Lab) -> None:
    capabilities: Step = {"answer": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}}
    told_anew = [update("user_message_chunk", content={"type": "text", "text": "a"}), words("old", "m1")]
    steps = [{"await": "initialize"}, capabilities, {"await": "session/load"}, *told_anew, {"answer": None}]
    talk = await lab.open(*steps, *turn("new"), resume_token="session-1")
    assert talk.running.resume_token == "session-1"
    assert (await talk.turn("b"))[1] == "new"
    assert not remarks(talk)
    assert not talk.of(Resumable)


# Ends of turns


@pytest.mark.parametrize(
    ("reason", "cancelled", "error"),
    [
        ("end_turn", False, None),
        ("cancelled", True, None),
        ("max_tokens", False, "limit of tokens"),
        ("max_turn_requests", False, "limit of model calls"),
        ("refusal", False, "refuses"),
        ("tired", False, "not known here: tired"),
    ],
)
async def test_only_an_end_of_turn_is_a_whole_answer(lab: Lab, reason: str, cancelled: bool, error: str | None) -> None:
    usage = {"inputTokens": 3, "outputTokens": 4, "cachedReadTokens": 5, "totalTokens": 12}
    talk = await lab.open(AWAIT, words("one"), stops(reason, usage=usage), *turn("two"))
    ended, reply = await talk.turn("a")
    assert (reply, ended.cancelled) == ("one", cancelled)
    assert (error or "") in (ended.error.detail if ended.error else "")
    assert bool(ended.error) == bool(error)
    assert ended.usage
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (8, 4)
    assert (await talk.turn("b"))[1] == "two"


@pytest.mark.parametrize(
    ("refusal", "detail"),
    [
        ("no such luck", "no such luck"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "no such luck"}}, "no such luck"),
        ({"code": -32603, "message": "It failed", "data": "no such luck"}, "It failed: no such luck"),
        ({"code": -32000, "message": "Authentication required"}, "It is not logged in"),
        ({}, "gives no reason"),
    ],
)
async def test_a_prompt_that_is_refused_fails_its_turn_with_the_reason(lab: Lab, refusal: Any, detail: str) -> None:
    talk = await lab.open(AWAIT, {"refuse": refusal}, *turn("two"))
    ended, _ = await talk.turn("a")
    assert ended.error
    assert ended.error.code == "agent_failed"
    assert detail in ended.error.detail
    assert talk.running.resume_token is None
    assert (await talk.turn("b"))[1] == "two"


async def test_what_a_turn_costs_is_what_the_session_costs_more_than_before(lab: Lab) -> None:
    def cost(amount: float) -> Step:
        return update("usage_update", used=1, size=10, cost={"amount": amount, "currency": "USD"})

    first, second = [AWAIT, cost(0.1), cost(0.25), STOP, cost(0.5)], [AWAIT, cost(0.75), STOP]
    talk = await lab.open(*first, *second, *turn("three"))
    ends = [(await talk.turn("a"))[0] for _ in range(3)]
    costs = [ended.usage.cost_usd if ended.usage else 0.0 for ended in ends]
    late = costs[1] - 0.25  # what is told after the first turn's end may be read after the second one's prompt
    assert costs == pytest.approx([0.25, 0.25 + late, 0.0])
    assert late == pytest.approx(0.0) or late == pytest.approx(0.25)


async def test_a_cancel_that_an_agent_fails_at_is_a_cancel_all_the_same(lab: Lab) -> None:
    talk = await lab.open(
        AWAIT, words("one"), CANCEL, {"tell": {"id": "$1", "error": {"code": -1, "message": "aborted"}}}
    )
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.running.cancel(turn_id)
    ended = await talk.end(turn_id)
    assert (ended.error, ended.cancelled) == (None, True)


async def test_an_answer_that_was_whole_before_the_cancel_came_counts(lab: Lab) -> None:
    whole: Step = {"tell": {"id": "$1", "result": {"stopReason": "end_turn"}}}
    talk = await lab.open(AWAIT, words("one"), CANCEL, whole)
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.running.cancel(turn_id)
    assert not (await talk.end(turn_id)).cancelled


async def test_a_turn_that_is_cancelled_before_it_says_anything_has_neither_answer_nor_cost(lab: Lab) -> None:
    before = {"stopReason": "end_turn", "usage": {"inputTokens": 9, "outputTokens": 9}}
    second: Step = {"tell": {"id": "$2", "result": before}}
    talk = await lab.open(*turn("one"), AWAIT, CANCEL, second)
    await talk.turn("a")
    turn_id = await talk.say("b")
    await talk.running.cancel(turn_id)
    ended = await talk.end(turn_id)
    assert (ended.cancelled, ended.usage, talk.reply(turn_id)) == (True, None, "")


# Permissions


@pytest.mark.parametrize(
    ("kinds", "allow", "option_id", "chosen"),
    [
        (("allow_always", "allow_once", "reject_once"), True, None, "allow_once"),
        (("allow_always", "allow_once", "reject_once"), True, "allow_always", "allow_always"),
        (("allow_once", "reject_once"), True, "reject_once", "allow_once"),
        (("allow_once", "reject_always", "reject_once"), False, None, "reject_once"),
        (("allow_once", "reject_always", "reject_once"), False, "allow_once", "reject_once"),
        (("allow_once", "reject_always"), False, None, "reject_always"),
        (("allow_once",), False, None, None),
    ],
)
async def test_an_answer_chooses_the_narrowest_option_that_fits(
    lab: Lab, kinds: tuple[str, ...], allow: bool, option_id: str | None, chosen: str | None
) -> None:
    talk = await lab.open(AWAIT, permission("p", *kinds), {"await_answer": "p"}, words("heard"))
    await talk.say("a")
    asked = await talk.until(Asked)
    assert (asked.question, asked.tool) == ("execute: fell the maple — fell maple", "execute")
    assert [option["id"] for option in asked.options] == list(kinds)
    await talk.running.answer("another", not allow, None, None)
    await talk.running.answer(asked.request_id, allow, option_id, "a note")
    await talk.running.answer(asked.request_id, not allow, None, None)
    await talk.until(Text)
    outcome = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert msgspec.json.decode((await stderr(talk)).removeprefix("answer ")) == {"outcome": outcome}


async def test_a_cancel_settles_every_question_also_those_that_come_after_it(lab: Lab) -> None:
    both = ("allow_once", "reject_once")
    cancelled = [{"await_answer": 7}, {"await_answer": "7"}, permission(8, *both), {"await_answer": 8}]
    steps = [AWAIT, permission(7, *both, tool_id="a"), permission("7", *both, tool_id="b"), CANCEL, *cancelled]
    talk = await lab.open(*steps, words("heard"))
    turn_id = await talk.say("a")
    first, second = await talk.until(Asked), await talk.until(Asked)
    assert first.request_id != second.request_id
    await talk.running.cancel(turn_id)
    await talk.until(Text)
    assert (await stderr(talk)).count('answer {"outcome":{"outcome":"cancelled"}}') == 3
    assert len(talk.of(Asked)) == 2


async def test_a_session_that_waits_for_a_person_holds_up_no_other(lab: Lab) -> None:
    asking = await lab.open(AWAIT, permission(1, "allow_once"), {"await_answer": 1}, STOP)
    turn_id = await asking.say("a")
    asked = await asking.until(Asked)
    other = await lab.open(*turn("one"))
    assert (await other.turn("b"))[1] == "one"
    await asking.running.answer(asked.request_id, True, None, None)
    assert (await asking.end(turn_id)).error is None


async def test_questions_that_nobody_can_answer_are_settled_at_once(lab: Lab) -> None:
    both = ("allow_once", "reject_once")
    outside = [permission(1, *both), {"await_answer": 1}]
    malformed: Step = {"tell": {"id": 2, "method": "session/request_permission", "params": {"options": 1}}}
    hopeless = [AWAIT, malformed, {"await_answer": 2}, permission(3, "reject_once"), {"await_answer": 3}]
    left = [permission(4, *both), STOP, {"await_answer": 4}]
    talk = await lab.open(*turn("zero"), *outside, words("settled"), *hopeless, *left, AWAIT, words("heard"))
    await talk.turn("a")
    await talk.until(Wrote)  # else the question may come after the next prompt, and be one of that turn
    await talk.turn("b")
    await talk.say("c")
    await talk.until(Text)
    told = (await stderr(talk)).splitlines()
    assert [msgspec.json.decode(line.removeprefix("answer ")) for line in (told[0], told[2], told[3])] == [
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected", "optionId": "reject_once"}},
        {"outcome": {"outcome": "cancelled"}},
    ]
    assert '"code":-32602' in told[1]


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file", "terminal/create", "craft/unheard_of"])
async def test_what_antiphon_does_not_offer_is_refused_so_that_the_agent_goes_on(lab: Lab, method: str) -> None:
    request: Step = {"tell": {"id": 1, "method": method, "params": {"sessionId": SESSION_ID, "path": "/etc/passwd"}}}
    talk = await lab.open(AWAIT, request, {"await_answer": 1}, words("heard"))
    await talk.say("a")
    await talk.until(Text)
    assert '"code":-32601' in await stderr(talk)


# What it does besides talking


async def test_tools_are_told_once_with_what_they_are_given_and_what_came_of_it(lab: Lab) -> None:
    output = [{"type": "content", "content": {"type": "text", "text": "felled"}}]
    steps = [
        words("first"),
        tool("t1", "pending", title="Terminal", kind="execute", rawInput={}),
        tool("t1", "in_progress", rawInput={"command": "fell maple"}),
        tool("t1", "in_progress", content=output),
        tool("t1", "completed", rawOutput={"exit": 0}),
        tool("t1", "completed"),
        words("second"),
        tool("t2", "completed", title="Read it", kind="read", rawOutput="x" * 100_000),
        tool("t3", "failed", name="Edit"),
        update("plan", entries=[{"content": "fell", "priority": "high", "status": "pending"}]),
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        update("agent_message_chunk", content={"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        update("something_new", x=1),
        update("available_commands_update", availableCommands=[]),
    ]
    talk = await lab.open(AWAIT, *steps, STOP)
    ended, reply = await talk.turn("a")
    assert (ended.error, reply) == (None, "first\n\nsecond")
    started = {said.tool_id: (said.name, said.input) for said in talk.of(ToolStarted)}
    assert started["t1"] == ("execute", {"command": "fell maple"})
    assert started["t2"] == ("read", {"title": "Read it"})
    assert started["plan-1"][0] == "plan"
    assert started["plan-1"][1]["entries"][0]["content"] == "fell"
    told = {said.tool_id: (said.outcome, said.output) for said in talk.of(ToolEnded)}
    assert told["t1"] == ("completed", "felled")
    assert len(told["t2"][1]) < 50_000
    assert told["t3"] == ("failed", None)
    assert len(talk.of(ToolStarted)) == len(talk.of(ToolEnded)) == 4
    assert [thought.text for thought in talk.of(Thought)] == ["hm"]
    assert remarks(talk) == ["The agent sent what can't be shown as text (image)."]


async def test_a_tool_of_which_nothing_more_is_told_is_shown_all_the_same(lab: Lab) -> None:
    talk = await lab.open(AWAIT, tool("t1", "pending", title="Wait", kind="other"))
    await talk.say("a")
    assert (await talk.until(ToolStarted)).input == {"title": "Wait"}


async def test_a_change_of_mode_reaches_a_person(lab: Lab) -> None:
    talk = await lab.open(AWAIT, update("current_mode_update", currentModeId="yolo"), STOP)
    await talk.turn("a")
    assert remarks(talk) == ["The agent is in the mode 'yolo' now."]


# Bytes


async def test_characters_that_are_split_anywhere_come_whole(lab: Lab) -> None:
    talk = await lab.open({"bytewise": True}, AWAIT, words(TEXT), words(TEXT[::-1]), STOP)
    assert (await talk.turn("a"))[1] == TEXT + TEXT[::-1]


@pytest.mark.parametrize(
    "bad",
    [
        {"raw": "Debugger attached."},
        {"raw": ""},
        {"raw": "{}"},
        {"raw": "[1, 2]"},
        {"raw": '{"jsonrpc": "2.0", "method": "session/update", "params": 1}'},
        {"raw": '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "session-1", "update": {}}}'},
        {"raw": '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}'},
        {"raw": '{"jsonrpc": "2.0", "id": 1, "result": {}}'},
        {"hex": "fffe00"},
        {"tell": {"method": "_unheard/of"}},
        {"stderr": 3_000_000},
    ],
)
async def test_what_is_not_of_the_protocol_stops_neither_the_opening_nor_a_turn(lab: Lab, bad: Step) -> None:
    opening = [{"await": "initialize"}, bad, {"answer": {"protocolVersion": 1}}]
    talk = await lab.open(*opening, AWAIT, bad, words("one"), bad, STOP, bad, *turn("two"))
    assert await two_turns(talk) == ["one", "two"]
    assert all(ended.error is None for ended in talk.of(Ended))


async def test_words_with_bytes_that_are_not_utf_8_are_heard_and_remarked_on(lab: Lab) -> None:
    text = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":'
    text += '"agent_message_chunk","content":{"type":"text","text":"a@b"}}}}'
    talk = await lab.open(AWAIT, {"hex": text.encode().replace(b"@", b"\xff").hex()}, STOP)
    assert (await talk.turn("a"))[1] == "a\ufffdb"
    assert remarks(talk) == ["The agent wrote bytes that are not UTF-8; \ufffd stands for them."]


async def test_an_answer_that_cannot_be_read_ends_its_turn_as_failed(lab: Lab) -> None:
    steps = [AWAIT, {"raw": '{"jsonrpc": "2.0", "id": $1, "result": {"stopReason": '}, *turn("two")]
    talk = await lab.open(*steps, AWAIT, {"raw": '{"jsonrpc":"2.0","id":$3,"result":{"stopReason":7}}'})
    ended, _ = await talk.turn("a")
    assert ended.error
    assert "can't be read" in ended.error.detail
    assert (await talk.turn("b"))[1] == "two"
    assert (await talk.turn("c"))[0].error


@pytest.mark.parametrize("size", [70_000, 10_000_000])
async def test_a_long_line_and_a_short_one_after_it_are_heard(lab: Lab, size: int) -> None:
    talk = await lab.open(AWAIT, {"at_once": [words("x" * size), words("y"), STOP]})
    assert (await talk.turn("a"))[1] == "x" * size + "y"


async def test_a_line_over_the_limit_fails_its_turn_and_not_the_session(lab: Lab) -> None:
    long: Step = {"long": ['{"jsonrpc":"2.0","method":"session/update","params":"', 200_000]}
    answer: Step = {"long": ['{"jsonrpc":"2.0","id":$2,"result":"', 200_000]}
    stopped: Step = {"tell": {"id": "$1", "result": {"stopReason": "cancelled"}}}
    steps = [long, AWAIT, words("one"), long, CANCEL, stopped, AWAIT, answer, *turn("three")]
    talk = await lab.open(*steps, line_limit=100_000)
    for turn_text in ("a", "b"):
        ended, _ = await talk.turn(turn_text)
        assert ended.error
        assert "over the limit" in ended.error.detail
        assert not ended.cancelled
    assert (await talk.turn("c"))[1] == "three"


# Ends of the program

DEATHS: list[Step] = [{"exit": 3}, {"signal": 9}]


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("method", ["initialize", "session/new"])
async def test_a_death_while_opening_is_told_with_what_it_wrote(lab: Lab, death: Step, method: str) -> None:
    with pytest.raises(OpenFailed, match=f"before it answered {method}.*no config"):
        await lab.open({"await": method}, {"stderr": "no config\n"}, death)


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("point", range(6))
async def test_a_death_at_any_point_of_a_turn_is_told_last(lab: Lab, death: Step, point: int) -> None:
    steps = [AWAIT, words("one"), tool("t", "pending"), permission(1, "allow_once"), words("more"), STOP]
    talk = await lab.open(*steps[: point + 1], {"stderr": "sigh\n"}, death)
    turn_id = await talk.say("a")
    exited = await talk.exit()
    assert exited.detail == "sigh"
    assert exited.exit_code == (-9 if "signal" in death else death["exit"])
    assert [ended.turn_id for ended in talk.of(Ended)] == ([turn_id] if point == 5 else [])


async def test_a_death_while_idle_is_told(lab: Lab) -> None:
    talk = await lab.open(*turn("one"), {"exit": 4})
    await talk.turn("a")
    assert (await talk.exit()).exit_code == 4


async def test_a_program_that_closes_its_output_is_ended(lab: Lab) -> None:
    talk = await lab.open(AWAIT, {"close": "stdout"})
    pid = talk.running.pid
    await talk.say("a")
    await talk.exit()
    assert pid
    assert not alive(pid)


async def test_a_program_that_closes_its_input_is_ended_once_it_has_to_be_told_something(lab: Lab) -> None:
    talk = await lab.open(AWAIT, {"close": "stdin"}, words("one"), {"hang": True})
    turn_id = await talk.say("a")
    await talk.until(Text)
    await talk.running.cancel(turn_id)
    exited = await talk.exit()
    assert (exited.reason, exited.detail) == ("protocol", "acp does not read what it is told.")


async def test_a_program_that_hears_nothing_is_killed_in_the_time_that_closing_may_take(lab: Lab) -> None:
    talk = await lab.open(AWAIT, words("one"), {"hang": True})
    await talk.say("a")
    await talk.until(Text)
    async with asyncio.timeout(10):
        await talk.running.close(0.2)
    assert (await talk.exit()).exit_code == -9


# Openings


@pytest.mark.parametrize("end", [[], [{"exit": 3}]], ids=["closed", "dies"])
async def test_what_it_forked_ends_with_it_whatever_it_ignores(lab: Lab, end: list[Step]) -> None:
    talk = await lab.open({"fork": True}, *turn("one"), *end)
    assert (await talk.turn("a"))[1] == "one"
    if not end:
        assert len(marked(lab.mark)) > 1
        await talk.running.close(0.5)
    await talk.exit()
    assert marked(lab.mark) == set()


async def test_a_program_that_wants_a_login_says_which(lab: Lab) -> None:
    methods = [{"id": "key", "name": "API key", "description": "Set ACME_KEY"}]
    initialized: Step = {"answer": {"protocolVersion": 1, "authMethods": methods}}
    opening = [{"await": "initialize"}, initialized, {"await": "session/new"}]
    refusal: Step = {"refuse": {"code": -32000, "message": "Authentication required"}}
    with pytest.raises(OpenFailed, match=r"not logged in.*`auth_method`: key \(API key: Set ACME_KEY\)"):
        await lab.open(*opening, refusal)
    authenticated = [{"await": "authenticate"}, {"answer": None}]
    talk = await lab.open(*opening[:2], *authenticated, *turn("one"), auth_method="key")
    assert (await talk.turn("a"))[1] == "one"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"protocolVersion": 2}, "speaks version 2 of ACP"),
        ({"protocolVersion": 1, "agentCapabilities": 7}, "can't be read"),
    ],
)
async def test_a_program_of_another_version_is_not_opened(lab: Lab, answer: Any, told: str) -> None:
    with pytest.raises(OpenFailed, match=told):
        await lab.open({"await": "initialize"}, {"answer": answer})


async def test_a_session_that_is_gone_is_not_replaced_by_a_new_one(lab: Lab) -> None:
    with pytest.raises(
        OpenFailed, match=r"can't go on with this conversation \(its session gone\).*not found.*`clear`"
    ):
        await lab.open({"await": "session/resume"}, {"refuse": "not found"}, resume_token="gone")


async def test_a_program_that_keeps_nothing_gives_no_token(lab: Lab) -> None:
    opening = [{"await": "initialize"}, {"answer": {"protocolVersion": 1}}]
    talk = await lab.open(*opening, *turn("one"))
    await talk.turn("a")
    assert talk.running.resume_token is None
    assert not talk.of(Resumable)
    with pytest.raises(OpenFailed, match="can't go on with an old conversation any more"):
        await lab.open(*opening, resume_token="old")


MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
MODELS = {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "large"}]}


def select(name: str, category: str, current: str, *values: str) -> dict[str, Any]:
    options = [{"value": value, "name": value} for value in values]
    group = [{"group": "g", "name": "G", "options": options[1:]}]
    return {
        "id": name,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [*options[:1], *group],
    }


CONFIG = [select("mode", "mode", "ask", "ask", "code"), select("llm", "model", "small", "small", "large")]
FAST = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}


@pytest.mark.parametrize(
    ("session", "model", "options", "requests"),
    [
        ({"modes": MODES}, None, {"mode": "code"}, ["session/set_mode"]),
        ({"modes": MODES}, None, {"mode": "ask"}, []),
        ({"models": MODELS}, "large", {}, ["session/set_model"]),
        ({"models": MODELS}, "small", {}, []),
        ({"configOptions": CONFIG}, "large", {"mode": "code"}, ["session/set_config_option"] * 2),
        ({"configOptions": [*CONFIG, FAST]}, "small", {"config": {"fast": True}}, ["session/set_config_option"]),
    ],
)
async def test_a_mode_and_a_model_are_chosen_in_each_form_that_agents_have(
    lab: Lab, session: Any, model: str | None, options: dict[str, Any], requests: list[str]
) -> None:
    answered: Step = {"answer": {"sessionId": SESSION_ID, **session}}
    chosen = [step for method in requests for step in ({"await": method}, {"answer": {}})]
    talk = await lab.open({"await": "session/new"}, answered, *chosen, *turn("one"), model=model, **options)
    assert (await talk.turn("a"))[1] == "one"


@pytest.mark.parametrize(
    ("session", "model", "options", "told"),
    [
        ({"modes": MODES}, None, {"mode": "yolo"}, "no mode 'yolo'. There are: ask, code"),
        ({}, None, {"mode": "yolo"}, "has no modes"),
        ({"models": MODELS}, "huge", {}, "no model 'huge'. There are: small, large"),
        ({"configOptions": CONFIG}, "huge", {}, "'llm' can't be 'huge'. There are: small, large"),
        ({}, "huge", {}, "can't be told to use the model 'huge'"),
        ({"configOptions": CONFIG}, None, {"config": {"fast": True}}, "no option 'fast'. There are: mode, llm"),
    ],
)
async def test_what_is_not_on_offer_is_told_before_the_first_prompt(
    lab: Lab, session: Any, model: str | None, options: dict[str, Any], told: str
) -> None:
    answered: Step = {"answer": {"sessionId": SESSION_ID, **session}}
    with pytest.raises(OpenFailed, match=told):
        await lab.open({"await": "session/new"}, answered, model=model, **options)


async def test_a_program_that_talks_and_never_answers_is_not_opened(lab: Lab) -> None:
    much: Step = {"at_once": [words("x")] * 10_001}
    with pytest.raises(OpenFailed, match="says much"):
        await lab.open({"await": "session/new"}, much)


async def test_a_request_before_there_is_a_session_is_refused(lab: Lab) -> None:
    early = [{"await": "session/new"}, {"tell": {"id": 1, "method": "fs/read_text_file"}}, {"await_answer": 1}]
    talk = await lab.open(*early, {"tell": {"id": 2, "result": {"sessionId": SESSION_ID}}}, *turn("one"))
    assert (await talk.turn("a"))[1] == "one"


async def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    agent = AcpAgent("acp", {"command": ["no-such-program", "acp"]})
    missing = await agent.missing()
    assert missing
    assert "'no-such-program', is not a program on the PATH" in missing
    with pytest.raises(OpenFailed, match="not a program"):
        await Desk(tmp_path, {"command": ["no-such-program"]}).open()


def test_a_table_that_is_wrong_is_told() -> None:
    for table, told in (({}, "command"), ({"command": []}, "command"), ({"command": ["x"], "modes": 1}, "modes")):
        with pytest.raises(ValueError, match=told):
            AcpAgent("acp", table)
