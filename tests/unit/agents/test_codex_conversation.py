"""What Codex may say in which order, and which turn it is told of."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from antiphon.agents.codex.conversation import KEPT_MAX, Conversation
from antiphon.agents.pipes import Overlong
from antiphon.core.session import Problem, Usage
from antiphon.ports.agent import (
    Asked,
    Began,
    Ended,
    Part,
    Resumable,
    Said,
    Steered,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Used,
    Wrote,
)

THREAD = "thread-1"


def line(method: str, request_id: int | None = None, **params: Any) -> bytes:
    message: dict[str, Any] = {"method": method, "params": {"threadId": THREAD, **params}}
    return msgspec.json.encode(message if request_id is None else {**message, "id": request_id})


def started(codex_id: str) -> bytes:
    return line("turn/started", turn={"id": codex_id, "status": "inProgress"})


def completed(codex_id: str, status: str = "completed", **turn: Any) -> bytes:
    return line("turn/completed", turn={"id": codex_id, "status": status, **turn})


def delta(codex_id: str, text: str, item_id: str = "m1") -> bytes:
    return line("item/agentMessage/delta", turnId=codex_id, itemId=item_id, delta=text)


def item(codex_id: str, phase: str, kind: str, item_id: str, **fields: Any) -> bytes:
    return line(f"item/{phase}", turnId=codex_id, item={"type": kind, "id": item_id, **fields})


def user_message(codex_id: str, client_id: str, phase: str = "completed") -> bytes:
    return item(codex_id, phase, "userMessage", f"u-{client_id}", clientId=client_id, content=[])


def command(codex_id: str, phase: str, item_id: str = "c1", **fields: Any) -> bytes:
    return item(codex_id, phase, "commandExecution", item_id, command="sleep 9", cwd="/", **fields)


class Desk:
    """The host's side and Codex's side of one conversation."""

    def __init__(self, *, kept_on_disk: bool = True) -> None:
        self.codex = Conversation(THREAD, requests=2, kept_on_disk=kept_on_disk)
        self.asked: dict[str, int] = {}
        self.marks: list[str | None] = []

    def hear(self, *lines: bytes | Overlong) -> list[Said]:
        for each in lines:
            self.codex.receive(each)
        return self.said()

    def said(self) -> list[Said]:
        """What it says; of ends the marks are noted down and left out."""
        said = list(self.codex.said)
        self.codex.said.clear()
        self.marks += [each.mark for each in said if isinstance(each, Ended)]
        return [msgspec.structs.replace(each, mark=None) if isinstance(each, Ended) else each for each in said]

    def sent(self) -> list[dict[str, Any]]:
        """What was sent, and the numbers of the requests among it noted down by their methods."""
        outbox, self.codex.outbox = self.codex.outbox, []
        sent = [msgspec.json.decode(each, type=dict[str, Any]) for each in outbox]
        self.asked |= {message["method"]: message["id"] for message in sent if "method" in message}
        return sent

    def answer(self, method: str, result: Any = None, refused: str | None = None) -> list[Said]:
        self.sent()
        number = self.asked[method]
        outcome = {"result": result or {}} if refused is None else {"error": {"code": -32600, "message": refused}}
        return self.hear(msgspec.json.encode({"id": number, **outcome}))

    def accept(self, codex_id: str) -> list[Said]:
        return self.answer("turn/start", {"turn": {"id": codex_id, "status": "inProgress"}})

    def prompt(self, turn_id: str, text: str = "hello") -> None:
        self.codex.prompt(turn_id, (Part(text=text),))

    def run(self, turn_id: str, codex_id: str) -> None:
        """Begin a turn, up to Codex's consent."""
        self.prompt(turn_id)
        assert self.accept(codex_id) == []
        assert self.hear(started(codex_id)) == []


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ended(turn_id: str, **fields: Any) -> Ended:
    return Ended(turn_id=turn_id, **fields)


def text(turn_id: str, said: str) -> Text:
    return Text(turn_id=turn_id, text=said)


# Which turn

ACCEPT = "accept"
TURN = [started("x1"), user_message("x1", "turn_a"), delta("x1", "a"), delta("x1", "b"), completed("x1")]


