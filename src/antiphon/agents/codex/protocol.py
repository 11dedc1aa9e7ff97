"""What of Codex's messages is read here. Fields that are not named are ignored, so that a newer Codex still fits.

Source: `codex app-server generate-json-schema --experimental`, Codex 0.163, protocol v2. The names are its own.
"""

from typing import Any

import msgspec

from antiphon.agents.jsonrpc import Writer

WRITE = Writer(marked=False)


class Wire(msgspec.Struct, rename="camel", frozen=True):
    """A part of a message."""


class TurnError(Wire, frozen=True):
    message: str = ""
    additional_details: str | None = None
    codex_error_info: Any = None


class Item(Wire, frozen=True):
    """A `ThreadItem`. Which fields it has depends on `type`."""

    type: str
    id: str
    text: str | None = None
    client_id: str | None = None
    summary: list[str] = []
    status: str | None = None
    # commandExecution
    command: str | None = None
    cwd: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    # fileChange
    changes: list[dict[str, Any]] = []
    # mcpToolCall, dynamicToolCall, collabAgentToolCall, webSearch
    server: str | None = None
    tool: str | None = None
    arguments: Any = None
    result: Any = None
    error: Any = None
    content_items: Any = None
    prompt: str | None = None
    query: str | None = None
    path: str | None = None


class Turn(Wire, frozen=True):
    id: str
    status: str = "inProgress"
    error: TurnError | None = None
    items: list[Item] = []


class Thread(Wire, frozen=True):
    id: str


class ThreadAnswer(Wire, frozen=True):
    """The answer to `thread/start` and `thread/resume`."""

    thread: Thread


class TurnAnswer(Wire, frozen=True):
    """The answer to `turn/start`."""

    turn: Turn


class Terminal(Wire, frozen=True):
    item_id: str
    process_id: str


class TerminalsAnswer(Wire, frozen=True):
    """The answer to `thread/backgroundTerminals/list`."""

    data: list[Terminal] = []
    next_cursor: str | None = None


class Place(Wire, frozen=True):
    """Where in Codex's world a notification or request belongs."""

    thread_id: str | None = None
    turn_id: str | None = None
    turn: Turn | None = None

    @property
    def codex_turn_id(self) -> str | None:
        """Codex's id of the turn, which some messages carry inside of it."""
        return self.turn.id if self.turn else self.turn_id


class TurnChanged(Wire, frozen=True):
    """`turn/started` and `turn/completed`."""

    turn: Turn


class ItemChanged(Wire, frozen=True):
    """`item/started` and `item/completed`."""

    item: Item


class Delta(Wire, frozen=True):
    """`item/agentMessage/delta`, `item/reasoning/summaryTextDelta` and `item/reasoning/textDelta`."""

    item_id: str
    delta: str
    summary_index: int | None = None
    content_index: int | None = None


class TokenCounts(Wire, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0


class TokenUsage(Wire, frozen=True):
    total: TokenCounts
    last: TokenCounts


class UsageChanged(Wire, frozen=True):
    """`thread/tokenUsage/updated`."""

    token_usage: TokenUsage


class Trouble(Wire, frozen=True):
    """`error`."""

    error: TurnError
    will_retry: bool = False


class Resolved(Wire, frozen=True):
    """`serverRequest/resolved`."""

    request_id: int | str


class Remark(Wire, frozen=True):
    """`warning`, `configWarning`, `deprecationNotice` and their like."""

    message: str | None = None
    summary: str | None = None
    details: str | None = None


class ServerStatus(Wire, frozen=True):
    """`mcpServer/startupStatus/updated`."""

    name: str
    status: str
    error: str | None = None


class Approval(Wire, frozen=True):
    """The requests for a person's consent: to a command, a change of files, wider rights, or an MCP server's wish."""

    item_id: str | None = None
    reason: str | None = None
    command: str | None = None
    cwd: str | None = None
    grant_root: str | None = None
    available_decisions: list[Any] | None = None
    permissions: Any = None
    server_name: str | None = None
    message: str | None = None
    mode: str | None = None
    requested_schema: Any = None
