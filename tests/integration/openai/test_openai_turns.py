"""A chat behind the loopback model server: what is sent of the conversation, what is kept, who is told what."""

import asyncio
from typing import Any

import pytest

from antiphon.ports.agent import Ended, Exited, OpenFailed, Part, Resumable, Steered, Text, Thought, Wrote
from antiphon.testing.model_server import ModelServer
from antiphon.testing.processes import alive, eventually
from integration.openai.talk import PATIENCE_S, Desk, Talk

CUT = "[This answer was cut short.]"


def sent(model: ModelServer) -> list[dict[str, Any]]:
    """What the model was sent last."""
    return model.exchanges[-1].body["messages"]


async def held(talk: Talk, model: ModelServer, gate: str, text: str) -> str:
    """A turn that waits at a gate; its id."""
    turn_id = await talk.say(text)
    await asyncio.wait_for(model.reached(gate), PATIENCE_S)
    return turn_id


# What is sent


async def test_the_request_is_what_the_configuration_says(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open(system_prompt="Be brief.", temperature=0.5, parameters={"top_p": 0.9}, model="some-model")
    ended, reply = await talk.turn("[[think hm]] hello")
    assert (ended.error, reply) == (None, "model: hello")
    assert "".join(said.text for said in talk.of(Thought)) == "hm"
    body = model.exchanges[-1].body
    assert {name: body[name] for name in ("model", "temperature", "top_p", "stream", "stream_options")} == {
        "model": "some-model",
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert sent(model) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "[[think hm]] hello"},
    ]
    assert "tools" not in body


async def test_a_text_file_is_told_whole_and_any_other_by_its_path(desk: Desk, model: ModelServer) -> None:
    text, picture = desk.cwd / "notes.txt", desk.cwd / "picture.png"
    text.write_text("maple\n")
    picture.write_bytes(b"\x89PNG\x00\xff")
    talk = await desk.open()
    parts = (Part(text="see"), Part(path=str(text)), Part(path=str(picture)), Part(path="/no/such/file"))
    await talk.running.prompt("turn_1", parts)
    assert (await talk.end("turn_1")).error is None
    paths = f"see\n{text}\n{picture}\n/no/such/file"
    assert sent(model)[-1]["content"] == f"{paths}\n\n{text} holds:\n\nmaple\n"


