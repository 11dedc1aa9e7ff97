"""Anthropic Messages: `POST /v1/messages`.

Source: Anthropic API reference, "Messages" and "Streaming messages".
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.testing.model_server.conversation import Conversation, Messages, Tool
from antiphon.testing.model_server.dialect import Answer, Block, Dialect, Schema, ServerEvent

JOINED = re.compile(
    r"The user sent a new message while you were working:\n(.*?)\n\nThis is how Claude Code ", re.DOTALL
)
"""How Claude Code wraps what its user says while a tool runs."""


class _Part(msgspec.Struct):
    type: str = "text"
    text: str = ""
    content: "str | list[_Part] | None" = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] = ""


class _Tool(msgspec.Struct):
    name: str
    input_schema: Schema = Schema()


class _Request(msgspec.Struct):
    messages: list[_Message]
    model: str = ""
    stream: bool = False
    tools: list[_Tool] = []


class AnthropicMessages(Dialect):
    """Anthropic Messages."""

    path = "/v1/messages"

    def read(self, body: bytes) -> Conversation:
        request = msgspec.json.decode(body, type=_Request)
        messages = Messages()
        for message in request.messages:
            _take(message, messages)
        tools = tuple(Tool(name=tool.name, parameters=tool.input_schema.names) for tool in request.tools)
        return messages.conversation(model=request.model, stream=request.stream, tools=tools)

    def answer(self, answer_id: str, conversation: Conversation) -> Answer:
        return MessagesAnswer(answer_id, conversation)

    def problem(self, status: int, message: str) -> dict[str, Any]:
        kind = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}.get(
            status, "overloaded_error" if status == 529 else "api_error"
        )
        return {"type": "error", "error": {"type": kind, "message": message}}


def _take(message: _Message, messages: Messages) -> None:
    content = message.content
    parts = [_Part(text=content)] if isinstance(content, str) else content
    if message.role == "assistant":
        note = messages.call if any(part.type == "tool_use" for part in parts) else messages.answer
        note()
    if message.role != "user":  # Claude Code tells its surroundings in the role `system`, between the others
        return
    for part in parts:
        if part.type == "tool_result":
            inner = part.content or ""
            messages.result(inner if isinstance(inner, str) else "".join(piece.text for piece in inner))
    for part in parts:
        if part.type == "text":
            _take_text(part.text, messages)


def _take_text(text: str, messages: Messages) -> None:
    """One text of the user. Claude Code puts messages that had no answer into the next one, each as a part of it."""
    joined = JOINED.search(text)
    if joined is None:
        messages.user([text])
    else:
        messages.join(joined[1])


class MessagesAnswer(Answer):
    """An answer as Messages events."""

    def begun(self) -> Iterator[ServerEvent]:
        message: dict[str, Any] = {
            **self._message(),
            "content": [],
            "stop_reason": None,
            "usage": self._usage(output_tokens=1),
        }
        yield self._event("message_start", message=message)

    def opened(self, block: Block) -> Iterator[ServerEvent]:
        content = _content(block)
        if block.call is not None:
            content["input"] = {}
        yield self._event("content_block_start", index=block.index, content_block=content)
        if block.call is not None:
            arguments = msgspec.json.encode(block.call.arguments).decode()
            yield self._delta(block, {"type": "input_json_delta", "partial_json": arguments})

    def piece(self, block: Block, text: str) -> Iterator[ServerEvent]:
        if block.kind == "text":
            yield self._delta(block, {"type": "text_delta", "text": text})
        else:
            yield self._delta(block, {"type": "thinking_delta", "thinking": text})

    def closed(self, block: Block) -> Iterator[ServerEvent]:
        if block.kind == "thought":
            yield self._delta(block, {"type": "signature_delta", "signature": "loopback"})
        yield self._event("content_block_stop", index=block.index)

    def ended(self) -> Iterator[ServerEvent]:
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        yield self._event("message_delta", delta=delta, usage=self._usage(self.output_tokens))
        yield self._event("message_stop")

    def whole(self) -> dict[str, Any]:
        content = [_content(block) for block in self.blocks]
        usage = self._usage(self.output_tokens)
        return {**self._message(), "content": content, "stop_reason": self._stop_reason, "usage": usage}

    @property
    def _stop_reason(self) -> str:
        return "tool_use" if any(block.kind == "call" for block in self.blocks) else "end_turn"

    def _usage(self, output_tokens: int) -> dict[str, int]:
        return {"input_tokens": self.input_tokens, "output_tokens": output_tokens}

    def _message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self.answer_id}",
            "type": "message",
            "role": "assistant",
            "model": self.conversation.model,
            "stop_sequence": None,
        }

    def _delta(self, block: Block, delta: dict[str, Any]) -> ServerEvent:
        return self._event("content_block_delta", index=block.index, delta=delta)

    def _event(self, event_type: str, **fields: Any) -> ServerEvent:
        return ServerEvent({"type": event_type, **fields}, event_type)


def _content(block: Block) -> dict[str, Any]:
    if block.call is not None:
        call = block.call
        return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
    if block.kind == "thought":
        return {"type": "thinking", "thinking": block.text, "signature": "loopback"}
    return {"type": "text", "text": block.text}
