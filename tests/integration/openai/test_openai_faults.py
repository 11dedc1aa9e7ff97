"""An endpoint that misbehaves: what a person is told, and that the next turn works."""

import asyncio

import msgspec
import pytest

from antiphon.ports.agent import Ended, Exited, Text, Wrote
from antiphon.testing.fault_lab.chat import DONE, Answer, FaultyEndpoint, call, chunk, event, good, text
from integration.openai.talk import PATIENCE_S, Desk, Talk

CUT = "[This answer was cut short.]"
STOP = chunk({}, "stop")
STRANGE = "é ü 漢字 😀 👩\u200d👩\u200d👧 \u2028\u2029\x85 \r \\n"


async def failed(talk: Talk, words: str) -> str:
    """A turn that fails for this reason; what was said in it."""
    ended, reply = await talk.turn("x")
    assert ended.error
    assert words in ended.error.detail, ended.error.detail
    return reply


async def answered(talk: Talk) -> str:
    ended, reply = await talk.turn("x")
    assert ended.error is None, ended.error
    return reply


# Bytes


async def test_an_answer_in_single_bytes_and_one_in_a_single_write_are_the_same(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    whole = b": hello\n\ndata: \n\n" + text(STRANGE) + b"event: x\r\nid: 7\r\n" + text(STRANGE) + STOP + DONE
    split = tuple(whole[place : place + 1] for place in range(len(whole)))
    endpoint.answers += [
        Answer(pieces=split),
        Answer(pieces=(whole,)),
        Answer(pieces=(whole.replace(b"\n\n", b"\r\r"),)),
    ]
    talk = await faulty.open()
    assert [await answered(talk) for _ in range(3)] == [STRANGE * 2] * 3


async def test_a_line_of_ten_megabytes_is_heard(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [good("y" * 10_000_000), good("fine")]
    talk = await faulty.open()
    assert await answered(talk) == "y" * 10_000_000
    assert await answered(talk) == "fine"


async def test_a_line_over_the_limit_fails_its_turn_and_not_the_session(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    """claude-agent-sdk-python#98, ACP python-sdk#27"""
    endpoint.answers += [
        Answer(pieces=(text("short"), text("y" * 70_000), text("y" * 200_000), STOP, DONE)),
        Answer(pieces=(text("a"), b"x" * 200_000), end="stall"),
        good("fine"),
    ]
    talk = await faulty.open(line_limit=100_000)
    assert await failed(talk, "over the limit") == "short" + "y" * 70_000
    assert await failed(talk, "over the limit") == "a"
    assert await answered(talk) == "fine"


async def test_bytes_that_are_not_utf8_are_shown_as_such(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    """claude-agent-sdk-python#550"""
    bad = text("one @ two").replace(b"@", b"\xff\xfe")
    endpoint.answers += [Answer(pieces=(b"\xff\xfe\n\n", bad, text("!"), STOP, DONE))]
    assert await answered(await faulty.open()) == "one \ufffd\ufffd two!"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"data: {nonsense\n\n",
        b"data: 7\n\n",
        b'data: {"choices": 7}\n\n',
        event({"choices": [{"delta": 1}]}),
    ],
)
async def test_what_is_no_chunk_fails_the_turn_because_a_piece_is_missing(
    endpoint: FaultyEndpoint, faulty: Desk, nonsense: bytes
) -> None:
    endpoint.answers += [Answer(pieces=(text("one"), nonsense, text("two"), STOP, DONE)), good("fine")]
    talk = await faulty.open()
    assert await failed(talk, "no chunk of an answer") == "one"
    assert await answered(talk) == "fine"


async def test_a_server_that_does_not_stream_is_heard_all_the_same(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    message = {"role": "assistant", "content": "whole"}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    endpoint.answers += [Answer(headers={"content-type": "application/json"}, pieces=(msgspec.json.encode(body),))]
    talk = await faulty.open()
    assert await answered(talk) == "whole"
    assert (usage := talk.of(Ended)[0].usage)
    assert usage.input_tokens == 3


# Cuts and stalls


async def test_a_stream_that_is_cut_after_a_piece_fails_and_is_never_asked_again(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    endpoint.answers += [
        Answer(pieces=(text("one"),), end="cut"),
        Answer(pieces=(text("two"),), chunked=False),  # nothing but the missing end tells that it was cut
        good("fine"),
    ]
    talk = await faulty.open()
    assert await failed(talk, "broke in the middle") == "one"
    assert await failed(talk, "cut off") == "two"
    assert await answered(talk) == "fine"
    assert len(endpoint.requests) == 3
    said = [message["content"] for message in endpoint.requests[-1]["messages"] if message["role"] == "assistant"]
    assert said == [f"one\n\n{CUT}", f"two\n\n{CUT}"], "the next turn knows what was said"


async def test_a_stream_that_is_cut_before_a_piece_is_asked_for_again_and_answered_once(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    empty = chunk({"role": "assistant", "content": ""})
    endpoint.answers += [Answer(pieces=(empty,), end="cut"), Answer(chunked=False), Answer(end="cut"), good("fine")]
    talk = await faulty.open(retries=3)
    assert await answered(talk) == "fine"
    assert len(endpoint.requests) == 4
    assert [len(request["messages"]) for request in endpoint.requests] == [1, 1, 1, 1]
    assert len(talk.of(Wrote)) == 3


async def test_a_server_that_falls_silent_fails_the_turn_in_time(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [Answer(pieces=(text("one"),), end="stall"), Answer(end="stall"), good("fine")]
    talk = await faulty.open(silence_s=2)
    assert await failed(talk, "said nothing for 2 s") == "one"
    assert await failed(talk, "said nothing for 2 s") == ""
    assert await answered(talk) == "fine"


async def test_an_end_without_its_mark_counts_when_the_model_said_why_it_stopped(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    endpoint.answers += [
        Answer(pieces=(text("one"), STOP), chunked=False),
        Answer(pieces=(text("two"), DONE), end="stall"),
    ]
    talk = await faulty.open()
    assert [await answered(talk) for _ in range(2)] == ["one", "two"]


async def test_an_error_in_the_middle_of_the_answer_fails_the_turn(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [Answer(pieces=(text("one"), event({"error": {"message": "no luck"}}))), good("fine")]
    talk = await faulty.open()
    assert await failed(talk, "no luck") == "one"
    assert await answered(talk) == "fine"


# Refusals


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_what_may_work_the_next_time_is_tried_again(endpoint: FaultyEndpoint, faulty: Desk, status: int) -> None:
    body = (msgspec.json.encode({"error": {"message": "come back later"}}),)
    endpoint.answers += [Answer(status=status, headers={"retry-after": "0"}, pieces=body), good("fine")]
    talk = await faulty.open()
    assert await answered(talk) == "fine"
    assert "come back later" in talk.of(Wrote)[0].text


async def test_tries_run_out(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [Answer(status=503, headers={"retry-after": "0"}, pieces=(b"<html>\n no </html>",))] * 3
    endpoint.answers += [good("fine")]
    talk = await faulty.open(retries=2)
    assert await failed(talk, "answered 503: <html> no </html>.") == ""
    assert len(endpoint.requests) == 3
    assert await answered(talk) == "fine"
    assert len(endpoint.requests[-1]["messages"]) == 1, "a message that was never answered is not asked about again"


async def test_a_server_that_wants_to_be_left_alone_for_an_hour_is(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [Answer(status=429, headers={"retry-after": "3600"}), good("fine")]
    talk = await faulty.open()
    await failed(talk, "asked too often")
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [301, 400, 401, 404, 422])
async def test_what_will_not_work_the_next_time_either_is_not_tried_again(
    endpoint: FaultyEndpoint, faulty: Desk, status: int
) -> None:
    endpoint.answers += [Answer(status=status, pieces=(b'{"error": "no such luck"}',)), good("fine")]
    talk = await faulty.open()
    assert await failed(talk, f"answered {status}: no such luck.") == ""
    assert await answered(talk) == "fine"
    assert len(endpoint.requests) == 2


async def test_a_conversation_that_does_not_fit_is_told_with_the_option_that_helps(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    words = "This model's maximum context length is 8192 tokens."
    endpoint.answers += [Answer(status=400, pieces=(msgspec.json.encode({"error": {"message": words}}),))]
    await failed(await faulty.open(), "`context_tokens`")


async def test_the_key_is_sent_and_told_to_nobody(
    endpoint: FaultyEndpoint, faulty: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_KEY", "sk-very-secret")
    monkeypatch.setenv("TENANT", "tenant-seven")
    body = b'{"error": {"message": "Incorrect API key: sk-very-secret, tenant-seven"}}'
    endpoint.answers += [Answer(status=401, pieces=(body,))]
    talk = await faulty.open(api_key_env="CHAT_KEY", headers_env={"X-Tenant": "TENANT"}, headers={"X-Team": "seven"})
    await failed(talk, "Incorrect API key: [redacted], [redacted].")
    assert "authorization: Bearer sk-very-secret" in endpoint.headers[0].replace("Authorization", "authorization")
    assert {"x-tenant: tenant-seven", "x-team: seven"} <= {line.lower() for line in endpoint.headers[0].split("\r\n")}
    await talk.running.close(1)
    assert "secret" not in repr((talk.heard, await talk.exit()))


async def test_a_server_that_is_not_there_is_told_and_found_again(faulty: Desk) -> None:
    talk = await faulty.open(base_url="http://127.0.0.1:9/v1", retries=0)
    await failed(talk, "could not be reached")
    await failed(talk, "could not be reached")


# Calls of tools that can't be made


@pytest.mark.parametrize(("name", "arguments"), [("nobody", "{}"), ("nobody", "{oops"), ("", "")])
async def test_a_call_of_a_tool_that_is_not_there_is_told_to_the_model(
    endpoint: FaultyEndpoint, faulty: Desk, name: str, arguments: str
) -> None:
    endpoint.answers += [Answer(pieces=(call(name, arguments), chunk({}, "tool_calls"), DONE)), good("then without")]
    talk = await faulty.open()
    assert await answered(talk) == "then without"
    *_, calls, result = endpoint.requests[-1]["messages"]
    assert calls["tool_calls"][0]["id"] == result["tool_call_id"]
    assert "There is no tool" in result["content"]


async def test_a_model_that_never_stops_calling_tools_fails_its_turn(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    endpoint.answers += [Answer(pieces=(call("nobody", "{}"), chunk({}, "tool_calls"), DONE))] * 3 + [good("fine")]
    talk = await faulty.open(max_steps=3)
    await failed(talk, "asked 3 times")
    assert await answered(talk) == "fine"


# Cancels and deaths


async def test_a_cancel_ends_a_turn_at_once_whatever_the_server_does(endpoint: FaultyEndpoint, faulty: Desk) -> None:
    """openclaw#50145"""
    endpoint.answers += [Answer(end="stall"), Answer(pieces=(text("one"),), end="stall"), good("fine")]
    talk = await faulty.open()
    for number in (1, 2):
        turn_id = await talk.say("x")
        await asyncio.wait_for(endpoint.asked(number), PATIENCE_S)
        if number == 2:
            await talk.until(Text)
        await talk.running.cancel(turn_id)
        assert (await talk.end(turn_id)).cancelled
    assert [talk.reply("turn_1"), talk.reply("turn_2")] == ["", "one"]
    assert await answered(talk) == "fine"
    assert endpoint.requests[-1]["messages"][-2]["content"] == f"one\n\n{CUT}"


async def test_a_host_that_kills_it_in_the_middle_goes_on_with_what_was_said(
    endpoint: FaultyEndpoint, faulty: Desk
) -> None:
    endpoint.answers += [good("first"), Answer(pieces=(text("one"),), end="stall"), good("fine")]
    talk = await faulty.open()
    await answered(talk)
    await talk.say("x")
    await talk.until(Text, lambda said: said.text == "one")
    token = talk.running.resume_token
    await talk.running.close(0)
    assert (await talk.until(Exited)).reason == "closed"
    assert await answered(await faulty.open(token)) == "fine"
    assert [message["content"] for message in endpoint.requests[-1]["messages"][1::2]] == ["first", f"one\n\n{CUT}"]
