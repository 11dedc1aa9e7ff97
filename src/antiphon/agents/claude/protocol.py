"""What of Claude Code's lines is read here, and what is written. The names are its own; other fields are ignored."""

from typing import Any

import msgspec

from antiphon.ports.agent import Part


class BadLine(Exception):
    """A line that is not of the protocol."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a line."""


class Block(Wire, frozen=True, kw_only=True):
    """A piece of a message's content. Which fields it has depends on `type`."""

    type: str
    text: str = ""
    thinking: str = ""
    # tool_use
    id: str = ""
    name: str = ""
    input: Any = None
    # tool_result
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class Message(Wire, frozen=True, kw_only=True):
    """A message of the Messages API."""

    content: str | list[Block] = ""
    id: str = ""

    @property
    def blocks(self) -> list[Block]:
        """Its content; a bare text is one block."""
        return [Block(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class Line(Wire, frozen=True, kw_only=True):
    """What every line may have.

    Attributes:
        user_message_uuids: Which messages of the user are being answered.
        parent_tool_use_id: The tool call whose sub-agent says this; None for the main conversation.
    """

    uuid: str = ""
    session_id: str = ""
    parent_tool_use_id: str | None = None
    user_message_uuids: list[str] | None = None


class Delta(Wire, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    thinking: str = ""


class Event(Wire, frozen=True, kw_only=True):
    """An event of the stream that the model answers with."""

    type: str
    index: int = 0
    message: Message | None = None
    delta: Delta = Delta()


class StreamEvent(Line, frozen=True, kw_only=True, tag="stream_event"):
    event: Event
    api_message_id: str | None = None


class Assistant(Line, frozen=True, kw_only=True, tag="assistant"):
    """A block of an answer, once it is complete. With `error` it is not the model that speaks."""

    message: Message
    error: str | None = None


class User(Line, frozen=True, kw_only=True, tag="user", rename={"is_replay": "isReplay"}):
    """A message of the user: one of ours (`isReplay`), the result of a tool, or a remark of Claude Code's."""

    message: Message
    is_replay: bool = False


class Lifecycle(Line, frozen=True, kw_only=True, tag="command_lifecycle"):
    """What became of a message of ours: `queued`, `started`, then `completed` or `cancelled`."""

    command_uuid: str
    state: str = ""


class System(Line, frozen=True, kw_only=True, tag="system"):
    subtype: str = ""
    # api_retry
    attempt: int = 0
    max_retries: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: Any = None


class Origin(Wire, frozen=True, kw_only=True):
    kind: str = ""


class Tokens(Wire, frozen=True, kw_only=True):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class Result(Line, frozen=True, kw_only=True, tag="result"):
    """The end of a turn of Claude Code's. `total_cost_usd` counts from the start of the process, or from `/clear`."""

    subtype: str = ""
    is_error: bool = False
    num_turns: int = 0
    result: str | None = None
    errors: list[str] = []
    usage: Tokens | None = None
    total_cost_usd: float = 0.0
    terminal_reason: str | None = None
    api_error_status: int | None = None
    origin: Origin | None = None


class Request(Wire, frozen=True, kw_only=True):
    """What Claude Code asks of the host."""

    subtype: str
    tool_name: str = ""
    display_name: str | None = None
    input: dict[str, Any] = {}
    decision_reason: str | None = None
    permission_suggestions: list[dict[str, Any]] | None = None


class ControlRequest(Line, frozen=True, kw_only=True, tag="control_request"):
    request_id: str
    request: Request


class ControlCancel(Line, frozen=True, kw_only=True, tag="control_cancel_request"):
    """A question is not to be answered any more."""

    request_id: str


class Response(Wire, frozen=True, kw_only=True):
    request_id: str
    subtype: str = "success"
    error: Any = None
    response: Any = None


class ControlResponse(Line, frozen=True, kw_only=True, tag="control_response"):
    """The answer to a request of ours; or, with `--replay-user-messages`, our own answer once more."""

    response: Response


class _Kind(Wire, frozen=True, kw_only=True):
    type: str


Known = StreamEvent | Assistant | User | Lifecycle | System | Result | ControlRequest | ControlCancel | ControlResponse
KINDS = frozenset(
    "stream_event assistant user command_lifecycle system result control_request control_cancel_request "
    "control_response".split()
)
_kind = msgspec.json.Decoder(_Kind)
_known = msgspec.json.Decoder(Known)


def read(line: bytes) -> Known | None:
    """Read a line; None when it is of a kind that is not needed here.

    Raises:
        BadLine: It is not JSON, not UTF-8, or not of the form that its kind has.
    """
    try:
        return _known.decode(line) if _kind.decode(line).type in KINDS else None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error


def user(message_uuid: str, parts: tuple[Part, ...]) -> bytes:
    """A message of the user: one text. Of a file it is told the place; Claude Code reads it itself."""
    texts = [part.text for part in parts if part.text]
    texts += [f"Attached file: {part.path}" for part in parts if part.path is not None]
    content = [{"type": "text", "text": "\n\n".join(texts)}]
    message = {"role": "user", "content": content}
    return msgspec.json.encode({"type": "user", "uuid": message_uuid, "message": message, "parent_tool_use_id": None})


def request(request_id: str, subtype: str, **params: Any) -> bytes:
    """A request of ours."""
    asked = {"subtype": subtype, **params}
    return msgspec.json.encode({"type": "control_request", "request_id": request_id, "request": asked})


def answer(request_id: str, result: dict[str, Any]) -> bytes:
    """The answer to a request of Claude Code's."""
    response = {"subtype": "success", "request_id": request_id, "response": result}
    return msgspec.json.encode({"type": "control_response", "response": response})


def refusal(request_id: str, error: str) -> bytes:
    """The answer to a request that can't be met."""
    response = {"subtype": "error", "request_id": request_id, "error": error}
    return msgspec.json.encode({"type": "control_response", "response": response})