async def test_the_oldest_turns_are_left_out_when_the_conversation_has_grown_too_long(
    desk: Desk, model: ModelServer
) -> None:
    talk = await desk.open(context_tokens=1000, system_prompt="Be brief.")
    for number in range(8):
        ended, _ = await talk.turn(f"[[say {number}]] " + "x" * 300)
        assert ended.error is None
    remarks = [said.text for said in talk.of(Wrote)]
    assert remarks
    assert all("oldest" in text for text in remarks)
    roles = [message["role"] for message in sent(model)]
    assert roles == ["system", *["user", "assistant"] * ((len(roles) - 2) // 2), "user"]
    first = sent(model)[1]["content"]
    assert not first.startswith("[[say 0]]")

    token = talk.running.resume_token
    await talk.running.close(1)
    again = await desk.open(token, context_tokens=1000, system_prompt="Be brief.")
    await again.turn("short")
    assert sent(model)[1]["content"] == first, "what was left out stays out, and nothing else does"
    assert not again.of(Wrote)


async def test_a_message_that_is_too_long_is_refused_before_it_is_sent(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open(context_tokens=1000)
    await talk.turn("hello")
    ended, _ = await talk.turn("x" * 4000)
    assert ended.error
    assert "This message is too long for the model" in ended.error.detail
    assert "`context_tokens`" in ended.error.detail
    assert len(model.exchanges) == 1
    assert (await talk.turn("[[recall]]"))[1] == "hello", "the conversation is as it was"


# What is kept


async def test_a_conversation_that_was_cancelled_and_killed_goes_on_with_what_was_said(
    desk: Desk, model: ModelServer
) -> None:
    talk = await desk.open()
    await talk.turn("my name is Ada")
    cancelled = await held(talk, model, "one", "[[say half]] [[hold one]] never")
    await talk.until(Text, lambda said: said.text == "half")
    await talk.running.cancel(cancelled)
    assert (await talk.end(cancelled)).cancelled
    await held(talk, model, "two", "[[say partial]] [[hold two]] never")
    await talk.until(Text, lambda said: said.text == "partial")
    token = talk.running.resume_token
    await talk.running.close(0)
    assert (await talk.until(Exited)).reason == "closed"
    again = await desk.open(token)
    assert again.running.resume_token == token
    ended, reply = await again.turn("[[recall]]")
    assert ended.error is None
    assert reply.startswith("my name is Ada")
    assert [each["content"] for each in sent(model)][1::2] == [
        "model: my name is Ada",
        f"half\n\n{CUT}",
        f"partial\n\n{CUT}",
    ]
    assert not again.of(Resumable)


async def test_a_conversation_whose_transcript_is_gone_is_not_begun_anew(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("hello")
    token = talk.running.resume_token
    await talk.running.close(1)
    (desk.place / f"{token}.jsonl").unlink()
    with pytest.raises(OpenFailed, match="`clear` the session"):
        await desk.open(token)
    for strange in ("../../etc/passwd", "chat_", "turn_1"):
        with pytest.raises(OpenFailed, match="not one of this agent's"):
            await desk.open(strange)


async def test_a_new_conversation_of_a_session_takes_the_place_of_the_one_before(desk: Desk) -> None:
    talk = await desk.open()
    await talk.turn("hello")
    await talk.running.close(1)
    assert len(list(desk.place.iterdir())) == 1
    again = await desk.open()
    assert (await again.turn("[[recall]]"))[1] == "", "it knows nothing"
    assert [each.stem for each in desk.place.iterdir()] == [again.running.resume_token]


async def test_where_nothing_is_kept_nothing_can_be_resumed(desk: Desk) -> None:
    talk = await desk.open(keeps=False)
    await talk.turn("hello")
    assert (await talk.turn("[[recall]]"))[1] == "hello"
    assert talk.running.resume_token is None
    with pytest.raises(OpenFailed, match="nothing is kept"):
        await desk.open("chat_" + "0" * 32, keeps=False)


async def test_a_disk_that_takes_no_more_fails_the_turn_and_not_the_session(desk: Desk) -> None:
    talk = await desk.open()
    place = desk.place
    place.rmdir()
    place.touch()
    ended, _ = await talk.turn("hello")
    assert ended.error
    assert "can't be kept" in ended.error.detail
    place.unlink()
    place.mkdir()
    assert (await talk.turn("hello"))[1] == "model: hello"


# Steers, cancels, deaths


async def test_steers_are_answered_in_their_order_in_the_same_turn(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    turn_id = await held(talk, model, "gate", "[[hold gate]] one")
    for word in ("two", "three"):
        await talk.running.steer(turn_id, f"msg_{word}", (Part(text=word),))
    model.release("gate")
    assert (await talk.end(turn_id)).error is None
    assert talk.reply(turn_id) == "model: one\n\nmodel: two\n\nthree"
    assert sent(model)[-1] == {"role": "user", "content": "two\n\nthree"}
    assert len(model.exchanges) == 2
    assert [(told.message_id, told.taken) for told in talk.of(Steered)] == [("msg_two", True), ("msg_three", True)]


async def test_a_steer_of_a_turn_that_is_cancelled_is_not_taken(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    turn_id = await held(talk, model, "gate", "[[hold gate]] one")
    await talk.running.steer(turn_id, "msg_two", (Part(text="two"),))
    await talk.running.cancel(turn_id)
    assert (await talk.end(turn_id)).cancelled
    assert [(told.message_id, told.taken) for told in talk.of(Steered)] == [("msg_two", False)]
    assert (await talk.turn("[[recall]]"))[1] == "one"


async def test_a_cancel_closes_the_request(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    turn_id = await held(talk, model, "gate", "[[hold gate]] one")
    await talk.running.cancel(turn_id)
    await talk.end(turn_id)
    await asyncio.wait_for(model.asked("one", "client_gone"), PATIENCE_S)


async def test_a_cancel_right_after_the_prompt_ends_the_turn(desk: Desk) -> None:
    talk = await desk.open()
    for _ in range(5):
        turn_id = await talk.say("hello")
        await talk.running.cancel(turn_id)
        await talk.end(turn_id)
    assert len(talk.of(Ended)) == 5


async def test_its_process_ends_with_its_input_whatever_it_does(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    await held(talk, model, "gate", "[[hold gate]] one")
    pid = talk.running.pid
    assert pid
    await talk.running.close(PATIENCE_S)
    exited = await talk.exit()
    assert (exited.exit_code, exited.detail) == (0, "")
    await eventually(lambda: not alive(pid), PATIENCE_S)


# Branches


async def test_a_conversation_begins_where_a_turn_of_another_one_ended(desk: Desk, model: ModelServer) -> None:
    talk = await desk.open()
    first, _ = await talk.turn("my name is Ada")
    failed, _ = await talk.turn("[[error 400 no luck]]")
    later, _ = await talk.turn("my name is Eve")
    assert first.mark == failed.mark != later.mark, "what failed is not in the conversation"

    desk.place = desk.place.with_name("another")
    branch = await desk.open(fork_from=first.mark)
    assert (await branch.turn("[[recall]]"))[1] == "my name is Ada"
    assert (await talk.turn("[[recall]]"))[1].startswith("my name is Ada / my name is Eve")
    token = branch.running.resume_token
    await branch.running.close(1)
    again = await desk.open(token, fork_from=first.mark)
    assert (await again.turn("[[recall]] more"))[1].startswith("my name is Ada / more")


async def test_a_conversation_whose_beginning_is_gone_is_not_begun(desk: Desk) -> None:
    talk = await desk.open()
    ended, _ = await talk.turn("hello")
    await talk.running.close(1)
    for file in desk.place.iterdir():
        file.unlink()
    desk.place = desk.place.with_name("another")
    with pytest.raises(OpenFailed, match="begins from can't be read"):
        await desk.open(fork_from=ended.mark)
    for mark in ("-", "../x/chat_0 turn_1", f"a/b/chat_{'0' * 32} turn_1"):
        with pytest.raises(OpenFailed, match="not one of this agent's"):
            await desk.open(fork_from=mark)
