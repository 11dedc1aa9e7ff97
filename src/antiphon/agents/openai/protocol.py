"""What is said between the host and the child process that talks to the model: lines, each a JSON object.

The host begins with `Open`, and the child answers `Ready` or `Refused`. Then the host says `Prompt`, `Steer`, `Cancel`
and `Answer`, whose meaning is that of the methods of `RunningAgent`, and the child says what the port names: each line
has the name of its kind (`"kind": "Text"`) and its fields.
"""

from typing import Any

import msgspec

from antiphon.ports.agent import (
    Asked,
    Ended,
    Part,
    Resumable,
    Said,
    Steered,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Used,
    Wrote,
)

SAID = {
    kind.__name__: kind
    for kind in (Text, Thought, ToolStarted, ToolEnded, Used, Asked, Steered, Ended, Resumable, Wrote)
}


class BadLine(ValueError):
    """A line is not of this protocol. The text says why."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: a program, or an address. `headers` may hold secrets."""

    command: list[str] = []
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}


class Open(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Everything that the child must know; nothing of it stands in its arguments or its environment.

    Attributes:
        agent: What the agent is called.
        base_url: Where the model is; empty where `weights` says so.
        weights: A file with a model that the child serves itself.
        threads, answer_tokens: How many threads that takes, and how long an answer may become.
        model: Its name.
        headers: Of every request; they hold the key.
        secrets: What must not be told in the words of any error.
        body: Further fields of every request.
        transcript: The file of the conversation; None where nothing is kept.
        resume: Whether the conversation must be there already.
        origin: The file of another conversation and a turn of it, after which this one begins.
        The rest is as in `OpenAIOptions`.
    """

    agent: str
    base_url: str = ""
    weights: str | None = None
    threads: int = 1
    answer_tokens: int = 0
    model: str
    headers: dict[str, str] = {}
    secrets: list[str] = []
    body: dict[str, Any] = {}
    transcript: str | None = None
    resume: bool = False
    origin: tuple[str, str] | None = None
    system_prompt: str | None = None
    context_tokens: int
    retries: int = 0
    silence_s: float
    line_limit: int
    max_steps: int
    mcp: dict[str, Server] = {}
    approve: str | list[str] = "always"
    mcp_start_timeout_s: float
    tool_timeout_s: float


class Prompt(msgspec.Struct, frozen=True, kw_only=True, tag="prompt"):
    turn_id: str
    parts: tuple[Part, ...]


class Steer(msgspec.Struct, frozen=True, kw_only=True, tag="steer"):
    turn_id: str
    message_id: str
    parts: tuple[Part, ...]


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    turn_id: str


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    request_id: str
    allow: bool
    option_id: str | None = None
    note: str | None = None


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="Ready"):
    """The child is there."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="Refused"):
    """The child can't go on, for this reason."""

    reason: str


Told = Open | Prompt | Steer | Cancel | Answer


def told(line: bytes) -> Told:
    """What the host tells the child.

    Raises:
        msgspec.ValidationError: It is none of that.
    """
    return msgspec.json.decode(line, type=Told)


def line(message: Told | Ready | Refused | Said) -> bytes:
    """A message as a line, without its end. Lone surrogates, which a prompt may hold, become question marks."""
    if isinstance(message, Said):
        return msgspec.json.encode({"kind": type(message).__name__} | msgspec.to_builtins(message))
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(message)))


def refusal(line: bytes) -> str | None:
    """The child's answer to `Open`: None when it is ready, else why it is not.

    Raises:
        BadLine: It is no such answer.
    """
    try:
        answer = msgspec.json.decode(line, type=Ready | Refused)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error
    return answer.reason if isinstance(answer, Refused) else None


def said(line: bytes) -> Said:
    """What the child says.

    Raises:
        BadLine: It is nothing that it may say.
    """
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert(fields, SAID[fields.pop("kind")])
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {name: _encodable(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_encodable(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
