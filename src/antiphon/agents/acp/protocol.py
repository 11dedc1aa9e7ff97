"""What of ACP's messages is read here. Fields that are not named are ignored, so that a newer agent still fits.

Source: the Agent Client Protocol, version 1, schema 1.19. The names are its own. Where agents were seen to leave out a
field that the schema requires, there is a default.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.agents.jsonrpc import Writer

VERSION = 1
WRITE = Writer(marked=True)


class Wire(msgspec.Struct, rename="camel", frozen=True):
    """A part of a message."""


# Opening


class SessionCapabilities(Wire, frozen=True):
    resume: Any = None
    """An object where `session/resume` is offered."""


class AgentCapabilities(Wire, frozen=True):
    load_session: bool = False
    session_capabilities: SessionCapabilities = SessionCapabilities()


class AuthMethod(Wire, frozen=True):
    id: str
    name: str = ""
    description: str | None = None


class Implementation(Wire, frozen=True):
    name: str = ""
    title: str | None = None
    version: str = ""


class Initialized(Wire, frozen=True):
    """The answer to `initialize`."""

    protocol_version: int | str = VERSION
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: list[AuthMethod] = []
    agent_info: Implementation | None = None


class Mode(Wire, frozen=True):
    id: str
    name: str = ""


class Modes(Wire, frozen=True):
    current_mode_id: str | None = None
    available_modes: list[Mode] = []


class Model(Wire, frozen=True):
    model_id: str


class Models(Wire, frozen=True):
    """Older than `configOptions`, and not part of the schema any more; some agents have only this."""

    current_model_id: str | None = None
    available_models: list[Model] = []


class ConfigValue(Wire, frozen=True):
    """A value of a `select`, or a group of them."""

    value: str | None = None
    options: list["ConfigValue"] = []


class ConfigOption(Wire, frozen=True):
    id: str
    category: str | None = None
    type: str = "select"
    current_value: str | bool | None = None
    options: list[ConfigValue] = []

    @property
    def values(self) -> list[str]:
        """What it may be set to, if it is a `select`."""
        return list(_values(self.options))


class Session(Wire, frozen=True):
    """The answer to `session/new`, `session/load`, `session/resume` and `session/set_config_option`."""

    session_id: str | None = None
    modes: Modes | None = None
    models: Models | None = None
    config_options: list[ConfigOption] | None = None


# A turn


class TokenCounts(Wire, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int = 0

    @property
    def given(self) -> int:
        """All that went in. Some agents count what came out of a cache in `inputTokens`, some beside it."""
        cached = (self.cached_read_tokens or 0) + (self.cached_write_tokens or 0)
        beside = self.total_tokens >= self.input_tokens + cached + self.output_tokens
        return self.input_tokens + cached if beside else self.input_tokens


class Prompted(Wire, frozen=True):
    """The answer to `session/prompt`."""

    stop_reason: str
    usage: Any = None

    @property
    def tokens(self) -> TokenCounts | None:
        """What the turn used, where it is told in the form of the (unstable) schema."""
        try:
            return msgspec.convert(self.usage, TokenCounts | None)
        except msgspec.ValidationError:
            return None


class Place(Wire, frozen=True):
    """Where a message belongs."""

    session_id: str | None = None


class Resource(Wire, frozen=True):
    uri: str = ""
    text: str | None = None


class Content(Wire, frozen=True):
    """A `ContentBlock`. Which fields it has depends on `type`."""

    type: str
    text: str | None = None
    uri: str | None = None
    name: str | None = None
    resource: Resource | None = None

    @property
    def words(self) -> str | None:
        """It as text; None for a picture, a sound or what is not known here."""
        match self.type:
            case "text":
                return self.text or ""
            case "resource_link":
                return f"[{self.name}]({self.uri})" if self.name else self.uri or ""
            case "resource" if self.resource is not None:
                return self.resource.text if self.resource.text is not None else self.resource.uri
            case _:
                return None


class ToolContent(Wire, frozen=True):
    """A `ToolCallContent`."""

    type: str
    content: Content | None = None
    path: str | None = None
    old_text: str | None = None
    new_text: str | None = None


class Location(Wire, frozen=True):
    path: str = ""


class ToolCall(Wire, frozen=True):
    """A `ToolCall`, or what changed of one. What is None was not told, or has not changed.

    `name` is not in the schema; claude-agent-acp tells it.
    """

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: list[ToolContent] | None = None
    locations: list[Location] | None = None
    raw_input: Any = None
    raw_output: Any = None


class Cost(Wire, frozen=True):
    amount: float = 0.0
    currency: str = ""


class ToldUpdate(Wire, frozen=True):
    """The `update` of a `session/update`, as far as it is needed to know what it is."""

    session_update: str


class Told(Wire, frozen=True):
    """`session/update`."""

    session_id: str
    update: msgspec.Raw


class Chunk(Wire, frozen=True):
    """`agent_message_chunk` and `agent_thought_chunk`."""

    content: Content
    message_id: str | None = None


class PlanUpdate(Wire, frozen=True):
    """`plan`: the whole plan, each time that it changes."""

    entries: list[dict[str, Any]] = []


class ModeUpdate(Wire, frozen=True):
    """`current_mode_update`."""

    current_mode_id: str


class UsageUpdate(Wire, frozen=True):
    """`usage_update`: the state of the context, and what the session has cost so far."""

    cost: Cost | None = None


class PermissionOption(Wire, frozen=True):
    option_id: str
    name: str = ""
    kind: str = ""


class PermissionRequest(Wire, frozen=True):
    """`session/request_permission`."""

    tool_call: ToolCall
    options: list[PermissionOption]


def _values(options: list[ConfigValue]) -> Iterator[str]:
    for option in options:
        if option.value is not None:
            yield option.value
        yield from _values(option.options)
