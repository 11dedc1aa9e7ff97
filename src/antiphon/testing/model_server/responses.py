"""OpenAI Responses: `POST /v1/responses`.

Source: OpenAI API reference, "Responses" and "Streaming events"; what Codex 0.163 needs was measured with it: an item
counts once `response.output_item.done` came, a turn ends with `response.completed`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.testing.model_server.conversation import Conversation, Messages, Tool
from antiphon.testing.model_server.dialect import Answer, Block, Dialect, Schema, ServerEvent


class _Content(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Item(msgspec.Struct):
    type: str = "message"
    role: str = ""
    content: str | list[_Content] | None = None
    output: str | list[_Content] | dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    type: str = "function"
    name: str = ""
    parameters: Schema | None = None


class _Request(msgspec.Struct):
    model: str = ""
    stream: bool = False
    input: str | list[_Item] = ""
    tools: list[_Tool] = []
    client_metadata: dict[str, Any] = {}


class Responses(Dialect):
    """OpenAI Responses."""

    path = "/v1/responses"

    def read(self, body: bytes) -> Conversation:
        request = msgspec.json.decode(body, type=_Request)
        messages = Messages()
        if isinstance(request.input, str):
            messages.user([request.input])
        else:
            for item in request.input:
                _take(item, messages)
        tools = tuple(
            Tool(name=tool.name, parameters=tool.parameters.names if tool.parameters else ())
            for tool in request.tools
            if tool.type in ("function", "custom")
        )
        turn = request.client_metadata.get("turn_id")  # Codex's own
        return messages.conversation(
            model=request.model, stream=request.stream, tools=tools, turn=None if turn is None else str(turn)
        )

    def answer(self, answer_id: str, conversation: Conversation) -> Answer:
        return ResponsesAnswer(answer_id, conversation)

    def problem(self, status: int, message: str) -> dict[str, Any]:
        kind = "rate_limit_exceeded" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def _take(item: _Item, messages: Messages) -> None:
    if item.type == "message" and item.role == "user":
        messages.user(_texts(item.content))
    elif item.type == "message" and item.role == "assistant":
        messages.answer()
    elif item.type.endswith("_call"):
        messages.call()
    elif item.type.endswith("_output"):
        messages.result("".join(_texts(item.output)))


def _texts(content: str | list[_Content] | dict[str, Any] | None) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, dict):
        return [msgspec.json.encode(content).decode()]
    return [part.text for part in content]


class ResponsesAnswer(Answer):
    """An answer as Responses events."""

    def begun(self) -> Iterator[ServerEvent]:
        yield self._event("response.created", response=self._response("in_progress"))

    def opened(self, block: Block) -> Iterator[ServerEvent]:
        yield self._event("response.output_item.added", output_index=block.index, item=self._item(block, done=False))
        if block.kind == "text":
            yield self._event("response.content_part.added", **self._place(block), part=_output_text(""))
        elif block.kind == "thought":
            part = {"type": "summary_text", "text": ""}
            yield self._event("response.reasoning_summary_part.added", **self._summary_place(block), part=part)

    def piece(self, block: Block, text: str) -> Iterator[ServerEvent]:
        if block.kind == "text":
            yield self._event("response.output_text.delta", **self._place(block), delta=text)
        else:
            yield self._event("response.reasoning_summary_text.delta", **self._summary_place(block), delta=text)

    def closed(self, block: Block) -> Iterator[ServerEvent]:
        if block.kind == "text":
            yield self._event("response.output_text.done", **self._place(block), text=block.text)
        elif block.kind == "thought":
            yield self._event("response.reasoning_summary_text.done", **self._summary_place(block), text=block.text)
        yield self._event("response.output_item.done", output_index=block.index, item=self._item(block, done=True))

    def ended(self) -> Iterator[ServerEvent]:
        yield self._event("response.completed", response=self.whole())

    def whole(self) -> dict[str, Any]:
        counts = {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.input_tokens + self.output_tokens,
        }
        output = [self._item(block, done=True) for block in self.blocks]
        return {**self._response("completed"), "output": output, "usage": counts}

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self.answer_id}",
            "object": "response",
            "created_at": 0,
            "model": self.conversation.model,
            "status": status,
            "output": [],
        }

    def _item_id(self, block: Block) -> str:
        return f"item_{self.answer_id}_{block.index}"

    def _place(self, block: Block) -> dict[str, Any]:
        return {"item_id": self._item_id(block), "output_index": block.index, "content_index": 0}

    def _summary_place(self, block: Block) -> dict[str, Any]:
        return {"item_id": self._item_id(block), "output_index": block.index, "summary_index": 0}

    def _item(self, block: Block, *, done: bool) -> dict[str, Any]:
        status = "completed" if done else "in_progress"
        if block.call is not None:
            return {
                "type": "function_call",
                "id": self._item_id(block),
                "call_id": block.call.call_id,
                "name": block.call.name,
                "arguments": msgspec.json.encode(block.call.arguments).decode() if done else "",
                "status": status,
            }
        if block.kind == "thought":
            summary = [{"type": "summary_text", "text": block.text}] if done else []
            return {"type": "reasoning", "id": self._item_id(block), "summary": summary}
        content = [_output_text(block.text)] if done else []
        return {
            "type": "message",
            "id": self._item_id(block),
            "role": "assistant",
            "content": content,
            "status": status,
        }

    def _event(self, event_type: str, **fields: Any) -> ServerEvent:
        return ServerEvent({"type": event_type, **fields}, event_type)


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
