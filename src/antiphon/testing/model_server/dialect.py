"""What a protocol module provides: reading a request, and writing an answer as events or as one object."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from antiphon.testing.model_server.conversation import Conversation, ToolCall


class ServerEvent(msgspec.Struct, frozen=True):
    """One event of the stream. `name` is None where the protocol doesn't name its events."""

    data: dict[str, Any] | str
    name: str | None = None

    def encode(self) -> bytes:
        """The event as the HTML standard, section 9.2, frames it."""
        data = self.data.encode() if isinstance(self.data, str) else msgspec.json.encode(self.data)
        name = f"event: {self.name}\n".encode() if self.name else b""
        return name + b"data: " + data + b"\n\n"


class Schema(msgspec.Struct, frozen=True):
    """The part of a JSON schema that matters here: what a tool's arguments are called."""

    properties: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments' names."""
        return tuple(self.properties)


class Block(msgspec.Struct):
    """A stretch of the answer: text, a thought or a tool call."""

    index: int
    kind: Literal["text", "thought", "call"]
    text: str = ""
    call: ToolCall | None = None


class Answer(ABC):
    """An answer while it is being written. Adjacent pieces of one kind become one block."""

    def __init__(self, answer_id: str, conversation: Conversation) -> None:
        self.answer_id = answer_id
        self.conversation = conversation
        self.blocks: list[Block] = []
        self._open = False

    @property
    def input_tokens(self) -> int:
        """A made-up count that grows with the conversation: the words of the user."""
        return sum(len(text.split()) for text in self.conversation.user_texts)

    @property
    def output_tokens(self) -> int:
        """A made-up count: the words said, at least one."""
        return max(1, sum(len(block.text.split()) for block in self.blocks))

    def write(self, kind: Literal["text", "thought"], text: str) -> Iterator[ServerEvent]:
        """Add a piece."""
        if not self._open or self.blocks[-1].kind != kind:
            yield from self._close()
            yield from self._begin(Block(len(self.blocks), kind))
        block = self.blocks[-1]
        block.text += text
        yield from self.piece(block, text)

    def call(self, call: ToolCall) -> Iterator[ServerEvent]:
        """Add a tool call, whole."""
        yield from self._close()
        yield from self._begin(Block(len(self.blocks), "call", call=call))
        yield from self._close()

    def finish(self) -> Iterator[ServerEvent]:
        """Close what is open and end the stream."""
        yield from self._close()
        yield from self.ended()

    def _begin(self, block: Block) -> Iterator[ServerEvent]:
        self.blocks.append(block)
        self._open = True
        yield from self.opened(block)

    def _close(self) -> Iterator[ServerEvent]:
        if self._open:
            self._open = False
            yield from self.closed(self.blocks[-1])

    @abstractmethod
    def begun(self) -> Iterator[ServerEvent]:
        """The events that open the stream."""

    @abstractmethod
    def opened(self, block: Block) -> Iterator[ServerEvent]:
        """The events that open a block."""

    @abstractmethod
    def piece(self, block: Block, text: str) -> Iterator[ServerEvent]:
        """The events that carry a piece of a block."""

    @abstractmethod
    def closed(self, block: Block) -> Iterator[ServerEvent]:
        """The events that end a block."""

    @abstractmethod
    def ended(self) -> Iterator[ServerEvent]:
        """The events that end the stream."""

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """The answer as one object, for a request that wants no stream."""


class Dialect(ABC):
    """One protocol."""

    path: str
    """Where its requests are posted."""

    @abstractmethod
    def read(self, body: bytes) -> Conversation:
        """Read a request.

        Raises:
            msgspec.MsgspecError: It does not have the protocol's form.
        """

    @abstractmethod
    def answer(self, answer_id: str, conversation: Conversation) -> Answer:
        """Begin an answer."""

    @abstractmethod
    def problem(self, status: int, message: str) -> dict[str, Any]:
        """The body of an HTTP error."""
