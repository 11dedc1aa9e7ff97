"""The tools of MCP servers: what the model is offered, and calls of them.

Each server is started when the agent is, by a task of its own, and again before the next request when it has gone away.
One that does not start in time, dies or never answers costs the conversation its tools and nothing else. Programs run
below this process, so the guard ends them with it.
"""

import asyncio
import contextlib
import fnmatch
import importlib
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec

from antiphon.agents.excerpts import shortened
from antiphon.agents.openai.protocol import Server

NAME_MAX = 64
"""OpenAI API reference, `tools[].function.name`: letters, digits, underscores and dashes."""
UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")
PAGES_MAX = 50
CONNECT_TIMEOUT_S, SILENCE_S = 30.0, 300.0
LISTENS_WITHIN_S = 5.0
TREE_MARK = "AGENT_TREE_ID"
"""As `antiphon.agents.process` has it, which is for the host."""
CONNECTION_CLOSED = -32000
"""What the MCP library says when a server has gone away in the middle of a call."""


class Tool(msgspec.Struct, frozen=True):
    """A tool on offer.

    Attributes:
        label: SERVER.TOOL, as people know it.
        server, name: Where it is, and what it is called there.
        offer: What the model is told of it.
    """

    label: str
    server: str
    name: str
    offer: dict[str, Any]


class Outcome(msgspec.Struct, frozen=True):
    """What came of a call. `text` is for the model."""

    text: str
    failed: bool = False


class Toolbox:
    """All tools of an agent.

    Args:
        servers: The MCP servers by name.
        cwd: Where their programs run.
        start_timeout_s, tool_timeout_s: How long one may take to start, and a call.
        remark: Takes what a person should know.
    """

    def __init__(
        self,
        servers: Mapping[str, Server],
        *,
        cwd: str,
        start_timeout_s: float,
        tool_timeout_s: float,
        remark: Callable[[str], None],
    ) -> None:
        self._links = {
            name: Link(name, server, cwd, start_timeout_s, tool_timeout_s, remark) for name, server in servers.items()
        }

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start every server. They live as long as the group."""
        for link in self._links.values():
            group.create_task(link.live())

    async def tools(self) -> dict[str, Tool]:
        """The tools that there are now, by the names that the model knows them by. Waits for servers that start."""
        found: dict[str, Tool] = {}
        for link in self._links.values():
            for tool in await link.tools():
                found.setdefault(_called(link.name, tool["name"], found), _tool(link.name, tool))
        return {called: _offered(tool, called) for called, tool in found.items()}

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        """Call a tool. Every trouble is an outcome too."""
        return await self._links[tool.server].call(tool.name, arguments)


def may_run_unasked(label: str, approve: str | list[str]) -> bool:
    """Whether policy lets a tool (SERVER.TOOL) run without a person's word."""
    if isinstance(approve, str):
        return approve == "never"
    return any(fnmatch.fnmatchcase(label, pattern) for pattern in approve)


