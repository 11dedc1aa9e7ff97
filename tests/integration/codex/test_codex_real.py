"""The real Codex binary, driven through the adapter against the loopback model server."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import psutil
import pytest

from antiphon.agents.codex import CodexAgent
from antiphon.ports.agent import (
    AgentSpec,
    Asked,
    Ended,
    Exited,
    OpenFailed,
    Part,
    Resumable,
    Steered,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Used,
    Wrote,
)
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import alive, eventually, marked, new_mark
from integration.codex.talk import PATIENCE_S, Desk, Talk, environment


def below(talk: Talk, words: str) -> list[psutil.Process]:
    """The processes below Codex whose command line holds these words."""
    assert talk.running.pid is not None
    found: list[psutil.Process] = []
    for process in psutil.Process(talk.running.pid).children(recursive=True):
        try:
            if words in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_the_second_message_knows_the_first(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("my name is Ada")
    assert (ended.error, ended.cancelled, reply) == (None, False, "model: my name is Ada")
    ended, reply = await talk.turn("[[recall]] who am I?")
    assert ended.error is None
    assert reply == "my name is Ada / who am I?model: who am I?"


async def test_the_answer_comes_in_pieces_and_is_paid_for(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("a b c d")
    assert len(talk.of(Text)) > 2
    assert ended.usage is not None
    assert ended.usage == talk.of(Used)[-1].usage
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (4, 5)


async def test_the_tokens_of_a_turn_are_its_own_also_in_a_resumed_session(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    await talk.running.close(1)
    again = await desk.open(talk.of(Resumable)[0].resume_token)
    ended, _ = await again.turn("two")
    assert ended.usage
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (2, 2)


async def test_a_long_answer_with_every_character_arrives_whole(desk: Desk) -> None:
    talk = await desk.open()
    text = "𝄞 Grüße, 你好 \\ \" ' \t" * 400
    _, reply = await talk.turn(f"[[say {text}]]")
    assert reply == text.strip()


async def test_thoughts_and_tools_are_told(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("[[think hm]] [[say first]] [[shell echo done > made; cat made]] then")
    assert ended.error is None
    assert reply == "first\n\nmodel: then"
    assert "".join(thought.text for thought in talk.of(Thought)) == "hm"
    [started], [tool_ended] = talk.of(ToolStarted), talk.of(ToolEnded)
    assert (started.name, "cat made" in started.input["command"]) == ("shell", True)
    assert (tool_ended.tool_id, tool_ended.outcome) == (started.tool_id, "completed")
    assert tool_ended.output == {"exit_code": 0, "output": "done\n"}
    assert (desk.cwd / "made").read_text() == "done\n"


async def test_a_command_that_fails_is_a_tool_that_failed(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("[[shell exit 3]] then")
    [tool_ended] = talk.of(ToolEnded)
    assert (tool_ended.outcome, tool_ended.output["exit_code"]) == ("failed", 3)


async def test_a_change_of_files_is_a_tool(desk: Desk) -> None:
    talk = await desk.open()
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n"
    await talk.turn(f"[[shell apply_patch <<'EOF'\n{patch}EOF\n]] then")
    [started] = talk.of(ToolStarted)
    assert started.name == "file_change"
    assert (desk.cwd / "new.txt").read_text() == "hello\n"


# Cancelling


async def test_a_cancel_in_the_text_keeps_what_was_said_and_stops_the_model(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()

    async def cancel(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.cancel(turn_id)

    ended, reply = await talk.turn("[[say partial]] [[hold never]] rest", cancel)
    assert (ended.cancelled, ended.error, reply) == (True, None, "partial")
    async with asyncio.timeout(PATIENCE_S):
        await model.asked("hold never", "client_gone")
    _, reply = await talk.turn("[[recall]]")
    assert reply == "rest"


async def test_a_cancel_right_after_the_prompt_hits_its_turn(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("[[hold never]]", talk.running.cancel)
    assert ended.cancelled
    ended, reply = await talk.turn("next")
    assert (ended.cancelled, reply) == (False, "model: next")


@pytest.mark.parametrize("shell", ["sleep 4242", "trap '' TERM HUP INT; sleep 4242; sleep 4242"])
async def test_a_cancel_in_a_tool_leaves_nothing_of_its_shell_running(desk: Desk, shell: str) -> None:
    talk = await desk.open()

    async def cancel(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await eventually(lambda: below(talk, "sleep 4242"))
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn(f"[[shell {shell}]] rest", cancel)
    assert ended.cancelled
    await eventually(lambda: not below(talk, "sleep 4242"), 1)
    _, reply = await talk.turn("next")
    assert reply == "model: next"


async def test_a_cancel_leaves_running_what_an_earlier_turn_began(desk: Desk) -> None:
    talk = await desk.open()
    arguments = '{"cmd": "sleep 4243", "login": false, "yield_time_ms": 250}'
    ended, _ = await talk.turn(f"[[tool exec_command {arguments}]] started a server")
    assert ended.error is None
    assert below(talk, "sleep 4243")

    async def cancel(turn_id: str) -> None:
        await talk.until(ToolStarted, lambda started: "4244" in started.input["command"])
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn("[[shell sleep 4244]] rest", cancel)
    assert ended.cancelled
    await eventually(lambda: not below(talk, "sleep 4244"), 1)
    assert below(talk, "sleep 4243")


async def test_closing_ends_what_codex_left_running_too(desk: Desk) -> None:
    mark = new_mark()
    talk = await desk.open(environment={"FAKE_KEY": "not a key", **mark})
    arguments = '{"cmd": "setsid sleep 4245 & sleep 4245", "login": false, "yield_time_ms": 250}'
    await talk.turn(f"[[tool exec_command {arguments}]] started")
    assert len(below(talk, "sleep 4245")) >= 2
    await talk.running.close(1)
    exited = await talk.exit()
    assert (exited.reason, marked(mark)) == ("closed", set())


# Steering


async def test_a_steer_into_an_answer_is_taken_and_answered_in_the_same_turn(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()

    async def steer(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        async with asyncio.timeout(PATIENCE_S):
            await model.asked("and now this")
        model.release("gate")

    ended, reply = await talk.turn("[[say partial]] [[hold gate]] rest", steer)
    assert ended.error is None
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=True)]
    assert reply == "partialmodel: restmodel: and now this"


async def test_a_steer_in_a_tool_is_taken_after_it(desk: Desk) -> None:
    talk = await desk.open()

    async def steer(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        (desk.cwd / "go").touch()

    ended, reply = await talk.turn("[[shell until test -e go; do sleep 0.01; done]] rest", steer)
    assert (ended.error, reply) == (None, "model: restmodel: and now this")
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=True)]


async def test_a_steer_that_is_cut_off_before_codex_took_it_is_not_taken(desk: Desk) -> None:
    talk = await desk.open()

    async def steer_and_cancel(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn("[[shell sleep 4246]] rest", steer_and_cancel)
    assert ended.cancelled
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=False)]
    _, reply = await talk.turn("[[recall]]")
    assert reply == "rest"


def says(word: str, text: Text) -> bool:
    return word in text.text


async def test_a_steer_at_the_last_moment_is_answered_or_said_not_to_be_taken(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    for number, last in enumerate(["almost", "done"] * 4):
        turn_id = await talk.say(f"[[say almost]] [[hold last{number}]] done")
        async with asyncio.timeout(PATIENCE_S):
            await model.reached(f"last{number}")
        model.release(f"last{number}")
        await talk.until(Text, partial(says, last))
        await talk.running.steer(turn_id, f"msg_s{number}", (Part(text=f"late {number}"),))
        ended = await talk.end(turn_id)
        assert ended.error is None
        if len(talk.of(Steered)) <= number:  # the turn had ended before it was steered
            await talk.until(Steered)
        steered = talk.of(Steered)[number]
        assert steered.message_id == f"msg_s{number}"
        assert steered.taken == (f"late {number}" in talk.reply(turn_id))


async def test_a_steer_after_the_end_is_not_taken(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("one")
    await talk.running.steer(ended.turn_id, "msg_s", (Part(text="late"),))
    assert await talk.until(Steered) == Steered(turn_id=ended.turn_id, message_id="msg_s", taken=False)


# Permissions


async def answered(talk: Talk, text: str, allow: bool, option_id: str | None = None) -> tuple[Ended, str]:
    async def answer(_: str) -> None:
        asked = await talk.until(Asked)
        await talk.running.answer(asked.request_id, allow, option_id, None)

    return await talk.turn(text, answer)


async def test_what_is_allowed_is_done_and_what_is_denied_is_not(desk: Desk) -> None:
    talk = await desk.open(approval_policy="untrusted")
    ended, reply = await answered(talk, "[[shell touch allowed]] then", True)
    assert (ended.error, reply) == (None, "model: then")
    asked = talk.of(Asked)[0]
    assert (asked.turn_id, asked.tool, "touch allowed" in asked.question) == (ended.turn_id, "shell", True)
    assert (desk.cwd / "allowed").exists()

    ended, reply = await answered(talk, "[[shell touch denied]] then [[output]]", False)
    assert ended.error is None
    assert "rejected" in reply
    assert talk.of(ToolEnded)[-1].outcome == "failed"
    assert not (desk.cwd / "denied").exists()


async def test_a_file_change_is_asked_for_too(desk: Desk) -> None:
    talk = await desk.open(approval_policy="untrusted")
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n"
    await answered(talk, f"[[shell apply_patch <<'EOF'\n{patch}EOF\n]] then", True)
    assert talk.of(Asked)[0].tool == "file_change"
    assert (desk.cwd / "new.txt").exists()


async def test_a_denial_that_stops_the_turn_cancels_it(desk: Desk) -> None:
    talk = await desk.open(approval_policy="untrusted")
    ended, _ = await answered(talk, "[[shell touch denied]] then", False, "cancel")
    assert ended.cancelled
    assert not (desk.cwd / "denied").exists()


async def test_a_cancel_while_a_question_waits_settles_it_and_a_late_answer_does_nothing(desk: Desk) -> None:
    talk = await desk.open(approval_policy="untrusted")
    turn_id = await talk.say("[[shell touch late]] then")
    asked = await talk.until(Asked)
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    await talk.running.answer(asked.request_id, True, None, None)
    _, reply = await talk.turn("next")
    assert reply == "model: next"
    assert not (desk.cwd / "late").exists()


async def test_declared_permissions_follow_the_policy(desk: Desk) -> None:
    assert not CodexAgent("codex", desk.options).capabilities.permissions
    assert CodexAgent("codex", {**desk.options, "approval_policy": "untrusted"}).capabilities.permissions


# Errors of the model


@pytest.mark.parametrize(
    ("error", "words"),
    [("500", "high demand"), ("429", "429"), ("400", "status 400"), ("401", "codex login"), ("cut", "disconnected")],
)
async def test_an_error_of_the_model_fails_the_turn_in_words_and_the_session_goes_on(
    desk: Desk, error: str, words: str
) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn(f"[[say part of it]] [[error {error}]] rest")
    assert ended.error is not None
    assert ended.error.code == "agent_failed"
    assert words in ended.error.detail
    assert not ended.cancelled
    assert reply == ("part of it" if error == "cut" else "")
    ended, reply = await talk.turn("[[recall]] next")
    assert (ended.error, reply) == (None, "rest / nextmodel: next")


async def test_an_answer_after_a_retry_is_complete_and_not_doubled(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("[[error 500 1]] fine")
    assert (ended.error, reply) == (None, "model: fine")
    ended, _ = await talk.turn("[[error 500 2]] fine")
    assert ended.error is None
    assert any("Reconnecting" in wrote.text for wrote in talk.of(Wrote))


async def test_a_model_that_is_down_fails_the_turn_in_words_and_the_session_goes_on(
    desk: Desk, model: ModelServer
) -> None:
    talk = await desk.open()
    await talk.turn("one")
    await model.close()
    ended, _ = await talk.turn("two")
    assert ended.error
    assert "could not reach its model" in ended.error.detail
    await model.start()
    ended, reply = await talk.turn("[[recall]]")
    assert (ended.error, reply) == (None, "one / two")


# Death and resumption


async def killed(talk: Talk) -> Exited:
    assert talk.running.pid is not None
    os.kill(talk.running.pid, signal.SIGKILL)
    return await talk.exit()


async def test_a_session_goes_on_after_its_process_was_closed(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    token = talk.running.resume_token
    assert [said.resume_token for said in talk.of(Resumable)] == [token]
    await talk.running.close(2)
    exited = await talk.exit()
    assert (exited.exit_code, exited.reason) == (0, "closed")
    again = await desk.open(token)
    assert again.running.resume_token == token
    _, reply = await again.turn("[[recall]]")
    assert reply == "one"


async def test_a_session_goes_on_after_its_process_was_killed_in_the_middle_of_a_turn(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    turn_id = await talk.say("[[say partial]] [[hold never]] two")
    await talk.until(Text, lambda text: text.turn_id == turn_id)
    exited = await killed(talk)
    assert (exited.exit_code, exited.reason) == (-9, "died")
    assert turn_id not in [ended.turn_id for ended in talk.of(Ended)]
    again = await desk.open(talk.running.resume_token)
    _, reply = await again.turn("[[recall]] three")
    assert reply == "one / two / threemodel: three"


async def test_a_process_that_is_killed_in_a_tool_leaves_no_shell_and_the_session_goes_on(desk: Desk) -> None:
    mark = new_mark()
    talk = await desk.open(environment={"FAKE_KEY": "not a key", **mark})
    await talk.say("[[shell sleep 4247]] one")
    await talk.until(ToolStarted)
    await eventually(lambda: below(talk, "sleep 4247"))
    await killed(talk)
    assert marked(mark) == set()
    again = await desk.open(talk.running.resume_token)
    ended, reply = await again.turn("[[recall]] two")
    assert (ended.error, reply) == (None, "one / twomodel: two")


@pytest.mark.parametrize("phase", ["opened", "prompted"])
async def test_a_process_that_dies_before_anything_was_kept_has_no_token(desk: Desk, phase: str) -> None:
    talk = await desk.open()
    if phase == "prompted":
        await talk.say("[[hold never]]")
    await killed(talk)
    told = [said.resume_token for said in talk.of(Resumable)]
    assert talk.running.resume_token == (told[0] if told else None)
    again = await desk.open(talk.running.resume_token)
    _, reply = await again.turn("here again")
    assert reply == "model: here again"


async def test_a_dead_session_takes_every_call_and_says_nothing_more(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    await killed(talk)
    running = talk.running
    await running.prompt("turn_x", (Part(text="hello"),))
    await running.cancel("turn_x")
    await running.answer("0", True, None, None)
    await running.close(1)
    await running.close(0)
    assert running.pid is None


@pytest.mark.parametrize("token", ["01a22e38-0000-7fe3-b4de-93fcc75333d9", "rubbish"])
async def test_a_conversation_that_is_gone_is_told_and_not_replaced(desk: Desk, token: str) -> None:
    with pytest.raises(OpenFailed, match="can't go on with this conversation") as told:
        await desk.open(token)
    assert "clear" in str(told.value)


async def test_a_conversation_that_another_process_holds_is_waited_for(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    token = talk.running.resume_token
    opening = asyncio.get_running_loop().create_task(desk.open(token))
    await asyncio.wait([opening], timeout=0.5)
    assert not opening.done()
    await talk.running.close(1)
    again = await opening
    _, reply = await again.turn("[[recall]]")
    assert reply == "one"


async def test_an_opening_that_is_broken_off_leaves_nothing_running(desk: Desk) -> None:
    mark = new_mark()
    for patience_s in (0.01, 0.03, 0.06, 0.1, 0.15):
        opening = asyncio.get_running_loop().create_task(desk.open(environment=mark))
        await asyncio.wait([opening], timeout=patience_s)
        opening.cancel()
        await asyncio.wait([opening])
        if opening.cancelled():
            assert marked(mark) == set()
        else:
            await opening.result().running.close(0)
    assert marked(mark) == set()


async def test_closing_in_the_middle_of_a_turn_is_quick_and_clean(desk: Desk) -> None:
    talk = await desk.open()
    await talk.say("[[say partial]] [[hold never]]")
    await talk.until(Text)
    pid = talk.running.pid
    assert pid is not None
    async with asyncio.timeout(2):
        await talk.running.close(2)
    assert not alive(pid)
    exited = await talk.exit()
    assert (exited.exit_code, exited.reason) == (0, "closed")


# Setting up


async def test_a_broken_configuration_of_codex_is_told_when_opening(desk: Desk) -> None:
    (Path(desk.options["home"]) / "config.toml").write_text("model = [")
    with pytest.raises(OpenFailed, match=r"config\.toml"):
        await desk.open()


async def test_the_configuration_and_the_model_of_a_session_reach_codex(desk: Desk, model: ModelServer) -> None:
    options = {**desk.options, "config": {"model_providers": {"loop": {"http_headers": ["x"]}}}}
    with pytest.raises(OpenFailed):
        await Desk(desk.cwd.parent, options).open()
    options = {**desk.options, "config": {"model": "other-model", "model_providers.loop.stream_max_retries": 0}}
    other = Desk(desk.cwd.parent, options)
    talk = await other.open()
    await talk.turn("hello")
    assert model.exchanges[-1].conversation.model == "other-model"
    await other.close()


async def test_a_command_of_codexs_knows_its_session(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("[[shell echo $ANTIPHON_SESSION_ID]] then")
    assert talk.of(ToolEnded)[0].output["output"] == "ses_1\n"


async def test_the_real_codex_is_not_missing_here(desk: Desk) -> None:
    assert await CodexAgent("codex", desk.options).missing() is None


async def test_sessions_that_begin_at_once_in_a_new_home_all_begin(tmp_path: Path) -> None:
    """Codex sets up a new home badly when several do so in the same moment: all but one end."""
    pointed = CodexAgent.loopback({}, "http://127.0.0.1:9", tmp_path)
    agent = CodexAgent("codex", pointed.options)
    spec = AgentSpec(name="codex", session_id="ses_1", cwd=str(tmp_path), environment=environment(tmp_path))
    async with asyncio.timeout(90):
        opened = await asyncio.gather(*[agent.open(spec, None) for _ in range(4)], return_exceptions=True)
    for each in opened:
        if not isinstance(each, BaseException):
            await each.close(0)
    assert [each for each in opened if isinstance(each, BaseException)] == []