@pytest.mark.parametrize("place", range(len(TURN) + 1))
def test_the_answer_to_the_prompt_may_come_at_any_point_of_its_turn(desk: Desk, place: int) -> None:
    desk.prompt("turn_a")
    said = desk.hear(*TURN[:place])
    said += desk.accept("x1")
    said += desk.hear(*TURN[place:])
    assert said == [text("turn_a", "a"), text("turn_a", "b"), ended("turn_a")]


@pytest.mark.parametrize("place", range(4))
def test_a_turn_without_the_opening_message_is_paired_by_the_answer_alone(desk: Desk, place: int) -> None:
    turn = [started("x1"), delta("x1", "a"), completed("x1")]
    desk.prompt("turn_a")
    said = desk.hear(*turn[:place])
    assert said == []
    said += desk.accept("x1")
    said += desk.hear(*turn[place:])
    assert said == [text("turn_a", "a"), ended("turn_a")]


def test_what_comes_late_for_a_turn_that_is_over_is_never_said_of_the_next(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(delta("x1", "a"), completed("x1"))
    desk.prompt("turn_b")
    late = [delta("x1", "late"), command("x1", "completed"), completed("x1", "failed"), started("x1")]
    assert desk.hear(*late) == []
    assert desk.accept("x2") == []
    assert desk.hear(*late, delta("x2", "b"), *late, completed("x2")) == [text("turn_b", "b"), ended("turn_b")]


def test_a_second_stop_marker_ends_nothing(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    assert desk.hear(completed("x1"), completed("x1"), completed("x1", "failed")) == [ended("turn_a")]
    desk.run("turn_b", "x2")
    assert desk.hear(completed("x1"), completed("x2")) == [ended("turn_b")]


def test_another_threads_words_are_not_said(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    elsewhere = msgspec.json.encode(
        {"method": "item/agentMessage/delta", "params": {"threadId": "t2", "turnId": "x1", "itemId": "m", "delta": "!"}}
    )
    assert desk.hear(elsewhere, completed("x1")) == [ended("turn_a")]


def test_a_turn_that_codex_begins_by_itself_is_a_turn_of_its_own(desk: Desk) -> None:
    said = desk.hear(started("0198-aa"), delta("0198-aa", "woke up"), completed("0198-aa"))
    own = "turn_0198aa"
    assert said == [Began(turn_id=own), text(own, "woke up"), ended(own)]
    desk.run("turn_a", "x1")
    assert desk.hear(completed("x1")) == [ended("turn_a")]


def test_a_turn_that_codex_begins_while_a_prompt_is_under_way_is_not_the_prompts(desk: Desk) -> None:
    desk.prompt("turn_a")
    assert desk.hear(started("own"), delta("own", "mine"), completed("own")) == []
    assert desk.accept("x1") == [Began(turn_id="turn_own"), text("turn_own", "mine"), ended("turn_own")]
    assert desk.hear(started("x1"), delta("x1", "yours"), completed("x1")) == [text("turn_a", "yours"), ended("turn_a")]


def test_a_prompt_that_codex_takes_into_a_turn_of_its_own_becomes_that_turn(desk: Desk) -> None:
    assert desk.hear(started("own"), delta("own", "mine")) == [Began(turn_id="turn_own"), text("turn_own", "mine")]
    desk.prompt("turn_a")
    assert desk.accept("own") == [ended("turn_own")]
    assert desk.hear(delta("own", "both", "m2"), completed("own")) == [text("turn_a", "both"), ended("turn_a")]


def test_a_prompt_in_a_turn_of_codexs_own_is_known_by_its_message_too(desk: Desk) -> None:
    desk.hear(started("own"))
    desk.prompt("turn_a")
    assert desk.hear(delta("own", "mine"), user_message("own", "turn_a")) == [
        text("turn_own", "mine"),
        ended("turn_own"),
    ]
    assert desk.hear(delta("own", "both", "m2"), completed("own")) == [text("turn_a", "both"), ended("turn_a")]
    assert desk.accept("own") == []


def test_an_answer_that_comes_after_the_next_prompt_is_not_taken_for_its_answer(desk: Desk) -> None:
    desk.prompt("turn_a")
    desk.sent()
    number = desk.asked["turn/start"]
    assert desk.hear(started("x1"), user_message("x1", "turn_a"), completed("x1")) == [ended("turn_a")]
    desk.prompt("turn_b")
    desk.hear(started("x2"), delta("x2", "b"))
    assert desk.hear(msgspec.json.encode({"id": number, "result": {"turn": {"id": "x1"}}})) == []
    assert desk.accept("x2") == [text("turn_b", "b")]
    assert desk.hear(completed("x2")) == [ended("turn_b")]


def test_a_prompt_that_is_refused_ends_its_turn_and_hides_no_other(desk: Desk) -> None:
    desk.prompt("turn_a")
    desk.hear(started("own"))
    problem = Problem(code="agent_failed", detail="Codex refused the message: no")
    assert desk.answer("turn/start", refused="no") == [ended("turn_a", error=problem), Began(turn_id="turn_own")]
    desk.hear(completed("own"))
    desk.run("turn_b", "x2")
    assert desk.hear(completed("x2")) == [ended("turn_b")]


def test_an_answer_that_cannot_be_read_ends_the_turn(desk: Desk) -> None:
    desk.prompt("turn_a")
    [said] = desk.answer("turn/start", {"turn": 7})
    assert isinstance(said, Ended)
    assert said.error
    assert said.error.code == "agent_failed"


def test_words_without_end_for_a_turn_without_a_name_break_the_conversation(desk: Desk) -> None:
    desk.prompt("turn_a")
    for _ in range(KEPT_MAX + 1):
        assert desk.hear(delta("x1", "a")) == []
    assert desk.codex.broken


# Words


def test_the_whole_message_does_not_double_its_pieces(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    said = desk.hear(
        delta("x1", "one "),
        delta("x1", "two"),
        item("x1", "completed", "agentMessage", "m1", text="one two three"),
        completed("x1", items=[{"type": "agentMessage", "id": "m1", "text": "one two three"}]),
    )
    assert said == [text("turn_a", "one "), text("turn_a", "two"), text("turn_a", " three"), ended("turn_a")]


def test_a_message_that_only_the_end_of_the_turn_tells_is_said(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    said = desk.hear(completed("x1", items=[{"type": "agentMessage", "id": "m1", "text": "all"}]))
    assert said == [text("turn_a", "all"), ended("turn_a")]


def test_what_is_repeated_after_a_reconnect_is_said_once(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    again = line("error", turnId="x1", willRetry=True, error={"message": "Reconnecting... 1/5"})
    said = desk.hear(delta("x1", "one two"), again, delta("x1", "one two", "m2"), delta("x1", " three", "m2"))
    assert said == [text("turn_a", "one two"), Wrote(text="Reconnecting... 1/5"), text("turn_a", " three")]


def test_thoughts_are_said_once(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    said = desk.hear(
        line("item/reasoning/summaryTextDelta", turnId="x1", itemId="r1", delta="deep", summaryIndex=0),
        item("x1", "completed", "reasoning", "r1", summary=["deep", "deeper"]),
    )
    assert said == [Thought(turn_id="turn_a", text="deep"), Thought(turn_id="turn_a", text="\n\ndeeper")]


def test_the_tokens_of_a_turn_are_what_the_thread_spent_in_it(desk: Desk) -> None:
    def usage(codex_id: str, total: int, last: int) -> bytes:
        counts = {
            name: {"inputTokens": count, "outputTokens": count * 2}
            for name, count in (("total", total), ("last", last))
        }
        return line("thread/tokenUsage/updated", turnId=codex_id, tokenUsage=counts)

    assert desk.hear(usage("before", 100, 7)) == []
    desk.run("turn_a", "x1")
    said = desk.hear(usage("x1", 100, 7), usage("x1", 103, 3), usage("x1", 108, 5), completed("x1"))
    three, eight = Usage(input_tokens=3, output_tokens=6), Usage(input_tokens=8, output_tokens=16)
    assert said == [
        Used(turn_id="turn_a", usage=three),
        Used(turn_id="turn_a", usage=eight),
        ended("turn_a", usage=eight),
    ]
    desk.run("turn_b", "x2")
    assert desk.hear(usage("x2", 109, 1), completed("x2"))[-1] == ended(
        "turn_b", usage=Usage(input_tokens=1, output_tokens=2)
    )


def test_the_token_to_resume_is_told_once_the_thread_is_on_disk() -> None:
    desk = Desk(kept_on_disk=False)
    desk.prompt("turn_a")
    desk.accept("x1")
    assert desk.codex.resume_token is None
    assert desk.hear(user_message("x1", "turn_a")) == [Resumable(resume_token=THREAD)]
    assert desk.codex.resume_token == THREAD
    assert desk.hear(user_message("x1", "turn_a"), completed("x1")) == [ended("turn_a")]


# Tools

TOOLS: list[tuple[dict[str, Any], str, Any, str, Any]] = [
    (
        {
            "type": "commandExecution",
            "command": "ls",
            "cwd": "/w",
            "status": "completed",
            "exitCode": 0,
            "aggregatedOutput": "a\n",
        },
        "shell",
        {"command": "ls", "cwd": "/w"},
        "completed",
        {"exit_code": 0, "output": "a\n"},
    ),
    (
        {"type": "commandExecution", "command": "ls", "cwd": "/w", "status": "declined"},
        "shell",
        {"command": "ls", "cwd": "/w"},
        "failed",
        {"exit_code": None, "output": ""},
    ),
    (
        {
            "type": "fileChange",
            "status": "completed",
            "changes": [{"path": "/w/a", "kind": {"type": "add"}, "diff": "+a"}],
        },
        "file_change",
        {"changes": [{"path": "/w/a", "kind": {"type": "add"}, "diff": "+a"}]},
        "completed",
        {"status": "completed"},
    ),
    (
        {
            "type": "mcpToolCall",
            "server": "s",
            "tool": "t",
            "arguments": {"a": 1},
            "status": "failed",
            "error": {"message": "m"},
        },
        "s.t",
        {"a": 1},
        "failed",
        {"message": "m"},
    ),
    ({"type": "webSearch", "query": "q"}, "web_search", {"query": "q"}, "completed", None),
]


@pytest.mark.parametrize(("fields", "name", "given", "outcome", "output"), TOOLS)
@pytest.mark.parametrize("announced", [True, False])
def test_what_codex_does_is_told_as_tools(
    desk: Desk, fields: dict[str, Any], name: str, given: Any, outcome: str, output: Any, announced: bool
) -> None:
    desk.run("turn_a", "x1")
    whole = {"turnId": "x1", "item": {"id": "i1", **fields}}
    lines = [line("item/started", **whole)] * announced + [line("item/completed", **whole)]
    assert desk.hear(*lines) == [
        ToolStarted(turn_id="turn_a", tool_id="i1", name=name, input=given),
        ToolEnded(turn_id="turn_a", tool_id="i1", outcome=outcome, output=output),
    ]


def test_a_huge_output_is_shortened(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    tool_ended = desk.hear(command("x1", "completed", status="completed", aggregatedOutput="y" * 1_000_000))[-1]
    assert isinstance(tool_ended, ToolEnded)
    assert 30_000 < len(tool_ended.output["output"]) < 40_000


# Cancelling


def test_a_cancel_names_the_turn_that_codex_calls_otherwise(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.cancel("turn_a")
    [sent] = desk.sent()
    assert (sent["method"], sent["params"]) == ("turn/interrupt", {"threadId": THREAD, "turnId": "x1"})
    assert desk.hear(completed("x1", "interrupted")) == [ended("turn_a", cancelled=True)]


def test_a_cancel_of_a_turn_that_is_over_asks_nothing_of_codex(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(completed("x1"))
    desk.run("turn_b", "x2")
    desk.codex.cancel("turn_a")
    assert desk.sent() == []


def test_a_cancel_before_codex_has_begun_the_turn_is_sent_when_it_has(desk: Desk) -> None:
    desk.prompt("turn_a")
    desk.codex.cancel("turn_a")
    assert [message["method"] for message in desk.sent()] == ["turn/start"]
    assert desk.accept("x1") == []
    assert desk.sent() == []
    desk.hear(started("x1"))
    assert [message["method"] for message in desk.sent()] == ["turn/interrupt"]
    assert desk.hear(completed("x1", "interrupted")) == [ended("turn_a", cancelled=True)]


def test_a_cancel_that_crosses_the_end_changes_nothing(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.cancel("turn_a")
    assert desk.hear(completed("x1")) == [ended("turn_a")]
    assert desk.answer("turn/interrupt", refused="no active turn to interrupt") == []


def test_a_cancel_that_codex_refuses_because_nothing_runs_ends_the_turn(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.cancel("turn_a")
    assert desk.answer("turn/interrupt", refused="no active turn to interrupt") == [ended("turn_a", cancelled=True)]


def interrupted_with_shells(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(command("x1", "started", "c1"), command("x1", "started", "c2"), command("x1", "completed", "c2"))
    desk.codex.cancel("turn_a")
    assert desk.answer("turn/interrupt") == []
    assert desk.hear(completed("x1", "interrupted")) == []


def test_a_cancelled_turn_ends_when_its_shells_are_ended_and_leaves_those_of_others_alone(desk: Desk) -> None:
    interrupted_with_shells(desk)
    terminals = [{"itemId": "c0", "processId": "70"}, {"itemId": "c1", "processId": "71"}]
    assert desk.answer("thread/backgroundTerminals/list", {"data": terminals, "nextCursor": "more"}) == []
    assert desk.answer("thread/backgroundTerminals/terminate", {"terminated": True}) == []
    assert desk.answer("thread/backgroundTerminals/list", {"data": []}) == [ended("turn_a", cancelled=True)]


def test_every_shell_is_ended_before_the_cancelled_turn_ends(desk: Desk) -> None:
    interrupted_with_shells(desk)
    desk.answer("thread/backgroundTerminals/list", {"data": [{"itemId": "c1", "processId": "71"}]})
    [sent] = desk.sent()
    assert sent["params"] == {"threadId": THREAD, "processId": "71"}
    said = desk.hear(command("x1", "completed", "c1", status="failed"))
    assert [type(each) for each in said] == [ToolEnded]
    assert desk.answer("thread/backgroundTerminals/terminate") == [ended("turn_a", cancelled=True)]


def test_shells_that_cannot_be_listed_are_ended_all_together(desk: Desk) -> None:
    interrupted_with_shells(desk)
    assert desk.answer("thread/backgroundTerminals/list", refused="unknown variant") == []
    assert desk.answer("thread/backgroundTerminals/clean") == [ended("turn_a", cancelled=True)]


# Steering


def test_a_steer_is_taken_when_codex_goes_on_after_it(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    [sent] = desk.sent()
    assert sent["method"] == "turn/steer"
    assert sent["params"]["expectedTurnId"] == "x1"
    assert sent["params"]["clientUserMessageId"] == "msg_s"
    assert desk.answer("turn/steer", {"turnId": "x1"}) == []
    assert desk.hear(user_message("x1", "msg_s")) == []
    taken = Steered(turn_id="turn_a", message_id="msg_s", taken=True)
    assert desk.hear(delta("x1", "ok"), completed("x1")) == [taken, text("turn_a", "ok"), ended("turn_a")]


def test_what_a_steer_broke_off_and_the_model_repeats_is_said_once(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    said = desk.hear(
        delta("x1", "one"), user_message("x1", "msg_s"), delta("x1", "one", "m2"), delta("x1", " two", "m2")
    )
    assert [each.text for each in said if isinstance(each, Text)] == ["one", " two"]


def test_a_steer_that_codex_refuses_is_not_taken(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    refused = Steered(turn_id="turn_a", message_id="msg_s", taken=False)
    assert desk.answer("turn/steer", refused="no active turn to steer") == [refused]
    assert desk.hear(completed("x1")) == [ended("turn_a")]


def test_a_steer_whose_refusal_crosses_the_end_of_the_turn_is_told_once(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    assert desk.hear(completed("x1")) == [Steered(turn_id="turn_a", message_id="msg_s", taken=False), ended("turn_a")]
    assert desk.answer("turn/steer", refused="no active turn to steer") == []


@pytest.mark.parametrize("status", ["completed", "interrupted"])
def test_a_steer_that_codex_accepts_and_forgets_is_not_taken(desk: Desk, status: str) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    desk.answer("turn/steer", {"turnId": "x1"})
    said = desk.hear(completed("x1", status))
    assert said[0] == Steered(turn_id="turn_a", message_id="msg_s", taken=False)
    assert isinstance(said[1], Ended)


def test_a_steer_that_is_noted_after_the_last_word_is_not_taken(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    desk.hear(delta("x1", "done"), item("x1", "completed", "agentMessage", "m1", text="done"))
    said = desk.hear(user_message("x1", "msg_s"), completed("x1"))
    assert said == [Steered(turn_id="turn_a", message_id="msg_s", taken=False), ended("turn_a")]


def test_a_steer_that_is_noted_in_a_turn_that_is_cut_is_part_of_what_was_cut(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    said = desk.hear(user_message("x1", "msg_s"), completed("x1", "interrupted"))
    assert said == [Steered(turn_id="turn_a", message_id="msg_s", taken=True), ended("turn_a", cancelled=True)]


def test_a_steer_before_codex_has_begun_the_turn_is_sent_when_it_has(desk: Desk) -> None:
    desk.prompt("turn_a")
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    assert [message["method"] for message in desk.sent()] == ["turn/start"]
    desk.accept("x1")
    assert desk.sent() == []
    desk.hear(started("x1"))
    assert [message["method"] for message in desk.sent()] == ["turn/steer"]


@pytest.mark.parametrize("end", [lambda desk: desk.hear(completed("x1")), lambda desk: desk.codex.cancel("turn_a")])
def test_a_steer_into_a_turn_that_ends_is_not_taken(desk: Desk, end: Callable[[Desk], object]) -> None:
    desk.run("turn_a", "x1")
    end(desk)
    desk.codex.steer("turn_a", "msg_s", (Part(text="also"),))
    assert desk.said() == [Steered(turn_id="turn_a", message_id="msg_s", taken=False)]


# Questions


def question(request_id: int = 0, codex_id: str = "x1", method: str = "item/commandExecution/requestApproval") -> bytes:
    return line(method, request_id, turnId=codex_id, itemId="c1", command="rm x", reason="because")


def test_a_question_is_asked_and_answered(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    [asked] = desk.hear(question())
    assert isinstance(asked, Asked)
    assert (asked.turn_id, asked.tool) == ("turn_a", "shell")
    assert "rm x" in asked.question
    assert "because" in asked.question
    desk.codex.answer(asked.request_id, True, None)
    desk.codex.answer(asked.request_id, False, None)
    assert desk.sent() == [{"id": 0, "result": {"decision": "accept"}}]


@pytest.mark.parametrize(
    ("allow", "option_id", "decision"),
    [
        (True, "acceptForSession", "acceptForSession"),
        (True, "cancel", "accept"),
        (False, None, "decline"),
        (False, "cancel", "cancel"),
        (False, "accept", "decline"),
        (True, "rubbish", "accept"),
    ],
)
def test_an_option_is_followed_unless_it_contradicts(
    desk: Desk, allow: bool, option_id: str | None, decision: str
) -> None:
    desk.run("turn_a", "x1")
    desk.hear(question())
    desk.codex.answer("0", allow, option_id)
    assert desk.sent() == [{"id": 0, "result": {"decision": decision}}]


def test_a_question_that_codex_has_settled_itself_is_not_answered_any_more(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(question(), line("serverRequest/resolved", requestId=0))
    desk.codex.answer("0", True, None)
    assert desk.sent() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_question_of_no_turn_that_runs_is_declined(desk: Desk, when: str) -> None:
    if when == "after":
        desk.run("turn_a", "x1")
        desk.hear(completed("x1"))
    assert desk.hear(question(5)) == []
    assert desk.sent() == [{"id": 5, "result": {"decision": "decline"}}]


def test_a_question_that_comes_before_codex_has_named_the_turn_is_asked_when_it_has(desk: Desk) -> None:
    desk.prompt("turn_a")
    assert desk.hear(question()) == []
    [asked] = desk.accept("x1")
    assert isinstance(asked, Asked)
    assert asked.turn_id == "turn_a"


def test_a_sub_agents_question_is_asked_for_the_turn_that_runs(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    params = {"threadId": "t2", "turnId": "y1", "itemId": "c1", "command": "ls"}
    other = msgspec.json.encode({"id": 3, "method": "item/commandExecution/requestApproval", "params": params})
    [asked] = desk.hear(other)
    assert isinstance(asked, Asked)
    assert asked.turn_id == "turn_a"


def test_an_mcp_servers_question_for_yes_or_no_is_asked_and_a_form_is_declined(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    plain = {"mode": "form", "serverName": "s", "message": "Go on?", "requestedSchema": {"type": "object"}}
    [asked] = desk.hear(line("mcpServer/elicitation/request", 1, turnId=None, **plain))
    assert isinstance(asked, Asked)
    assert "Go on?" in asked.question
    desk.codex.answer("1", True, None)
    form = {**plain, "requestedSchema": {"type": "object", "required": ["name"]}}
    assert desk.hear(line("mcpServer/elicitation/request", 2, turnId="x1", **form)) == []
    results = [message["result"]["action"] for message in desk.sent()]
    assert results == ["accept", "decline"]


def test_wider_permissions_are_granted_as_asked_or_not_at_all(desk: Desk) -> None:
    wanted = {"network": {"enabled": True}}
    for number, (allow, granted) in enumerate([(True, wanted), (False, {})]):
        desk.run(f"turn_{number}", f"x{number}")
        request = line("item/permissions/requestApproval", number, turnId=f"x{number}", itemId="i", permissions=wanted)
        assert isinstance(desk.hear(request)[0], Asked)
        desk.codex.answer(str(number), allow, None)
        assert desk.sent() == [{"id": number, "result": {"permissions": granted, "scope": "turn"}}]
        desk.hear(completed(f"x{number}"))


@pytest.mark.parametrize("method", ["item/tool/call", "currentTime/read", "something/new"])
@pytest.mark.parametrize("codex_id", ["x1", "unknown", None])
def test_a_request_that_is_not_known_is_refused_so_that_codex_does_not_wait(
    desk: Desk, method: str, codex_id: str | None
) -> None:
    desk.run("turn_a", "x1")
    assert desk.hear(line(method, 9, turnId=codex_id)) == []
    [sent] = desk.sent()
    assert (sent["id"], sent["error"]["code"]) == (9, -32601)


# Trouble


def test_a_turn_that_fails_says_why(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    error = {"message": '{"error": {"message": "No such model."}}', "codexErrorInfo": "badRequest"}
    assert desk.hear(completed("x1", "failed", error=error)) == [
        ended("turn_a", error=Problem(code="agent_failed", detail="No such model."))
    ]


def test_a_failure_without_a_reason_takes_the_last_trouble_for_it(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    trouble = {"message": "unexpected status 401 Unauthorized", "codexErrorInfo": {"other": {}}}
    [said] = desk.hear(line("error", turnId="x1", willRetry=False, error=trouble), completed("x1", "failed"))
    assert isinstance(said, Ended)
    assert said.error
    assert "codex login" in said.error.detail


def test_only_retries_without_an_end_count_as_waiting_for_the_network(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    counted = {"message": "Reconnecting... 2/5"}
    endless = {"message": "Reconnecting... waiting for network", "additionalDetails": "Connection failed"}
    desk.hear(line("error", turnId="x1", willRetry=True, error=counted))
    assert desk.codex.retrying is None
    desk.hear(line("error", turnId="x1", willRetry=True, error=endless))
    assert desk.codex.retrying == "turn_a"
    desk.hear(delta("x1", "back"))
    assert desk.codex.retrying is None


def test_a_turn_whose_model_is_out_of_reach_is_given_up(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    endless = {"message": "Reconnecting... waiting for network", "additionalDetails": "Connection failed"}
    desk.hear(line("error", turnId="x1", willRetry=True, error=endless))
    desk.codex.lose_patience("turn_a", 60)
    assert [message["method"] for message in desk.sent()] == ["turn/interrupt"]
    assert desk.codex.retrying is None
    [said] = desk.hear(completed("x1", "interrupted"))
    assert isinstance(said, Ended)
    assert said.error
    assert "could not reach its model for 60 s" in said.error.detail
    assert not said.cancelled


def test_a_turn_that_completes_in_the_moment_of_being_given_up_is_complete(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(line("error", turnId="x1", willRetry=True, error={"message": "waiting for network"}))
    desk.codex.lose_patience("turn_a", 60)
    assert desk.hear(completed("x1")) == [ended("turn_a")]


HEADS = [
    b'{"method":"item/agentMessage/delta","params":{"threadId":"thread-1","turnId":"x1","del',
    b'{"method":"item/comp',
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("status", ["completed", "interrupted"])
def test_a_line_over_the_limit_fails_the_turn_that_it_belongs_to(desk: Desk, head: bytes, status: str) -> None:
    desk.run("turn_a", "x1")
    said = desk.hear(Overlong(size=99, head=head))
    assert [type(each) for each in said] == [Wrote]
    assert [message["method"] for message in desk.sent()] == ["turn/interrupt"]
    [said] = desk.hear(completed("x1", status))
    assert isinstance(said, Ended)
    assert said.error
    desk.run("turn_b", "x2")
    assert desk.hear(completed("x2")) == [ended("turn_b")]


def test_a_line_over_the_limit_that_was_the_end_of_the_turn_fails_it_all_the_same(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(Overlong(size=99, head=b'{"method":"turn/completed","params":{"threadId":"thread-1","turn":{"id":"x1"'))
    [said] = desk.answer("turn/interrupt", refused="no active turn to interrupt")
    assert isinstance(said, Ended)
    assert said.error


def test_a_line_over_the_limit_of_a_turn_that_is_over_fails_no_other(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(completed("x1"))
    desk.run("turn_b", "x2")
    desk.hear(Overlong(size=99, head=b'{"method":"item/x","params":{"turnId":"x1",'))
    assert desk.sent() == []
    assert desk.hear(completed("x2")) == [ended("turn_b")]


@pytest.mark.parametrize("head", HEADS)
def test_a_line_over_the_limit_before_the_turn_has_a_name_fails_the_turn_that_begins(desk: Desk, head: bytes) -> None:
    desk.prompt("turn_a")
    desk.hear(Overlong(size=99, head=head))
    desk.accept("x1")
    desk.hear(started("x1"))
    assert [message["method"] for message in desk.sent()] == ["turn/interrupt"]
    [said] = desk.hear(completed("x1"))
    assert isinstance(said, Ended)
    assert said.error


def test_an_answer_over_the_limit_is_a_refusal(desk: Desk) -> None:
    desk.prompt("turn_a")
    [sent] = desk.sent()
    [said] = desk.hear(Overlong(size=99, head=f'{{"id":{sent["id"]},"result":{{"turn"'.encode()))
    assert isinstance(said, Ended)
    assert said.error


def test_an_answer_that_can_not_be_read_is_a_refusal(desk: Desk) -> None:
    desk.prompt("turn_a")
    [sent] = desk.sent()
    [said] = desk.hear(f'{{"id":{sent["id"]},"result":{{"turn":{{"id":"'.encode() + b'\xff"}}}')
    assert isinstance(said, Ended)
    assert said.error
    assert "can't be read" in said.error.detail


BAD_LINES = [
    b"",
    b"not json",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"{}",
    b'{"id":"ours?"}',
    b'{"method":7}',
    b'{"method":"error","params":[]}',
]


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_line_that_is_not_of_the_protocol_stops_nobody(desk: Desk, bad: bytes) -> None:
    desk.run("turn_a", "x1")
    remarks = desk.hear(bad)
    assert [type(each) for each in remarks] == [Wrote]
    assert desk.hear(bad, delta("x1", "a"), completed("x1")) == [text("turn_a", "a"), ended("turn_a")]


def test_a_bad_message_among_those_that_were_kept_stops_nobody(desk: Desk) -> None:
    desk.prompt("turn_a")
    bad = line("item/agentMessage/delta", turnId="x1", itemId=7)
    desk.hear(started("x1"), bad, delta("x1", "a"), completed("x1"))
    said = desk.accept("x1")
    assert [type(each) for each in said] == [Wrote, Text, Ended]


def test_remarks_for_a_person_are_passed_on_once(desk: Desk) -> None:
    warning = line("warning", message="Beware.")
    failed = line("mcpServer/startupStatus/updated", name="s", status="failed", error="no such file")
    said = desk.hear(warning, warning, failed, line("mcpServer/startupStatus/updated", name="t", status="ready"))
    assert said == [Wrote(text="Beware."), Wrote(text="The MCP server s could not be started: no such file.")]


def test_files_beside_a_message_are_pictures_or_places(desk: Desk) -> None:
    picture = Part(path="/w/a.png", media_type="image/png")
    desk.codex.prompt("turn_a", (Part(text="look"), picture, Part(path="/w/b.csv", media_type="text/csv")))
    [sent] = desk.sent()
    kinds = [(given["type"], given.get("path") or given.get("text")) for given in sent["params"]["input"]]
    assert kinds == [("text", "look"), ("localImage", "/w/a.png"), ("text", "Attached file: /w/b.csv")]


def test_the_numbers_of_requests_go_on_from_the_opening(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.codex.cancel("turn_a")
    numbers = [desk.asked["turn/start"], *(message["id"] for message in desk.sent())]
    assert numbers == list(itertools.islice(itertools.count(3), len(numbers)))


def test_the_end_of_a_turn_says_from_where_a_fork_can_begin(desk: Desk) -> None:
    desk.run("turn_a", "x1")
    desk.hear(*TURN)
    assert desk.marks == [f"{THREAD} x1"]
