import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.testing.model_server.chat_completions import ChatCompletions
from antiphon.testing.model_server.conversation import Conversation, Message, Tool
from antiphon.testing.model_server.dialect import Dialect
from antiphon.testing.model_server.messages import AnthropicMessages
from antiphon.testing.model_server.responses import Responses
from antiphon.testing.model_server.script import (
    Call,
    Cut,
    Hold,
    Pause,
    Refuse,
    Say,
    ScriptError,
    Step,
    Think,
    pieces,
    plan,
)

SHELL = Tool(name="exec_command", parameters=("cmd", "workdir"))


def steps(text: str, *results: str, tools: tuple[Tool, ...] = (SHELL,)) -> list[Step]:
    conversation = Conversation(messages=(Message(text=text, results=results),), tools=tools)
    return list(plan(conversation, 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", [Say("model: hello")]),
        ("[[say X y]]", [Say("X y")]),
        ("[[say X]] rest", [Say("X"), Say("model: rest")]),
        ("a [[think hm]] b", [Think("hm"), Say("model: a  b")]),
        ("[[slow 2 5]]", [Pause(5), Say("1 "), Pause(5), Say("2 ")]),
        ("[[hold gate]]", [Hold("gate"), Say("model: done")]),
        ("[[error 503]] x", [Refuse(503, None, "The script wanted status 503."), Say("model: x")]),
        ("[[error 429 2]]", [Refuse(429, 2, "The script wanted status 429."), Say("model: done")]),
        ("[[error 400 no such luck]]", [Refuse(400, None, "no such luck"), Say("model: done")]),
        ("[[error 400 1 no such luck]]", [Refuse(400, 1, "no such luck"), Say("model: done")]),
        ("[[say a]] [[error cut]]", [Say("a"), Cut()]),
        ("[[hold g]][[verbatim]] [[say x]] ]]\n", [Hold("g"), Say(" [[say x]] ]]\n")]),
        ("", [Say("model: done")]),
    ],
)
def test_directives_are_obeyed_in_their_order(text: str, expected: list[Step]) -> None:
    assert steps(text) == expected


def test_what_follows_a_tool_call_waits_for_its_result() -> None:
    text = '[[say first]] [[shell ls]] [[output]] [[tool grep {"a": 1}]] end'
    [say, call] = steps(text)
    assert say == Say("first")
    assert call == Call("exec_command", {"cmd": "ls", "login": False, "yield_time_ms": 30_000})
    assert steps(text, "listing") == [Say("listing"), Call("grep", {"a": 1})]
    assert steps(text, "listing", "match") == [Say("model: end")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Tool(name="shell"), {"command": ["bash", "-c", "ls"]}),
        (
            Tool(name="Bash", parameters=("command", "description")),
            {"command": "ls", "description": "Run the command of the test"},
        ),
        (Tool(name="bash", parameters=("command",)), {"command": "ls"}),
    ],
)
def test_each_agents_shell_is_called_as_it_wants(tool: Tool, arguments: dict[str, object]) -> None:
    assert steps("[[shell ls]]", tools=(Tool(name="other"), tool)) == [Call(tool.name, arguments)]


@pytest.mark.parametrize(
    "text", ["[[sy x]]", "[[slow 1]]", "[[slow a b]]", "[[error]]", "[[error soon]]", "[[tool x {]]"]
)
def test_a_directive_that_cannot_be_obeyed_is_told(text: str) -> None:
    with pytest.raises(ScriptError):
        steps(text)


def test_an_agent_without_a_shell_is_told_apart() -> None:
    with pytest.raises(ScriptError, match="no shell"):
        steps("[[shell ls]]", tools=())


def test_everything_that_the_user_said_is_recalled_without_its_directives() -> None:
    messages = tuple(Message(text=text) for text in ("[[hold a]] one", "[[say x]]", "two", "[[recall]] three"))
    said = plan(Conversation(messages=messages), 3)
    assert said == (Say("one / two / three"), Say("model: three"))


def test_messages_that_came_into_a_turn_are_answered_one_after_the_other() -> None:
    messages = (Message(text="[[shell ls]] one", results=("listing",)), Message(text="two"))
    conversation = Conversation(messages=messages, tools=(SHELL,))
    assert plan(conversation, 0) == (Say("model: one"), Say("model: two"))
    assert plan(conversation, 1) == (Say("model: two"),)


@given(st.text())
def test_the_pieces_of_a_text_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


RESPONSES = {
    "model": "m",
    "stream": True,
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be good"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": t} for t in ("one", "and")]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fine"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "listing"},
    ],
    "tools": [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
        {"type": "web_search"},
    ],
}
CHAT = {
    "model": "m",
    "stream": True,
    "messages": [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "<environment_context>x"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "and"}]},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": "listing"},
    ],
    "tools": [{"type": "function", "function": {"name": "exec_command", "parameters": {"properties": {"cmd": {}}}}}],
}
ANTHROPIC = {
    "model": "m",
    "stream": True,
    "system": [{"type": "text", "text": "be good"}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": text} for text in ("<system-reminder>x</system-reminder>", "one\n\nand")
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "fine"}]},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "exec_command", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "listing"}]}],
        },
    ],
    "tools": [{"name": "exec_command", "input_schema": {"properties": {"cmd": {}}}}],
}


@pytest.mark.parametrize(
    ("dialect", "request_body"),
    [(Responses(), RESPONSES), (ChatCompletions(), CHAT), (AnthropicMessages(), ANTHROPIC)],
)
def test_every_protocol_is_read_into_the_same_conversation(dialect: Dialect, request_body: dict[str, object]) -> None:
    assert dialect.read(msgspec.json.encode(request_body)) == Conversation(
        model="m",
        stream=True,
        messages=(Message(text="one\n\nand"), Message(text="two", results=("listing",))),
        answered=1,
        tools=(Tool(name="exec_command", parameters=("cmd",)),),
    )


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": 1, "input": 1}'])
@pytest.mark.parametrize("dialect", [Responses(), ChatCompletions(), AnthropicMessages()])
def test_what_is_no_request_is_refused(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        dialect.read(body)


def test_what_claude_code_adds_to_a_request_is_told_apart_from_what_its_user_said() -> None:
    joined = "The user sent a new message while you were working:\ntwo\n\nThis is how Claude Code surfaces messages."
    tool_use = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "listing"}
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "never answered"}, {"type": "text", "text": "one"}]},
            {"role": "system", "content": [{"type": "text", "text": "# Environment"}]},
            {"role": "assistant", "content": [tool_use]},
            {"role": "user", "content": [result, {"type": "text", "text": joined}]},
        ]
    }
    conversation = AnthropicMessages().read(msgspec.json.encode(body))
    assert conversation.messages == (
        Message(text="never answered"),
        Message(text="one", results=("listing",)),
        Message(text="two"),
    )
    assert conversation.joined == 1
