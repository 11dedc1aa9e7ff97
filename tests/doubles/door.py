"""A real host over a memory store, with a parrot for an agent, behind a real HTTP server on a free loopback port."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from antiphon.errands import Errands
from antiphon.host.host import Host
from antiphon.host.service import Service
from antiphon.host.settings import HostSettings
from antiphon.http.app import create_app
from antiphon.http.edge import Limits
from antiphon.http.server import Server
from antiphon.http.token_store import TokenStore
from antiphon.store.memory import MemoryStore
from antiphon.system import SystemClock, SystemIds
from antiphon.telemetry.metrics import Metrics
from antiphon.webhooks.settings import WebhooksTable
from doubles.parrot import Parrot

TOKEN = "the-host's-own-token"
WAIT_S = 5.0


class Door(NamedTuple):
    """What a test drives."""

    client: httpx2.AsyncClient
    server: Server
    service: Service
    parrot: Parrot
    port: int
    app: Any
    serving: "asyncio.Task[None]"

    async def session(self, key: str = "s", **fields: Any) -> dict[str, Any]:
        """A new session of the parrot."""
        answer = await self.client.post("/v1/sessions", json={"agent": "parrot", "key": key, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def send(self, text: str, key: str = "s", **headers: str) -> httpx2.Response:
        """Send a message; a header's underscores become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(f"/v1/sessions/{key}/messages", json={"text": text}, headers=named)

    async def until(self, path: str, **fields: Any) -> dict[str, Any]:
        """What a path shows, once it has these fields."""
        async with asyncio.timeout(WAIT_S):
            while True:
                shown = (await self.client.get(path)).json()
                if fields.items() <= shown.items():
                    return shown

    async def raw(self, request: bytes) -> bytes:
        """All that comes back for some bytes, until the server closes."""
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(request)
            await writer.drain()
            try:
                return await reader.read()
            finally:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    def head(self, method: str, path: str, *headers: str) -> bytes:
        """The head of a request with the host's token, for `raw` or a socket."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {TOKEN}"]
        return "\r\n".join([*lines, *headers, "", ""]).encode()


@contextlib.asynccontextmanager
async def opened(
    data_dir: Path, *, limits: Limits | None = None, settings: HostSettings | None = None, service: Any = None
) -> AsyncIterator[Door]:
    """A door, closed in the end. With a `service` that one is behind it instead of the host."""
    parrot, ids = Parrot(), SystemIds()
    workspace = data_dir / "workspace"
    workspace.mkdir(parents=True)
    store, metrics = MemoryStore(epoch="e1"), Metrics()
    host = Host(
        store=store,
        agents={"parrot": parrot},
        clock=SystemClock(),
        ids=ids,
        settings=settings or HostSettings(drain_s=0.05),
        workspace=lambda _session_id: str(workspace),
        store_name="memory",
    )
    await host.start()
    behind = service(host) if service else host
    tokens = TokenStore(data_dir / "tokens.json", SystemClock(), ids)
    table = WebhooksTable(allowed_networks=("127.0.0.0/8",), allow_http=True, timeout_s=5, first_pause_s=0.05)
    errands = Errands(store, host, clock=SystemClock(), ids=ids, table=table, metrics=metrics)
    errands.start()
    app = create_app(
        behind, errands=errands, token=TOKEN, tokens=tokens, bound="127.0.0.1", limits=limits, metrics=metrics
    )
    server = Server(app)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    serving = asyncio.create_task(server.serve(sock))
    try:
        async with asyncio.timeout(WAIT_S):
            await server.started()
        async with _client(port) as client:
            yield Door(client, server, behind, parrot, port, app, serving)
    finally:
        await host.stop()
        await errands.stop()
        if not serving.done():
            await server.stop(2)
        await asyncio.wait({serving})


def _client(port: int) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10, trust_env=False)


@contextlib.asynccontextmanager
async def borrowed(door: Door) -> AsyncIterator[Door]:
    """A door that others use too, with a client of one's own; its sessions are gone afterwards."""
    async with _client(door.port) as client:
        yield door._replace(client=client)
    door.parrot.release()
    for session in (await door.client.get("/v1/sessions?limit=200")).json()["items"]:
        await door.client.delete(f"/v1/sessions/{session['id']}")


async def until(question: Callable[[], object]) -> None:
    """Let others run until the answer is yes."""
    async with asyncio.timeout(WAIT_S):
        while not question():  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0)


def events_of(stream: str) -> list[dict[str, Any]]:
    """The server-sent events in a text: their fields, with `data` as JSON."""
    found: list[dict[str, Any]] = []
    for block in stream.split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")]
        fields: dict[str, Any] = {name: value for name, _, value in lines}
        if "data" in fields:
            fields["data"] = json.loads(fields["data"])
            found.append(fields)
    return found
