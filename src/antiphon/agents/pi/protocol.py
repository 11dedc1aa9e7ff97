"""pi's lines, as far as they matter. Every line is one object; what is not known of it is passed over."""

from typing import Any, Literal

import msgspec

Json = dict[str, Any]


class BadLine(Exception):
    """A line is not of this protocol. The text says why."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields are camelCase on the wire."""


class Cost(Wire, frozen=True, kw_only=True):
    total: float = 0.0


class Tokens(Wire, frozen=True, kw_only=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: Cost = Cost()


class Block(Wire, frozen=True, kw_only=True):
    """A part of a message or of a tool's result."""

    type: str = ""
    text: str = ""
    thinking: str = ""


class Message(Wire, frozen=True, kw_only=True):
    role: str = ""
    content: list[Block] | str = []
    usage: Tokens | None = None
    stop_reason: str | None = None
    error_message: str | None = None


class Delta(Wire, frozen=True, kw_only=True):
    """A piece of a message."""

    type: str = ""
    content_index: int = 0
    delta: str = ""


class Result(Wire, frozen=True, kw_only=True):
    """What a tool gave back."""

    content: list[Block] = []


class State(Wire, frozen=True, kw_only=True):
    is_streaming: bool = False
    session_file: str | None = None


class Line(Wire, frozen=True, kw_only=True):
    """A response to a command of ours (`type` is `response`), or an event."""

    type: str
    id: str | None = None
    command: str | None = None
    success: bool = True
    error: Any = None
    data: Any = None
    message: Any = None
    assistant_message_event: Delta | None = None
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    result: Any = None
    is_error: bool = False
    will_retry: bool = False
    aborted: bool = False
    attempt: int = 0
    max_attempts: int = 0
    delay_ms: float = 0.0
    error_message: str | None = None
    final_error: str | None = None
    method: str | None = None

    def told(self) -> Message:
        """The message in an event about one.

        Raises:
            BadLine: There is none.
        """
        return _convert(self.message, Message)

    def state(self) -> State:
        """The answer to `get_state`.

        Raises:
            BadLine: It is none.
        """
        return _convert(self.data, State)

    def output(self) -> str:
        """What a tool gave back, as a text; what is no text is named.

        Raises:
            BadLine: It is no result.
        """
        result: Result = _convert(self.result or {}, Result)
        return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in result.content)


def read(line: bytes) -> Line:
    """A line.

    Raises:
        BadLine: It is no object with a type, or a field has another form than it should.
    """
    try:
        return msgspec.json.decode(line, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error


def command(kind: Literal["prompt", "abort", "get_state"], command_id: str, **fields: Any) -> bytes:
    """A command, without its line end."""
    return _line({"id": command_id, "type": kind, **fields})


def dismissed(request_id: str) -> bytes:
    """The answer to a dialog of an extension: nobody answers it."""
    return _line({"type": "extension_ui_response", "id": request_id, "cancelled": True})


def _line(document: Json) -> bytes:
    return msgspec.json.encode(document)


def _convert(value: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadLine(str(error)) from error
