"""Tools from MCP servers: good ones, and such as start late, die, hang, shout or leave something behind."""

from importlib.util import find_spec
from typing import Any

import msgspec
import pytest

from antiphon.ports.agent import Asked, Exited, ToolEnded, ToolStarted, Wrote
from antiphon.testing.fault_lab.chat import DONE, Answer, FaultyEndpoint, call, chunk, good
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import alive, eventually
from integration.openai.talk import PATIENCE_S, Desk, Talk, lab

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="pip install 'antiphon[mcp]'")


async def with_lab(desk: Desk, *arguments: str, **options: Any) -> Talk:
    """A session whose tools are the MCP server's, and that asks nobody."""
    return await desk.open(**{"approve": "never", "mcp": {"lab": lab(*arguments)}, **options})


@pytest.mark.parametrize("fault", ["", "loud", "split"])
async def test_a_tool_is_called_and_its_result_told(desk: Desk, fault: str) -> None:
    talk = await with_lab(desk, fault)
    ended, reply = await talk.turn('[[say first]] [[tool lab__say {"text": "é 漢 😀"}]] [[output]]')
    assert (ended.error, reply) == (None, "first\n\né 漢 😀")
    started, done = talk.of(ToolStarted)[0], talk.of(ToolEnded)[0]
    assert (started.name, started.input) == ("lab.say", {"text": "é 漢 😀"})
    assert (done.tool_id, done.outcome, done.output) == (started.tool_id, "completed", "é 漢 😀")
    await talk.running.close(1)
    assert len((await talk.exit()).detail) < 20_000


async def test_a_tool_that_fails_is_told_to_the_model_and_the_turn_goes_on(desk: Desk) -> None:
    talk = await with_lab(desk)
    ended, reply = await talk.turn('[[tool lab__fail {"text": "no luck"}]] [[output]]')
    assert (ended.error, reply) == (None, "it failed: no luck")
    assert talk.of(ToolEnded)[0].outcome == "failed"


@pytest.mark.parametrize(
    "server", [lab("early"), lab("silent"), {"command": ["/no/such/program"]}, {"url": "http://127.0.0.1:9/mcp"}]
)
async def test_a_server_that_is_not_there_costs_its_tools_and_nothing_else(desk: Desk, server: dict[str, Any]) -> None:
    talk = await desk.open(mcp={"gone": server}, mcp_start_timeout_s=5)
    ended, reply = await talk.turn("hello")
    assert (ended.error, reply) == (None, "model: hello")
    assert "'gone'" in talk.of(Wrote)[0].text


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next_one(desk: Desk) -> None:
    talk = await with_lab(desk)
    ended, _ = await talk.turn("[[tool lab__die]] [[output]]")
    assert ended.error is None
    assert talk.of(ToolEnded)[0].outcome == "failed"
    ended, reply = await talk.turn('[[tool lab__say {"text": "back"}]] [[output]]')
    assert (ended.error, reply) == (None, "back")


async def test_a_tool_that_never_answers_fails_in_time_and_its_server_is_started_again(desk: Desk) -> None:
    talk = await with_lab(desk, tool_timeout_s=2)
    ended, reply = await talk.turn("[[tool lab__hang]] [[output]]")
    assert ended.error is None
    assert "no answer within 2 s" in reply
    ended, reply = await talk.turn('[[tool lab__say {"text": "back"}]] [[output]]')
    assert (ended.error, reply) == (None, "back")


