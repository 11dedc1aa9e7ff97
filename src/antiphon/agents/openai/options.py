"""How the configuration describes an agent behind an OpenAI-compatible endpoint."""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from antiphon.agents.process import LINE_LIMIT

MCP_MISSING = (
    "Tools from MCP servers need a library that is not installed here. Get it with: pip install 'antiphon[mcp]'"
)

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Table = TypeVar("Table", bound=msgspec.Struct)


class BadOptions(ValueError):
    """The agent's table of the configuration is wrong; the text is for a person."""


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[agents.NAME.mcp.SERVER]`: a program that speaks MCP on stdin and stdout, or the address of a server.

    Attributes:
        command: The program and its arguments. It runs in the session's working directory.
        environment: Further variables of the program. It gets none of the agent's, but for HOME, PATH and the like.
        url: Where a server speaks streamable HTTP, instead of `command`.
        headers: Further headers of requests to it.
        headers_env: The same, with the names of environment variables of the host that have the values.
    """

    command: list[str] = []
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every agent that is a chat model may be told.

    Attributes:
        system_prompt: What the model is told before every conversation.
        temperature: How freely the model chooses its words.
        parameters: Further fields of every request, as they are: `top_p`, `max_completion_tokens`, `reasoning_effort`.
        max_steps: How often the model may be asked in one turn, because it called tools; one more fails the turn.
        mcp: Tools that the model may call, by MCP server.
        approve: Which calls of tools wait for a person: `"always"` all, `"never"` none; or a list of those that need
            not wait, such as `["files.read_*", "clock.*"]` (SERVER.TOOL, with `*` for anything).
        mcp_start_timeout_s: How long an MCP server may take to start. Without it the conversation goes on.
        tool_timeout_s: How long a call of a tool may take.
        silence_s: How long the model may take for the next piece of its answer, until its turn fails.
        line_limit: Bytes of a line from the model's server; a longer one fails its turn.
    """

    system_prompt: str | None = None
    temperature: float | None = None
    parameters: dict[str, Any] = {}
    max_steps: Positive = 20
    mcp: dict[str, McpServer] = {}
    approve: Literal["always", "never"] | list[str] = "always"
    mcp_start_timeout_s: Seconds = 30.0
    tool_timeout_s: Seconds = 300.0
    silence_s: Seconds = 300.0
    line_limit: Positive = LINE_LIMIT

    @property
    def asks(self) -> bool:
        """Whether it ever asks a person."""
        return bool(self.mcp) and self.approve != "never"

    def flaw(self) -> str | None:
        """What is wrong with it although every value is of its type, in words; None when nothing is."""
        for name, server in self.mcp.items():
            if bool(server.command) == bool(server.url):
                return f"`mcp.{name}` must have a `command` or a `url`, and not both"
        if "messages" in self.parameters or "stream" in self.parameters or "tools" in self.parameters:
            return "`parameters` can't say what antiphon says: `messages`, `stream`, `tools`"
        return None

    def missing(self) -> str | None:
        """What has to be installed before it can run, and the command for it; None when nothing has to be."""
        return MCP_MISSING if self.mcp and importlib.util.find_spec("mcp") is None else None


class OpenAIOptions(ChatOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "openai"` may hold besides.

    Attributes:
        base_url: Where the endpoint is, up to `/chat/completions`.
        model: The model, unless the session names one.
        api_key_env: The environment variable of the host that has the key; empty for an endpoint that wants none.
        headers: Further headers of every request.
        headers_env: The same, with the names of environment variables of the host that have the values.
        context_tokens: How much of the conversation is sent, in tokens as antiphon estimates them (a third of its
            UTF-8 bytes). What is older than that is left out, by whole turns; see [agents](agents.md#openai).
        retries: How often a request is made again after 408, 409, 429, 5xx or a connection that failed, as long as
            nothing of the answer has come.
        stream_usage: Whether to ask for the usage (`stream_options`), which a few servers don't understand.
        environment: Further variables of the process, such as `HTTPS_PROXY`.
    """

    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    context_tokens: Positive = 100_000
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    stream_usage: bool = True
    environment: dict[str, str] = {}

    def flaw(self) -> str | None:
        if not self.base_url.startswith(("http://", "https://")):
            return "`base_url` must begin with http:// or https://"
        return super().flaw()

    def missing(self) -> str | None:
        return super().missing() or next(self._unset(), None)

    def key(self) -> str | None:
        """The key.

        Raises:
            BadOptions: The variable is not set.
        """
        return self.secret(self.api_key_env) if self.api_key_env else None

    def secret(self, name: str) -> str:
        """The value of an environment variable of the host.

        Raises:
            BadOptions: It is not set.
        """
        return secret(name, self.environment)

    def _unset(self) -> Iterator[str]:
        names = [self.api_key_env, *self.headers_env.values()]
        names += [name for server in self.mcp.values() for name in server.headers_env.values()]
        for name in filter(None, names):
            try:
                self.secret(name)
            except BadOptions as error:
                yield str(error)


def read(kind: type[Table], table: Mapping[str, Any], adapter: str) -> Table:
    """Check a table of the configuration.

    Raises:
        BadOptions: A key is unknown or has a bad value.
    """
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as error:
        raise BadOptions(f"The configuration of this `{adapter}` agent is wrong: {error}.") from error


def secret(name: str, environment: Mapping[str, str]) -> str:
    """The value of a variable of an agent's own environment or of the host's.

    Raises:
        BadOptions: It is set in neither.
    """
    value = environment.get(name) or os.environ.get(name)
    if not value:
        raise BadOptions(f"The environment variable {name} is not set where the host runs. Set it and start the host.")
    return value


def check(options: ChatOptions) -> None:
    """Look for what the types of values don't say.

    Raises:
        BadOptions: Something is wrong.
    """
    flaw = options.flaw()
    if flaw is not None:
        raise BadOptions(f"The configuration of this agent is wrong: {flaw}.")
