"""The real Claude Code binary, driven through the adapter against the loopback model server."""

import asyncio
import json
import os
import signal

import psutil
import pytest

from antiphon.agents.claude import ClaudeAgent
from antiphon.agents.claude.conversation import UNPROVEN
from antiphon.ports.agent import (
    Asked,
    Began,
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
from integration.claude.talk import PATIENCE_S, Desk, Talk


def below(talk: Talk, words: str) -> list[psutil.Process]:
    """The processes below Claude Code whose command line holds these words."""
    assert talk.running.pid is not None
    found: list[psutil.Process] = []
    for process in psutil.Process(talk.running.pid).children(recursive=True):
        try:
            if words in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_the_second_message_knows_the_first_and_each_is_paid_for(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("my name is Ada")
    assert (ended.error, ended.cancelled, reply) == (None, False, "model: my name is Ada")
    assert len(talk.of(Text)) > 2
    assert ended.usage == talk.of(Used)[-1].usage
    assert ended.usage
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (4, 5)
    first_cost = ended.usage.cost_usd
    ended, reply = await talk.turn("[[recall]] who am I?")
    assert reply == "my name is Ada / who am I?model: who am I?"
    assert ended.usage
    assert ended.usage.input_tokens == 8
    assert 0 < ended.usage.cost_usd < 10 * first_cost


async def test_thoughts_and_tools_are_told(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("[[think hm]] [[say first]] [[shell echo done > made; cat made]] then")
    assert ended.error is None
    assert reply == "first\n\nmodel: then"
    assert "".join(thought.text for thought in talk.of(Thought)) == "hm"
    [started], [tool_ended] = talk.of(ToolStarted), talk.of(ToolEnded)
    assert (started.name, "cat made" in started.input["command"]) == ("Bash", True)
    assert (tool_ended.tool_id, tool_ended.outcome, tool_ended.output) == (started.tool_id, "completed", "done")
    assert (desk.cwd / "made").read_text() == "done\n"
    await talk.turn("[[shell exit 3]] then")
    assert talk.of(ToolEnded)[-1].outcome == "failed"


async def test_a_command_of_claude_codes_own_is_answered_in_its_turn(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    ended, reply = await talk.turn("/context")
    assert ended.error is None
    assert "Context Usage" in reply
    before = talk.running.resume_token
    await talk.turn("/clear")
    _, reply = await talk.turn("[[recall]] two")
    assert "one" not in reply
    assert talk.running.resume_token not in (None, before)


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


async def test_a_cancel_right_after_the_prompt_hits_its_turn_and_no_other(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    for _ in range(3):
        ended, reply = await talk.turn("[[hold never]] said", talk.running.cancel)
        assert (ended.cancelled, reply) == (True, "")
        ended, reply = await talk.turn("next")
        assert (ended.cancelled, reply) == (False, "model: next")


@pytest.mark.parametrize("shell", ["echo on; sleep 4252", "trap '' TERM HUP INT; sleep 4252; sleep 4252"])
async def test_a_cancel_in_a_tool_leaves_nothing_of_its_shell_running(desk: Desk, shell: str) -> None:
    talk = await desk.open()
    arguments = '{"command": "sleep 4253", "run_in_background": true}'
    await talk.turn(f"[[tool Bash {arguments}]] started a server")
    await eventually(lambda: below(talk, "sleep 4253"))

    async def cancel(turn_id: str) -> None:
        await talk.until(ToolStarted, lambda started: "4252" in started.input["command"])
        await eventually(lambda: below(talk, "sleep 4252"))
        await talk.running.cancel(turn_id)

    ended, _ = await talk.turn(f"[[shell {shell}]] rest", cancel)
    assert ended.cancelled
    await eventually(lambda: not below(talk, "sleep 4252"), 1)
    assert below(talk, "sleep 4253"), "what an earlier turn left running on purpose runs on"
    _, reply = await talk.turn("next")
    assert reply == "model: next"


# Steering


async def test_a_steer_into_an_answer_is_answered_right_after_it_in_the_same_turn(
    desk: Desk, model: ModelServer
) -> None:
    talk = await desk.open()

    async def steer(turn_id: str) -> None:
        await talk.until(Text)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        model.release("gate")

    ended, reply = await talk.turn("[[say partial]] [[hold gate]] rest", steer)
    assert ended.error is None
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=True)]
    assert reply == "partialmodel: rest\n\nmodel: and now this"
    _, reply = await talk.turn("next")
    assert reply == "model: next"


async def test_a_steer_in_a_tool_is_taken_after_it(desk: Desk) -> None:
    talk = await desk.open()

    async def steer(turn_id: str) -> None:
        await talk.until(ToolStarted)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        (desk.cwd / "go").touch()

    ended, reply = await talk.turn("[[shell until test -e go; do sleep 0.05; done]] rest", steer)
    assert (ended.error, reply.replace("\n\n", "")) == (None, "model: restmodel: and now this")
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=True)]


@pytest.mark.parametrize(
    "held", ["[[say partial]] [[hold never]] rest", "[[say partial]] [[shell echo on; sleep 4254]] rest"]
)
async def test_a_steer_that_is_cut_off_before_it_was_taken_is_not_taken_nor_answered(desk: Desk, held: str) -> None:
    talk = await desk.open()

    async def steer_and_cancel(turn_id: str) -> None:
        await talk.until(ToolStarted if "shell" in held else Text)
        await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
        await talk.running.cancel(turn_id)

    ended, reply = await talk.turn(held, steer_and_cancel)
    assert (ended.cancelled, reply) == (True, "partial")
    assert talk.of(Steered) == [Steered(turn_id=ended.turn_id, message_id="msg_s", taken=False)]
    _, reply = await talk.turn("[[recall]]")
    assert reply == "rest"


async def test_a_steer_into_a_turn_that_fails_is_not_answered_twice(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    turn_id = await talk.say("[[hold gate]] [[error cut]] rest")
    async with asyncio.timeout(PATIENCE_S):
        await model.reached("gate")
    await talk.running.steer(turn_id, "msg_s", (Part(text="and now this"),))
    model.release("gate")
    ended = await talk.end(turn_id)
    assert ended.error
    [steered] = talk.of(Steered)
    assert steered.taken == ("and now this" in talk.reply(turn_id))


async def test_a_steer_after_the_end_is_not_taken(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("one")
    await talk.running.steer(ended.turn_id, "msg_s", (Part(text="late"),))
    assert await talk.until(Steered) == Steered(turn_id=ended.turn_id, message_id="msg_s", taken=False)


# Permissions


async def answered(
    talk: Talk, text: str, allow: bool, option_id: str | None = None, note: str | None = None
) -> tuple[Ended, str]:
    async def answer(_: str) -> None:
        asked = await talk.until(Asked)
        await talk.running.answer(asked.request_id, allow, option_id, note)

    return await talk.turn(text, answer)


async def test_what_is_allowed_is_done_and_what_is_denied_is_not(desk: Desk) -> None:
    talk = await desk.open(permission_mode="default")
    ended, reply = await answered(talk, "[[shell touch allowed]] then", True)
    assert (ended.error, reply) == (None, "model: then")
    asked = talk.of(Asked)[0]
    assert (asked.turn_id, asked.tool, "touch allowed" in asked.question) == (ended.turn_id, "Bash", True)
    assert (desk.cwd / "allowed").exists()

    ended, reply = await answered(talk, "[[shell touch denied]] [[output]] then", False, None, "not on a Sunday")
    assert (ended.error, reply) == (None, "not on a Sundaymodel: then")
    assert talk.of(ToolEnded)[-1].outcome == "failed"
    assert not (desk.cwd / "denied").exists()

    await answered(talk, "[[shell touch often]] then", True, "allow_session")
    ended, _ = await talk.turn("[[shell touch often]] again")
    assert ended.error is None
    assert len(talk.of(Asked)) == 3


@pytest.mark.parametrize(
    ("option_id", "note", "told"), [("answer:Blue", None, "Blue"), (None, "Green, please", "Green")]
)
async def test_a_question_of_claude_codes_is_answered_by_an_option_or_in_words(
    desk: Desk, option_id: str | None, note: str | None, told: str
) -> None:
    talk = await desk.open(permission_mode="default")
    colours = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"question": "Which colour?", "header": "Colour", "options": colours, "multiSelect": False}
    question = json.dumps({"questions": [asked]})
    ended, reply = await answered(talk, f"[[tool AskUserQuestion {question}]] [[output]]", True, option_id, note)
    assert ended.error is None
    assert talk.of(Asked)[0].question == "Which colour? (Red: warm; Blue: cold)"
    assert told in reply


async def test_a_denial_that_stops_the_turn_cancels_it(desk: Desk) -> None:
    talk = await desk.open(permission_mode="default")
    ended, _ = await answered(talk, "[[shell touch denied]] then", False, "deny_stop")
    assert ended.cancelled
    assert not (desk.cwd / "denied").exists()


async def test_a_cancel_while_a_question_waits_settles_it_and_a_late_answer_does_nothing(desk: Desk) -> None:
    talk = await desk.open(permission_mode="default")
    turn_id = await talk.say("[[shell touch late]] then")
    asked = await talk.until(Asked)
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    await talk.running.answer(asked.request_id, True, None, None)
    _, reply = await talk.turn("next")
    assert reply == "model: next"
    assert not (desk.cwd / "late").exists()


async def test_a_tool_that_the_configuration_allows_is_not_asked_for(desk: Desk) -> None:
    talk = await desk.open(permission_mode="default", allowed_tools=["Bash(touch *)", "Bash(true)"])
    ended, _ = await talk.turn("[[shell touch made]] then")
    assert (ended.error, talk.of(Asked), (desk.cwd / "made").exists()) == (None, [], True)


async def test_declared_permissions_follow_the_mode(desk: Desk) -> None:
    assert not ClaudeAgent("claude", desk.options).capabilities.permissions
    assert ClaudeAgent("claude", {**desk.options, "permission_mode": "default"}).capabilities.permissions


# Errors of the model


@pytest.mark.parametrize(
    ("error", "words"),
    [("500", "500"), ("429", "Try again later"), ("400 splinters", "splinters"), ("401", "/login"), ("cut", "dropped")],
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
    if error == "cut":  # Claude may see the cut before it has read all that came
        assert "part of it".startswith(reply)
    else:
        assert reply == ""
    ended, reply = await talk.turn("[[recall]] next")
    assert (ended.error, reply) == (None, "rest / nextmodel: next")


async def test_an_answer_after_a_retry_is_complete_and_the_retry_is_shown(desk: Desk) -> None:
    talk = await desk.open()
    ended, reply = await talk.turn("[[error 500 1]] fine")
    assert (ended.error, reply) == (None, "model: fine")
    assert any("tries again" in wrote.text for wrote in talk.of(Wrote))


async def test_a_conversation_that_no_longer_fits_is_told_with_what_to_do(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("x" * 3_000_000)
    assert ended.error
    assert "`clear` the session" in ended.error.detail
    ended, reply = await talk.turn("next")
    assert (ended.error, reply) == (None, "model: next")
    assert any("summary" in wrote.text for wrote in talk.of(Wrote))


async def test_the_limit_of_steps_fails_the_turn_and_names_the_option(desk: Desk) -> None:
    talk = await desk.open(max_turns=1)
    ended, _ = await talk.turn("[[shell true]] never said")
    assert ended.error
    assert "max_turns" in ended.error.detail
    ended, reply = await talk.turn("next")
    assert (ended.error, reply) == (None, "model: next")


# By itself


async def test_a_turn_that_it_begins_by_itself_is_shown_and_answers_nobody(desk: Desk) -> None:
    talk = await desk.open()
    arguments = '{"command": "until test -e go; do sleep 0.05; done", "run_in_background": true}'
    ended, reply = await talk.turn(f"[[tool Bash {arguments}]] started")
    assert (ended.error, reply) == (None, "model: started")
    (desk.cwd / "go").touch()
    began = await talk.until(Began)
    own = await talk.end(began.turn_id)
    assert began.turn_id != ended.turn_id
    assert own.error is None
    assert talk.reply(began.turn_id)
    _, reply = await talk.turn("next")
    assert reply == "model: next"


# Death and resumption


async def killed(talk: Talk) -> Exited:
    assert talk.running.pid is not None
    os.kill(talk.running.pid, signal.SIGKILL)
    return await talk.exit()


async def test_a_session_goes_on_after_its_process_was_closed(desk: Desk) -> None:
    talk = await desk.open()
    assert talk.running.resume_token is None
    await talk.turn("one")
    token = talk.running.resume_token
    assert token is not None
    assert talk.of(Resumable)[-1].resume_token == token
    await talk.running.close(4)
    exited = await talk.exit()
    assert (exited.exit_code, exited.reason) == (0, "closed")
    again = await desk.open(token)
    assert again.running.resume_token == token.removeprefix(UNPROVEN)
    ended, reply = await again.turn("[[recall]]")
    assert reply == "one"
    assert ended.usage
    assert ended.usage.input_tokens == 2


async def test_a_session_goes_on_after_its_process_was_killed_in_the_middle_of_a_turn(desk: Desk) -> None:
    talk = await desk.open()
    turn_id = await talk.say("[[say partial]] [[hold never]] two")
    await talk.until(Text, lambda text: text.turn_id == turn_id)
    await eventually(lambda: desk.written("two"))
    exited = await killed(talk)
    assert (exited.exit_code, exited.reason) == (-9, "died")
    assert not talk.of(Ended)
    again = await desk.open(talk.running.resume_token)
    _, reply = await again.turn("[[recall]] three")
    assert reply == "two / threemodel: three"


async def test_a_process_that_is_killed_in_a_tool_leaves_no_shell_and_the_session_goes_on(desk: Desk) -> None:
    mark = new_mark()
    talk = await desk.open(extra=mark)
    await talk.say("[[shell echo on; sleep 4257]] one")
    await talk.until(ToolStarted)
    await eventually(lambda: below(talk, "sleep 4257") and desk.written("sleep 4257"))
    await killed(talk)
    assert marked(mark) == set()
    again = await desk.open(talk.running.resume_token)
    ended, reply = await again.turn("[[recall]] two")
    assert (ended.error, reply) == (None, "one / twomodel: two")


async def test_a_session_that_was_killed_before_anything_of_it_was_on_disk_begins_anew_and_says_so(desk: Desk) -> None:
    talk = await desk.open()
    await talk.say("[[hold never]] one")
    await talk.until(Resumable)
    await killed(talk)
    token = UNPROVEN + talk.of(Resumable)[0].resume_token.removeprefix(UNPROVEN)
    for file in desk.conversations():
        file.unlink()
    again = await desk.open(token)
    ended, reply = await again.turn("[[recall]] two")
    assert (ended.error, reply) == (None, "twomodel: two")
    assert any("begins anew" in wrote.text for wrote in again.of(Wrote))


async def test_a_session_whose_first_message_is_on_disk_after_all_goes_on(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    await eventually(lambda: desk.written("one"))
    token = (talk.running.resume_token or "").removeprefix(UNPROVEN)
    await killed(talk)
    again = await desk.open(UNPROVEN + token)
    assert again.running.resume_token == token
    ended, reply = await again.turn("[[recall]] two")
    assert (ended.error, reply) == (None, "one / twomodel: two")


async def test_what_is_seen_on_disk_is_said_and_from_then_on_never_replaced(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("one")
    await eventually(lambda: desk.written("one"))
    await talk.turn("two")
    token = talk.running.resume_token
    assert token is not None
    assert not token.startswith(UNPROVEN)
    assert talk.of(Resumable)[-1].resume_token == token
    await killed(talk)
    for file in desk.conversations():
        file.unlink()
    with pytest.raises(OpenFailed, match="can't go on with this conversation"):
        await desk.open(token)


async def test_a_process_that_dies_before_anything_was_kept_has_no_token(desk: Desk) -> None:
    talk = await desk.open()
    await killed(talk)
    assert talk.running.resume_token is None
    assert not talk.of(Resumable)


@pytest.mark.parametrize("token", ["01a22e38-0000-7fe3-b4de-93fcc75333d9", "rubbish"])
async def test_a_conversation_that_is_gone_is_told_and_not_replaced(desk: Desk, token: str) -> None:
    with pytest.raises(OpenFailed, match="can't go on with this conversation") as told:
        await desk.open(token)
    assert "clear" in str(told.value)


async def test_closing_in_the_middle_of_a_turn_is_quick_and_clean(desk: Desk) -> None:
    mark = new_mark()
    talk = await desk.open(extra=mark)
    await talk.say("[[say partial]] [[shell trap '' TERM; sleep 4258]]")
    await talk.until(ToolStarted)
    pid = talk.running.pid
    assert pid is not None
    async with asyncio.timeout(4):
        await talk.running.close(2)
    assert not alive(pid)
    assert marked(mark) == set()
    assert (await talk.exit()).reason == "closed"


# Setting up


async def test_what_is_set_up_reaches_claude_code(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open(model="other-model", append_system_prompt="Speak of maples.")
    await talk.turn("[[shell echo $ANTIPHON_SESSION_ID]] then")
    assert talk.of(ToolEnded)[0].output == "ses_1"
    assert model.exchanges[0].conversation.model == "other-model"
    assert "Speak of maples." in str(model.exchanges[0].body["system"])


async def test_a_wrong_command_line_is_told_when_opening(desk: Desk) -> None:
    with pytest.raises(OpenFailed, match="--nonsense"):
        await desk.open(arguments=["--nonsense"])


async def test_the_real_claude_code_is_not_missing_here(desk: Desk) -> None:
    assert await ClaudeAgent("claude", desk.options).missing() is None
