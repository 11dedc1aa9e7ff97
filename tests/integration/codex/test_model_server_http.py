"""The model server, asked over HTTP as an agent's client would ask it."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from antiphon.testing.model_server import ModelServer

PATIENCE_S = 5.0
SHELL_PARAMETERS = {"type": "object", "properties": {"cmd": {}}}


def responses(text: str) -> dict[str, Any]:
    return {"input": text, "tools": [{"type": "function", "name": "exec_command", "parameters": SHELL_PARAMETERS}]}


def chat(text: str) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "exec_command", "parameters": SHELL_PARAMETERS}}
    return {"messages": [{"role": "user", "content": text}], "tools": [tool]}


def anthropic(text: str) -> dict[str, Any]:
    tool = {"name": "exec_command", "input_schema": SHELL_PARAMETERS}
    return {"messages": [{"role": "user", "content": text}], "tools": [tool]}


def said_in_responses(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def said_in_chat(events: list[dict[str, Any]]) -> str:
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def said_in_anthropic(events: list[dict[str, Any]]) -> str:
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta["text"] for delta in deltas if delta["type"] == "text_delta")


PROTOCOLS = [
    pytest.param("/v1/responses", responses, said_in_responses, id="responses"),
    pytest.param("/v1/chat/completions", chat, said_in_chat, id="chat"),
    pytest.param("/v1/messages", anthropic, said_in_anthropic, id="anthropic"),
]
every_protocol = pytest.mark.parametrize(("path", "ask", "said"), PROTOCOLS)


@pytest.fixture
async def client(model: ModelServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=model.url, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


async def events(response: httpx2.Response) -> list[dict[str, Any]]:
    """The events of a streamed answer."""
    data = [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


async def stream(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.stream("POST", path, json={**body, "stream": True}) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
        return await events(response)


@every_protocol
async def test_an_answer_is_streamed_in_pieces(client: httpx2.AsyncClient, path: str, ask: Any, said: Any) -> None:
    got = await stream(client, path, ask("[[think hm]] hello there"))
    assert said(got) == "model: hello there"
    assert len(got) > 5


@every_protocol
async def test_an_answer_is_given_whole_when_no_stream_is_wanted(
    client: httpx2.AsyncClient, path: str, ask: Any, said: Any
) -> None:
    response = await client.post(path, json=ask("hello there"))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert "model: hello there" in response.text


@every_protocol
async def test_one_connection_serves_one_request_after_the_other(
    client: httpx2.AsyncClient, path: str, ask: Any, said: Any
) -> None:
    for word in ("one", "two", "three"):
        assert said(await stream(client, path, ask(word))) == f"model: {word}"


@every_protocol
async def test_a_tool_call_carries_its_arguments(client: httpx2.AsyncClient, path: str, ask: Any, said: Any) -> None:
    got = json.dumps(await stream(client, path, ask("[[shell echo hi]] never said")))
    assert "exec_command" in got
    assert "echo hi" in got
    assert "never said" not in got.replace("[[shell echo hi]] never said", "")


@every_protocol
@pytest.mark.parametrize("status", [400, 429, 500])
async def test_an_error_comes_with_its_status_and_its_words(
    client: httpx2.AsyncClient, path: str, ask: Any, said: Any, status: int
) -> None:
    response = await client.post(path, json=ask(f"[[error {status} no such luck]]"))
    assert response.status_code == status
    assert response.json()["error"]["message"] == "no such luck"
    assert response.headers.get("retry-after") == ("1" if status == 429 else None)


@every_protocol
async def test_an_error_may_pass_after_some_attempts(
    client: httpx2.AsyncClient, path: str, ask: Any, said: Any
) -> None:
    statuses = [(await client.post(path, json=ask("[[error 500 2]] x"))).status_code for _ in range(4)]
    assert statuses == [500, 500, 200, 200]


@every_protocol
async def test_a_stream_is_cut_in_the_middle(
    client: httpx2.AsyncClient, model: ModelServer, path: str, ask: Any, said: Any
) -> None:
    with pytest.raises(httpx2.TransportError):
        await stream(client, path, ask("[[say half]] [[error cut]] rest"))
    assert model.exchanges[-1].outcome == "cut"
    assert said(await stream(client, path, ask("whole"))) == "model: whole"


@every_protocol
@pytest.mark.parametrize("over_http", [True, False])
async def test_a_held_answer_goes_on_when_it_is_released(
    client: httpx2.AsyncClient, model: ModelServer, path: str, ask: Any, said: Any, over_http: bool
) -> None:
    async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE_S):
        answer = group.create_task(stream(client, path, ask("[[hold gate]] free")))
        await model.reached("gate")
        assert not answer.done()
        if over_http:
            assert (await client.post("/control/release/gate")).status_code == 200
        else:
            model.release("gate")
    assert said(answer.result()) == "model: free"


async def test_a_client_that_hangs_up_is_noticed(client: httpx2.AsyncClient, model: ModelServer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with client.stream("POST", "/v1/responses", json={**responses("[[hold gate]]"), "stream": True}):
            await model.reached("gate")
        exchange = await model.asked("gate", "client_gone")
    assert exchange.conversation.last_text == "[[hold gate]]"


async def test_slow_words_take_their_time(client: httpx2.AsyncClient) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    got = await stream(client, "/v1/responses", responses("[[slow 3 20]]"))
    assert said_in_responses(got) == "1 2 3 "
    assert loop.time() - before >= 0.06


async def test_what_was_asked_is_remembered_within_bounds() -> None:
    async with ModelServer(remembers=3) as model, httpx2.AsyncClient(base_url=model.url, trust_env=False) as client:
        for number in range(5):
            await client.post("/v1/responses", json=responses(f"ask {number}"))
        assert [exchange.conversation.last_text for exchange in model.exchanges] == ["ask 2", "ask 3", "ask 4"]
        told = (await client.get("/control/exchanges")).json()
        assert [exchange["outcome"] for exchange in told] == ["answered"] * 3


async def test_what_is_no_request_of_an_agent_is_refused(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/v1/responses", content=b"{")).status_code == 400
    assert (await client.post("/v1/responses", json=responses("[[nonsense]]"))).status_code == 400
    assert (await client.get("/nowhere")).status_code == 404
    assert (await client.get("/v1/models")).json()["data"][0]["id"] == "fake-model"


async def test_a_body_over_the_limit_is_refused() -> None:
    async with ModelServer(body_limit=1000) as model, httpx2.AsyncClient(base_url=model.url, trust_env=False) as client:
        response = await client.post("/v1/responses", json=responses("x" * 2000))
        assert response.status_code == 413


async def test_what_is_no_http_is_hung_up_on(model: ModelServer) -> None:
    port = int(model.url.rpartition(":")[2])
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01 not HTTP\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # a reset is an end as well
            assert await reader.read() == b""
        writer.close()


async def test_a_closed_server_breaks_off_what_it_was_saying_and_may_start_again(model: ModelServer) -> None:
    async with httpx2.AsyncClient(base_url=model.url, timeout=PATIENCE_S, trust_env=False) as client:
        body = {**responses("[[hold gate]]"), "stream": True}
        async with client.stream("POST", "/v1/responses", json=body) as response:
            await model.reached("gate")
            await model.close()
            with pytest.raises(httpx2.TransportError):
                await events(response)
        await model.close()
    url = model.url
    await model.start()
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
        assert said_in_responses(await stream(client, "/v1/responses", responses("again"))) == "model: again"


async def test_it_runs_as_a_program_that_prints_where_it_listens() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "antiphon.testing.model_server"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with asyncio.timeout(PATIENCE_S):
            url = (await process.stdout.readline()).decode().strip()
            async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
                assert "model: hello" in (await client.post("/v1/responses", json=responses("hello"))).text
    finally:
        process.terminate()
        await process.wait()