class Link:
    """The connection to one MCP server. `live` owns it; the other methods are called from other tasks."""

    def __init__(
        self,
        name: str,
        server: Server,
        cwd: str,
        start_timeout_s: float,
        tool_timeout_s: float,
        remark: Callable[[str], None],
    ) -> None:
        self.name = name
        self._server = server
        self._cwd = cwd
        self._start_timeout_s = start_timeout_s
        self._tool_timeout_s = tool_timeout_s
        self._remark = remark
        self._client: Any = None
        self._tools: list[dict[str, Any]] = []
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._settled = asyncio.Event()
        """It is there, or it is known not to be."""
        self._broken = asyncio.Event()
        self._doubtful = False
        """A call was given up, and it may work on it for ever."""

    async def live(self) -> None:
        """Connect whenever it is wanted, and stay connected until it breaks."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._broken.clear()
            try:
                await self._connected()
            except Exception as error:  # noqa: BLE001 - a library and other people's servers: all of it is theirs
                self._remark(f"The MCP server {self.name!r} is not there: {_why(error)}. Its tools can't be used.")
            finally:
                self._client, self._tools = None, []
                if not self._wanted.is_set():
                    self._settled.set()

    async def tools(self) -> list[dict[str, Any]]:
        """The server's tools; none while it can't be reached. It is tried again if it went away.

        One that was left alone with a call must show that it listens: else it is ended and started again.
        """
        if self._doubtful and self._client is not None:
            self._doubtful = False
            await self._make_sure(self._client)
        if self._settled.is_set() and self._client is None:
            self._settled.clear()
            self._wanted.set()
        await self._settled.wait()
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        """Call a tool."""
        client = self._client
        if client is None:
            return Outcome(f"The tool can't be used now: its server {self.name!r} is not there.", failed=True)
        try:
            async with asyncio.timeout(self._tool_timeout_s):
                result = await client.call_tool(name, arguments)
        except asyncio.CancelledError:
            self._doubtful = True
            raise
        except TimeoutError:
            self._lose()
            return Outcome(f"The tool gave no answer within {self._tool_timeout_s:g} s.", failed=True)
        except Exception as error:  # noqa: BLE001 - as above
            if getattr(error, "code", CONNECTION_CLOSED) == CONNECTION_CLOSED:  # an answer has another code
                self._lose()
            return Outcome(f"The tool failed: {_why(error)}", failed=True)
        return Outcome(shortened(_words(result)), failed=bool(result.is_error))

    async def _make_sure(self, client: Any) -> None:
        try:
            async with asyncio.timeout(LISTENS_WITHIN_S):
                await client.list_tools()
        except Exception:  # noqa: BLE001 - as above
            self._lose()

    def _lose(self) -> None:
        """It is gone or stuck: it is ended, and started again before the next request."""
        self._client = None
        self._broken.set()

    async def _connected(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(self._start_timeout_s):
                client = await stack.enter_async_context(_client(self._server, self._cwd))
                self._tools = await _listed(client)
            self._client = client
            self._settled.set()
            await self._broken.wait()
        raise ConnectionError("it went away")


@contextlib.asynccontextmanager
async def _client(server: Server, cwd: str) -> AsyncGenerator[Any]:
    """A client of the MCP library, which takes a second to import and is needed here only."""
    await asyncio.to_thread(importlib.import_module, "mcp.client.streamable_http")  # cancels are heard meanwhile
    import httpx2  # noqa: PLC0415
    import mcp  # noqa: PLC0415
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    if server.url is None:
        program, *arguments = server.command
        told = StdioServerParameters(
            command=program,
            args=arguments,
            env={**server.environment, **{name: os.environ[name] for name in (TREE_MARK,) if name in os.environ}},
            cwd=cwd,
            encoding_error_handler="replace",
        )
        async with mcp.Client(told, cache=None) as client:
            yield client
        return
    http = httpx2.AsyncClient(headers=server.headers, timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=SILENCE_S))
    async with http, mcp.Client(streamable_http_client(server.url, http_client=http), cache=None) as client:
        yield client


async def _listed(client: Any) -> list[dict[str, Any]]:
    """All tools of a server: name, description and schema."""
    tools: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools += [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _called(server: str, name: str, taken: Mapping[str, Tool]) -> str:
    """What the model is to call a tool: fit for it, and of one tool only."""
    fit = UNFIT.sub("_", f"{server}__{name}")[:NAME_MAX]
    number = 2
    while fit in taken:
        fit = f"{fit[: NAME_MAX - 4]}_{number}"
        number += 1
    return fit


def _tool(server: str, tool: dict[str, Any]) -> Tool:
    return Tool(f"{server}.{tool['name']}", server, tool["name"], tool)


def _offered(tool: Tool, called: str) -> Tool:
    offer = {"type": "function", "function": {**tool.offer, "name": called}}
    return msgspec.structs.replace(tool, offer=offer)


def _words(result: Any) -> str:
    """What a tool's result says, as a text."""
    words = [block.text if block.type == "text" else f"[{block.type}]" for block in result.content]
    if not words and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(words)


def _why(error: BaseException) -> str:
    """What an error says; of a group of errors, what the first one says."""
    if isinstance(error, BaseExceptionGroup):
        return _why(error.exceptions[0])  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(error, TimeoutError):
        return "it did not start in time"
    return str(error).rstrip(".") or type(error).__name__
