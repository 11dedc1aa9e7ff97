"""Many viewers of one turn, against a bare ASGI loop that sends the same frames; and one viewer that never reads."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import psutil

from antiphon.client import Client
from benchmarks.door import served_host
from benchmarks.figures import Figure

MIB = 1024 * 1024
DEAD_MB = 16.0
ROUNDS = 3
KEY, EVENTS, LAST = "bench", "/v1/sessions/bench/events", "turn.ended"

FLOOR = """
import asyncio, json, sys
import uvicorn
frames = [frame.encode() for frame in json.load(open(sys.argv[1]))]
async def app(scope, receive, send):
    if scope["method"] == "POST":
        go.set()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b": begins\\n\\n", "more_body": True})
    await go.wait()
    for frame in frames:
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
async def main():
    global go
    go = asyncio.Event()
    config = uvicorn.Config(app, port=int(sys.argv[2]), log_level="error", lifespan="off", access_log=False)
    await uvicorn.Server(config).serve()
import uvloop
uvloop.run(main())
"""


class Crowd(NamedTuple):
    """How many look on, and how many pieces the turn has."""

    viewers: int
    pieces: int


def many_viewers(root: Path, *, quick: bool) -> list[Figure]:
    """Events a second that reach 200 viewers, and what a dead viewer among them costs."""
    crowd, rounds = (Crowd(200, 800), 2) if quick else (Crowd(200, 2000), 2)
    events = crowd.viewers * crowd.pieces
    values: list[float] = []
    floors: list[float] = []
    with served_host(root / "host") as (ready, _pid, _took):
        for _ in range(rounds):
            took, frames = _turn_seen(ready, crowd)
            values.append(events / took)
            floors.append(events / _bare(root, frames, crowd))
    what = f"{crowd.viewers} viewers of one turn with {crowd.pieces:,} pieces, against a bare ASGI SSE loop"
    fanned = Figure("viewers", what, max(values), max(floors), 0.6, "higher", "events/s")
    return [fanned, *_beside_the_dead(root, crowd, journal_mb=20 if quick else 40)]


def _turn_seen(ready: dict[str, str], crowd: Crowd) -> tuple[float, list[str]]:
    """How long it takes until all viewers have been told a whole turn; and its frames."""
    with Client(ready["url"], ready["token"]) as client:
        client.send(KEY, "warm", create={"agent": "echo"})
        last = list(client.journal(KEY))[-1].cursor
        with _viewers(ready["url"], f"{EVENTS}?after={quote(last)}", ready["token"], crowd) as reader:
            began = time.perf_counter()
            client.send(KEY, f"[[stream {crowd.pieces} every 0]] the end", wait_s=0)
            took = _told(reader, began, crowd)
        events = client.journal(KEY, after=last)
        documents = [(event.cursor, event.type, event.document) for event in events]
    frames = [
        f"id: {place}\nevent: {kind}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n"
        for place, kind, document in documents
    ]
    return took, frames


def _bare(root: Path, frames: list[str], crowd: Crowd) -> float:
    """How long the same frames take to as many viewers from a bare loop."""
    file = root / "frames.json"
    file.write_text(json.dumps(frames), encoding="utf-8")
    with _floor(file) as url, _viewers(url, "/", "none", crowd) as reader:
        began = time.perf_counter()
        with urlopen(Request(url, method="POST"), timeout=60):
            pass
        return _told(reader, began, crowd)


@contextlib.contextmanager
def _viewers(url: str, path: str, token: str, crowd: Crowd) -> Generator["subprocess.Popen[str]"]:
    """A process of viewers, all of them connected."""
    command = [sys.executable, "-m", "benchmarks.reader", url, path, token, str(crowd.viewers), LAST]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as reader:
        try:
            _line(reader, "ready")
            yield reader
        finally:
            reader.terminate()


def _told(reader: "subprocess.Popen[str]", began: float, crowd: Crowd) -> float:
    """Wait until all were told, look at what they were told, and say how long it took."""
    _line(reader, "done")
    took = time.perf_counter() - began
    assert reader.stdout
    told = json.loads(reader.stdout.readline())
    assert told["orderly"], "a viewer was told events out of order, or with one left out"
    assert told["texts"] == 1, "viewers were told different texts"
    assert told["text"].count(" ") >= crowd.pieces, "the text is not whole"
    return took


def _line(reader: "subprocess.Popen[str]", expected: str) -> None:
    assert reader.stdout
    said = reader.stdout.readline().strip()
    assert said == expected, f"the viewers said {said!r}, not {expected!r}"


@contextlib.contextmanager
def _floor(frames: Path) -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", FLOOR, str(frames), str(port)]) as process:
        try:
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, "the floor's server ended while starting"
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


def _beside_the_dead(root: Path, crowd: Crowd, *, journal_mb: int) -> list[Figure]:
    """A turn with one viewer more that never reads and has a long journal behind it, against the same turn alone."""
    few = Crowd(20, crowd.pieces)
    with served_host(root / "dead") as (ready, pid, _took):
        with Client(ready["url"], ready["token"]) as client:
            for _ in range(journal_mb):
                client.send(KEY, f"[[bytes {MIB}]]", create={"agent": "echo"})
        host = psutil.Process(pid)
        alone = min(_turn_seen(ready, few)[0] for _ in range(ROUNDS))
        before = host.memory_info().rss / MIB
        with _dead_viewer(ready):
            beside = min(_turn_seen(ready, few)[0] for _ in range(ROUNDS))
            after = host.memory_info().rss / MIB
    return [
        Figure("viewers_beside_dead", "a turn for 20 viewers beside one that never reads, against without it",
               beside, alone, 1.5, "lower", "s"),
        Figure("memory_of_dead", f"memory with a viewer that never reads {journal_mb} MB (within {DEAD_MB:g} MB)",
               after, before, (before + DEAD_MB) / before, "lower", "MB"),
    ]  # fmt: skip


@contextlib.contextmanager
def _dead_viewer(ready: dict[str, str]) -> Generator[None]:
    """A connection that asks for all events of the session and reads none of them."""
    place = urlsplit(ready["url"])
    head = f"GET {EVENTS} HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n"
    with socket.socket() as link, Client(ready["url"], ready["token"]) as client:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect((place.hostname, place.port))
        link.sendall(f"{head}Authorization: Bearer {ready['token']}\r\n\r\n".encode())
        while not client.status().viewers:
            time.sleep(0.01)
        yield
