"""Both clients against a real host, over connections that break."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any
from uuid import uuid4

import pytest

from antiphon.client import (
    AsyncClient,
    Client,
    ClientError,
    ConnectionLost,
    Event,
    HostNotReached,
    Pace,
    Receipt,
    SessionExists,
    SessionNotFound,
    Unauthorized,
    UnexpectedAnswer,
)
from clientlab.cutting import Cut, CuttingProxy, Rule
from clientlab.running import Installation

PACE = Pace(reconnect_s=5, retry_s=2)
BIRTH = {"agent": "echo"}


class Twin:
    """One client behind one face: calls of the sync client are made by the way, iterations are collected."""

    def __init__(self, kind: str, url: str, token: str) -> None:
        self.client: Any = (Client if kind == "sync" else AsyncClient)(url, token, pace=PACE)
        self.is_async = kind == "async"

    async def call(self, name: str, *args: Any, **more: Any) -> Any:
        """Call a method."""
        found = getattr(self.client, name)(*args, **more)
        return await found if self.is_async else found

    async def each(self, name: str, *args: Any, **more: Any) -> list[Any]:
        """Call a method that iterates, and collect everything."""
        found = getattr(self.client, name)(*args, **more)
        return [item async for item in found] if self.is_async else list(found)


@pytest.fixture(params=["sync", "async"])
async def twin(request: pytest.FixtureRequest, host: Installation) -> AsyncGenerator[Callable[[Rule], Twin]]:
    """Makes clients of the host, each behind a proxy that breaks by a rule."""
    ready = host.ready()
    address, port = ready["url"].removeprefix("http://").split(":")
    proxies: list[CuttingProxy] = []
    twins: list[Twin] = []

    def made(rule: Rule) -> Twin:
        proxies.append(CuttingProxy((address, int(port)), rule).__enter__())
        twins.append(Twin(request.param, proxies[-1].url, ready["token"]))
        twins[-1].client.proxy = proxies[-1]
        return twins[-1]

    yield made
    for each in twins:
        await each.call("close")
    for proxy in proxies:
        proxy.__exit__()


def key() -> str:
    """A key that no other test has."""
    return f"test:{uuid4()}"


def let_through(line: str, number: int) -> Cut | None:
    """A rule that breaks nothing."""


def texts(told: list[Any]) -> str:
    """The pieces of an answer, joined."""
    return "".join(each.data["text"] for each in told if isinstance(each, Event) and each.type == "turn.text")


async def test_a_message_is_answered(twin: Callable[[Rule], Twin]) -> None:
    receipt = await twin(let_through).call("send", key(), "hello", create=BIRTH)

    assert (receipt.state, receipt.reply) == ("answered", "echo: hello")


async def test_a_message_whose_acceptance_is_lost_is_there_once(twin: Callable[[Rule], Twin]) -> None:
    lost = twin(lambda line, number: Cut("swallow") if line.startswith("POST") and number <= 2 else None)
    name = key()

    receipt = await lost.call("send", name, "hello", create=BIRTH)

    assert receipt.reply == "echo: hello"
    assert len(await lost.each("turns", name)) == 1
    assert [line for line in lost.client.proxy.requests if line.startswith("POST")] == [
        f"POST /v1/sessions/{name.replace(':', '%3A')}/messages HTTP/1.1"
    ] * 3


async def test_a_wait_goes_on_when_its_connection_breaks(twin: Callable[[Rule], Twin]) -> None:
    cut = twin(lambda line, number: Cut("refuse") if line.startswith("GET") and number in (2, 3) else None)

    assert (await cut.call("send", key(), "[[sleep 0.3]] hello", create=BIRTH)).reply == "echo: hello"


@pytest.mark.parametrize("places", [[0], [40], [400], [700, 30], [900, 350, 250, 1], [1100, 500], [2500]])
async def test_a_stream_that_is_cut_anywhere_tells_every_piece_once(
    twin: Callable[[Rule], Twin], places: list[int]
) -> None:
    left = list(places)

    def rule(line: str, number: int) -> Cut | None:
        return Cut("after", left.pop(0)) if left else None

    told = await twin(rule).each("stream", key(), "[[stream 30 every 5]] end", create=BIRTH)

    receipt = told[-1]
    cursors = [event.cursor for event in told[:-1]]
    assert isinstance(receipt, Receipt)
    assert (receipt.state, receipt.reply) == ("answered", texts(told))
    assert (receipt.reply or "").endswith("30 echo: end")
    assert len(set(cursors)) == len(cursors)


async def test_events_are_followed_through_breaks_to_the_end_of_the_session(twin: Callable[[Rule], Twin]) -> None:
    cut = twin(lambda line, number: Cut("after", 600) if "/events" in line and number % 2 else None)
    name = key()
    await cut.call("session_start", "echo", name)
    await cut.call("send", name, "[[stream 5 every 1]]")
    expected = [event.cursor for event in await cut.each("journal", name)]
    if cut.is_async:
        events = cut.client.events(name)
        found = [(await anext(events)).cursor for _ in expected]
        await events.aclose()
    else:
        events = cut.client.events(name)
        found = [next(events).cursor for _ in expected]
        events.close()

    assert found == expected
    await cut.call("session_delete", name)


async def test_a_start_whose_answer_is_lost_is_not_repeated_behind_the_callers_back(
    twin: Callable[[Rule], Twin],
) -> None:
    lost = twin(lambda line, number: Cut("swallow") if number == 1 else None)
    name = key()

    with pytest.raises(ConnectionLost):
        await lost.call("session_start", "echo", name)
    with pytest.raises(SessionExists):
        await lost.call("session_start", "echo", name)
    assert (await lost.call("session_start", "echo", name, if_exists="return")).key == name


async def test_refusals_are_errors_of_their_own(twin: Callable[[Rule], Twin], host: Installation) -> None:
    client = twin(let_through)
    with pytest.raises(SessionNotFound):
        await client.call("session", key())
    with pytest.raises(SessionNotFound):
        await client.each("stream", key(), "hello")
    stranger = Twin("async" if client.is_async else "sync", host.ready()["url"], "wrong")
    with pytest.raises(Unauthorized):
        await stranger.call("status")
    await stranger.call("close")


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a+b c?#%2F", "ключ😀"])
async def test_odd_keys_are_kept(twin: Callable[[Rule], Twin], name: str) -> None:
    client, odd = twin(let_through), f"{name}"
    session = await client.call("session_start", "echo", odd, if_exists="return")

    assert (await client.call("session", odd)).id == session.id
    assert (await client.call("send", odd, "hi")).reply == "echo: hi"


async def test_a_life_of_a_session(twin: Callable[[Rule], Twin], host: Installation) -> None:
    client, name = twin(let_through), key()
    session = await client.call("session_start", "echo", name, cwd=str(host.work), labels={"a": "1"}, title="T")
    assert (session.key, session.labels, session.title) == (name, {"a": "1"}, "T")
    changed = await client.call("session_patch", name, {"labels": {"a": None, "b": "2"}}, if_match=session.revision)
    assert changed.labels == {"b": "2"}

    hold = uuid4().hex
    first = await client.call("send", name, f"[[hold {hold}]] one", wait_s=0)
    waiting = [await client.call("send", name, text, wait_s=0) for text in ("two", "three")]
    assert [each.id for each in await client.call("queue", name)] == [each.id for each in waiting]
    order = [waiting[1].id, waiting[0].id]
    assert [each.id for each in await client.call("reorder", name, order)] == order
    assert (await client.call("message_edit", waiting[0].id, text="zwei")).state == "queued"
    assert (await client.call("message_withdraw", waiting[1].id)).state == "withdrawn"
    assert not (await client.call("wait", first.id, 0.2)).ended
    host.release(hold)
    assert [each.state for each in await client.each("waiting", first.id)][-1] == "answered"
    assert (await client.call("wait", waiting[0].id)).reply == "echo: zwei"
    assert [line.role for line in await client.each("transcript", name)] == ["user", "assistant"] * 2

    turns = await client.each("turns", name)
    assert (await client.call("turn_wait", turns[0].id)).reply == "echo: one"
    exported = await client.call("session_export", name)
    assert (await client.call("session_stop", name)).status == "stopped"
    assert (await client.call("session_resume", name)).status != "stopped"
    assert (await client.call("session_clear", name)).generation == 2
    await client.call("session_delete", name)
    again = await client.call("session_import", exported)
    assert (again.key, again.title) == (name, "T")
    assert [each.id for each in await client.each("sessions", text=name)] == [again.id]


async def test_permissions_agents_tokens_and_the_status(twin: Callable[[Rule], Twin]) -> None:
    client, name = twin(let_through), key()
    receipt = await client.call("send", name, "[[ask may I]] done", wait_s=0, create=BIRTH)
    async for told in _events(client, name):
        if told.type == "permission.requested":
            break
    (asked,) = await client.each("permissions", ref=name)
    assert "may I" in asked.question
    assert (await client.call("permission_answer", asked.id, "allow", note="yes")).state == "allowed"
    assert (await client.call("wait", receipt.id)).state == "answered"

    assert "echo" in [agent.name for agent in await client.call("agents")]
    token = await client.call("token_create", "test", scope="read")
    assert token.token
    assert token.id in [each.id for each in await client.call("tokens")]
    await client.call("token_revoke", token.id)
    assert token.id not in [each.id for each in await client.call("tokens")]
    assert (await client.call("status")).store == "sqlite"


async def _events(client: Twin, name: str) -> AsyncGenerator[Event]:
    """A session's events, from either client."""
    events = client.client.events(name)
    while True:
        yield await anext(events) if client.is_async else next(events)


