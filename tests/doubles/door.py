"""A real host over a memory store, with a parrot for an agent, behind a real HTTP server on a free loopback port."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from doubles.parrot import Parrot

from antiphon.host.host import Host
from antiphon.host.service import Service
from antiphon.host.settings import HostSettings
from antiphon.http.app import create_app
from antiphon.http.edge import Limits
from antiphon.http.server import Server
from antiphon.http.token_store import TokenStore
from antiphon.store.memory import MemoryStore
from antiphon.system import SystemClock, SystemIds

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
    host = Host(
        store=MemoryStore(epoch="e1"),
        agents={"parrot": parrot},
        clock=SystemClock(),
        ids=ids,
        settings=settings or HostSettings(drain_s=0.05),
        workspace=lambda session_id: str(workspace),
        store_name="memory",
    )
    await host.start()
    behind = service(host) if service else host
    tokens = TokenStore(data_dir / "tokens.json", SystemClock(), ids)
    app = create_app(behind, token=TOKEN, tokens=tokens, bound="127.0.0.1", limits=limits)
    server = Server(app)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    serving = asyncio.create_task(server.serve(sock))
    headers = {"authorization": f"Bearer {TOKEN}"}
    try:
        async with asyncio.timeout(WAIT_S):
            await server.started()
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=10, trust_env=False) as client:
            yield Door(client, server, behind, parrot, port, app, serving)
    finally:
        await host.stop()
        if not serving.done():
            await server.stop(2)
        await serving


def events_of(stream: str) -> list[dict[str, Any]]:
    """The server-sent events in a text: their fields, with `data` as JSON."""
    found: list[dict[str, Any]] = []
    for block in stream.split("\n\n"):
        pairs = [line.partition(": ")[::2] for line in block.split("\n") if line and not line.startswith(":")]
        fields: dict[str, Any] = dict(pairs)
        if "data" in fields:
            fields["data"] = json.loads(fields["data"])
            found.append(fields)
    return found