async def test_a_cancel_does_not_wait_for_a_tool(desk: Desk) -> None:
    """openclaw#14228"""
    talk = await with_lab(desk)

    async def cancel(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn("[[tool lab__hang]] never", cancel)
    assert ended.cancelled
    assert [tool.outcome for tool in talk.of(ToolEnded)] == ["failed"]
    ended, reply = await talk.turn('[[tool lab__say {"text": "back"}]] [[output]]')
    assert (ended.error, reply) == (None, "back"), "a server that is stuck is started again"


async def test_a_kill_in_the_middle_of_a_tool_leaves_nothing_running_and_a_conversation_that_goes_on(
    desk: Desk, model: ModelServer
) -> None:
    """openclaw#106781, claude-agent-sdk-typescript#142"""
    talk = await with_lab(desk)
    _, pids = await talk.turn("[[tool lab__spawn]] [[output]]")
    await talk.say("[[say on it]] [[tool lab__hang]] never")
    await talk.until(ToolStarted)
    token = talk.running.resume_token
    await talk.running.close(0)
    await talk.until(Exited)
    await eventually(lambda: not any(alive(int(pid)) for pid in pids.split()), PATIENCE_S)
    assert (await (await with_lab(desk, resume_token=token)).turn("and now?"))[1] == "model: and now?"
    sent = model.exchanges[-1].body["messages"]
    results = {message["tool_call_id"] for message in sent if message["role"] == "tool"}
    assert {each["id"] for message in sent for each in message.get("tool_calls", ())} == results
    assert len(results) == 2


async def test_a_server_gets_nothing_of_the_agents_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEY", "sk-very-secret")
    server = {**lab(), "environment": {"OWN": "its own"}}
    options = {"api_key_env": "CHAT_KEY", "environment": {"AGENTS": "not its own"}, "mcp": {"lab": server}}
    _, told = await (await with_lab(desk, **options)).turn("[[tool lab__environment]] [[output]]")
    assert "its own" in told
    assert not any(word in told for word in ("sk-very-secret", "CHAT_KEY", "not its own"))


# Permissions


async def test_a_denied_call_is_not_made_and_one_allowed_for_long_is_not_asked_about_again(desk: Desk) -> None:
    talk = await with_lab(desk, approve="always")
    turn_id = await talk.say('[[tool lab__touch {"text": "denied"}]] [[output]]')
    asked = await talk.until(Asked)
    assert (asked.tool, asked.question) == ("lab.touch", 'Use lab.touch? {"text":"denied"}')
    await talk.running.answer(asked.request_id, False, None, None)
    await talk.end(turn_id)
    assert "denied" in talk.reply(turn_id)

    turn_id = await talk.say('[[tool lab__touch {"text": "one"}]] [[tool lab__touch {"text": "two"}]] [[output]]')
    asked = await talk.until(Asked)
    await talk.running.answer(asked.request_id, True, "allow_session", None)
    await talk.end(turn_id)
    assert talk.reply(turn_id) == "touched two"
    assert len(talk.of(Asked)) == 2
    assert {path.name for path in desk.cwd.iterdir()} == {"one", "two"}


async def test_a_list_says_which_tools_may_run_unasked(desk: Desk) -> None:
    talk = await with_lab(desk, approve=["lab.s*"])
    assert (await talk.turn('[[tool lab__say {"text": "free"}]] [[output]]'))[1] == "free"
    await talk.say("[[tool lab__touch]] never")
    assert (await talk.until(Asked)).tool == "lab.touch"


async def test_arguments_that_are_no_json_are_told_to_the_model(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [
        Answer(pieces=(call("lab__say", '{"text": '), chunk({}, "tool_calls"), DONE)),
        Answer(pieces=(call("lab__say", "[]"), chunk({}, "tool_calls"), DONE)),
        good("fine"),
    ]
    talk = await with_lab(faulty)
    assert (await talk.turn("x"))[1] == "fine"
    assert [tool.output for tool in talk.of(ToolEnded)] == ["The arguments are no JSON object."] * 2
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]][:2] == ["lab__touch", "lab__say"]


async def test_a_server_behind_an_address_is_asked_with_its_headers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = pytest.importorskip("mcp.server")
    del mcp
    monkeypatch.setenv("TOOLS_KEY", "tools-secret")
    from doubles.mcp_http import HttpLab

    async with HttpLab() as server:
        table = {"url": server.url, "headers_env": {"Authorization": "TOOLS_KEY"}}
        talk = await desk.open(approve="never", mcp={"web": table})
        ended, reply = await talk.turn('[[tool web__say {"text": "over there"}]] [[output]]')
        assert (ended.error, reply) == (None, "over there")
        assert server.keys == {"tools-secret"}
        assert msgspec.json.encode(talk.heard).find(b"tools-secret") < 0