async def test_a_cancel_names_its_turn(twin: Callable[[Rule], Twin]) -> None:
    client, name = twin(let_through), key()
    receipt = await client.call("send", name, "[[sleep 30]]", wait_s=0, create=BIRTH)
    turn_id = None
    async for told in _events(client, name):
        if told.type == "turn.started":
            turn_id = told.turn_id
            break
    cancelled = await client.call("turn_cancel", turn_id)

    assert (cancelled.state, cancelled.confirmed) == ("cancelled", True)
    assert (await client.call("wait", receipt.id)).state == "cancelled"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_nobody_at_an_address_is_told_at_once(kind: str) -> None:
    client = Twin(kind, "http://127.0.0.1:9", "t")

    with pytest.raises(HostNotReached, match="127.0.0.1"):
        await client.call("status")
    await client.call("close")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_local_host_is_found_again_after_a_restart(kind: str, alone: Installation) -> None:
    alone.serve()
    made: Any = Client.local(alone.data) if kind == "sync" else await AsyncClient.local(alone.data)
    client = Twin(kind, "http://127.0.0.1:9", "t")
    await client.call("close")
    client.client = made
    receipt = await client.call("send", "k", "[[sleep 30]]", wait_s=0, create=BIRTH)

    alone.kill()
    alone.serve()

    assert (await client.call("wait", receipt.id)).state == "interrupted"
    assert (await client.call("send", "k", "again")).reply == "echo: again"
    await client.call("close")


def test_threads_may_share_a_client(host: Installation) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with Client.local(host.data) as client, ThreadPoolExecutor(8) as pool:
        names = [key() for _ in range(4)]
        sent = [pool.submit(client.send, names[n % 4], f"{n}", create=BIRTH) for n in range(24)]

        assert [each.result(20).reply for each in sent] == [f"echo: {n}" for n in range(24)]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", UnexpectedAnswer),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", UnexpectedAnswer),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ClientError),
    ],
)
async def test_something_else_than_a_host_is_told(kind: str, said: bytes, error: type[ClientError]) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        other = Twin(kind, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "t")
        with pytest.raises(error):
            await (asyncio.to_thread(other.client.status) if kind == "sync" else other.client.status())
        await other.call("close")
