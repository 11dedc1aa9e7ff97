"""One synchronous message over HTTP to the echo agent, against an ASGI echo with one synced insert."""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure

FLOOR = """
import sys
import apsw, uvicorn
connection = apsw.Connection(sys.argv[1])
connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE kept (body BLOB)").fetchall()
async def app(scope, receive, send):
    body = (await receive())["body"]
    connection.execute("INSERT INTO kept VALUES (?)", (body,))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", lifespan="off", access_log=False)
"""


def served_host(
    data_dir: Path, *arguments: str
) -> "contextlib.AbstractContextManager[tuple[dict[str, str], int, float]]":
    """A host on a data directory: what `ready.json` says, its pid, and after how many seconds it served.

    It is called what the directory is, where several share a store.
    """
    return _served_host(data_dir, arguments)


@contextlib.contextmanager
def _served_host(data_dir: Path, arguments: tuple[str, ...]) -> Generator[tuple[dict[str, str], int, float]]:
    ready = data_dir / "ready.json"
    command = [sys.executable, "-m", "antiphon.cli", "serve", "--data-dir", str(data_dir), "--log-level", "error"]
    named = {**os.environ, "ANTIPHON__HOST__NAME": data_dir.name}
    began = time.perf_counter()
    with subprocess.Popen([*command, *arguments], env=named, stderr=subprocess.DEVNULL) as process:
        try:
            while not ready.exists():
                assert process.poll() is None, "the host ended while starting"
                time.sleep(0.002)
            yield json.loads(ready.read_text()), process.pid, time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(30)


def times(url: str, path: str, headers: dict[str, str], body: bytes, count: int) -> list[float]:
    """How long each of `count` requests took, one after another on one connection; but for the first fifth."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        said = answer.read()
        took.append(time.perf_counter() - began)
        assert answer.status == 200, said
    connection.close()
    return took[count // 5 :]


def synchronous_message(root: Path, *, quick: bool) -> list[Figure]:
    """The median and the 99th percentile."""
    count, rounds = (50, 3) if quick else (120, 5)
    body = json.dumps({"text": "a message of some length"}).encode()
    json_type = {"Content-Type": "application/json"}
    path, floor, value = "/v1/sessions/bench/messages", list[float](), list[float]()
    with _floor(root) as url, served_host(root / "host") as (ready, _pid, _took):
        headers = json_type | {"Authorization": f"Bearer {ready['token']}", "Prefer": "wait=30"}
        create = json.dumps({"text": "first", "create": {"agent": "echo"}}).encode()
        times(ready["url"], path, headers, create, 1)
        for _ in range(rounds):
            floor += times(url, "/", json_type, body, count)
            value += times(ready["url"], path, headers, body, count)
    what = "a synchronous message over HTTP to echo, against an ASGI echo with one synced insert"
    return [
        Figure(
            "http_message_p50", f"{what}, median", milliseconds(value, 50), milliseconds(floor, 50), 3.0, "lower", "ms"
        ),
        Figure(
            "http_message_p99",
            f"{what}, 99th percentile",
            milliseconds(value, 99),
            milliseconds(floor, 99),
            3.0,
            "lower",
            "ms",
        ),
    ]


def milliseconds(times: list[float], percentile: int) -> float:
    return 1000 * statistics.quantiles(times, n=100)[percentile - 1]


@contextlib.contextmanager
def _floor(root: Path) -> Generator[str]:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", FLOOR, str(root / "floor.db"), str(port)]) as process:
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
