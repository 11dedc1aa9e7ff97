"""The answer of one request while it comes: chunks of Chat Completions, put together. No I/O.

Source: OpenAI API reference, "Chat" and "Chat streaming"; `reasoning_content` as DeepSeek, llama.cpp and vLLM have it,
`reasoning` as OpenRouter has it.
"""

import json
from typing import Any

import msgspec

from antiphon.core.session import Usage

CALLS_MAX = 64


class BadAnswer(Exception):
    """The server said something that can't be an answer. The text says what."""


class Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallPiece(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct, frozen=True):
    index: int = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class Tokens(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    message: str | None = None
    code: str | int | None = None


class Chunk(msgspec.Struct, frozen=True):
    """A `chat.completion.chunk`, or a whole `chat.completion`."""

    choices: list[Choice] | None = None
    usage: Tokens | None = None
    error: ErrorBody | str | None = None


class Piece(msgspec.Struct, frozen=True):
    """Something new: text of the answer, or a thought."""

    text: str = ""
    thought: str = ""


class Call(msgspec.Struct, frozen=True):
    """A call of a tool that the model wants. `arguments` are JSON, if the model is good at it."""

    id: str
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = []


class _Characters:
    """Makes whole characters of texts that may be cut in the middle of one, as UTF-16 has them."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, text: str) -> str:
        """The text, without half a character at its end, which is kept for the next one."""
        text = self._half + text
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return _combined(text[:-1] if self._half else text)


def _combined(text: str) -> str:
    """A text with the halves of characters put together; one that is alone becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Completion:
    """One answer.

    Attributes:
        finish_reason: Why the model stopped, once it has.
        usage: What it took, where the server tells.
        begun: Whether anything of the answer has come.
    """

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.begun = False
        self._texts: list[str] = []
        self._characters, self._thought_characters = _Characters(), _Characters()
        self._calls: dict[int, _Call] = {}

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._texts)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tools that are to be called; each with an id of its own, whatever the server called them."""
        seen: set[str] = set()
        calls: list[Call] = []
        for place, call in enumerate(self._calls.values()):
            call_id = call.id if call.id and call.id not in seen else f"call_{place}"
            seen.add(call_id)
            calls.append(Call(call_id, call.name, _combined("".join(call.arguments))))
        return tuple(calls)

    def take(self, data: str) -> Piece | None:
        """Take in a chunk; what is new in it to say.

        Raises:
            BadAnswer: It is none, or an error that the server tells in the middle of its answer.
        """
        try:
            chunk = _chunk(data)
        except ValueError as error:
            raise BadAnswer(f"The model's server said something that is no chunk of an answer: {error}.") from error
        if chunk.error is not None:
            words = chunk.error if isinstance(chunk.error, str) else chunk.error.message or str(chunk.error.code)
            raise BadAnswer(f"The model's server told an error in the middle of its answer: {words}")
        if chunk.usage is not None:
            self.usage = Usage(
                input_tokens=chunk.usage.prompt_tokens or 0, output_tokens=chunk.usage.completion_tokens or 0
            )
        for choice in chunk.choices or ():
            if choice.index == 0:
                return self._hear(choice)
        return None

    def _hear(self, choice: Choice) -> Piece | None:
        self.finish_reason = choice.finish_reason or self.finish_reason
        delta = choice.delta or choice.message
        if delta is None:
            return None
        for piece in delta.tool_calls or ():
            self._add(piece)
        text = self._characters.take((delta.content or "") + (delta.refusal or ""))
        thought = self._thought_characters.take(delta.reasoning_content or delta.reasoning or "")
        if text:
            self._texts.append(text)
        self.begun = self.begun or bool(text or thought or delta.tool_calls)
        return Piece(text, thought) if text or thought else None

    def _add(self, piece: CallPiece) -> None:
        """A piece of a call. A few servers give no index: then a new id, or a name, begins a new call."""
        function = piece.function or Function()
        index = piece.index
        if index is None:
            last = next(reversed(self._calls), None)
            begins = last is None or (piece.id or self._calls[last].id) != self._calls[last].id or bool(function.name)
            index = len(self._calls) if begins else last or 0
        call = self._calls.setdefault(index, _Call())
        if len(self._calls) > CALLS_MAX:
            raise BadAnswer(f"The model called more than {CALLS_MAX} tools at once.")
        call.id = piece.id or call.id
        call.name += function.name or ""
        if isinstance(function.arguments, str):
            call.arguments.append(function.arguments)
        elif function.arguments is not None:
            call.arguments.append(msgspec.json.encode(function.arguments).decode())


def _chunk(data: str) -> Chunk:
    """A chunk. Servers that count in UTF-16 cut characters in two, which the strict parser does not take.

    Raises:
        ValueError: It is none.
    """
    encoded = data.encode(errors="replace")
    try:
        return msgspec.json.decode(encoded, type=Chunk)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(encoded), Chunk)
