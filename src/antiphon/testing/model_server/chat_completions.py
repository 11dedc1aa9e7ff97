"""OpenAI Chat Completions: `POST /v1/chat/completions`.

Source: OpenAI API reference, "Chat" and "Chat streaming".
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.testing.model_server.conversation import Conversation, Messages, Tool, ToolCall
from antiphon.testing.model_server.dialect import Answer, Block, Dialect, Schema, ServerEvent


class _Part(msgspec.Struct):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[Any] = []


class _Function(msgspec.Struct):
    name: str
    parameters: Schema = Schema()


class _Tool(msgspec.Struct):
    function: _Function


class _Request(msgspec.Struct):
    messages: list[_Message]
    model: str = ""
    stream: bool = False
    tools: list[_Tool] = []


class ChatCompletions(Dialect):
    """OpenAI Chat Completions."""

    path = "/v1/chat/completions"

    def read(self, body: bytes) -> Conversation:
        request = msgspec.json.decode(body, type=_Request)
        messages = Messages()
        for message in request.messages:
            _take(message, messages)
        offered = [tool.function for tool in request.tools]
        tools = tuple(Tool(name=function.name, parameters=function.parameters.names) for function in offered)
        return messages.conversation(model=request.model, stream=request.stream, tools=tools)

    def answer(self, answer_id: str, conversation: Conversation) -> Answer:
        return ChatAnswer(answer_id, conversation)

    def problem(self, status: int, message: str) -> dict[str, Any]:
        kind = "rate_limit_exceeded" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def _take(message: _Message, messages: Messages) -> None:
    match message.role:
        case "user":
            messages.user(_texts(message))
        case "assistant":
            note = messages.call if message.tool_calls else messages.answer
            note()
        case "tool":
            messages.result("".join(_texts(message)))
        case _:
            return


def _texts(message: _Message) -> list[str]:
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [message.content]
    return [part.text for part in message.content]


class ChatAnswer(Answer):
    """An answer as `chat.completion.chunk` events. A thought goes where DeepSeek puts it, into `reasoning_content`."""

    def begun(self) -> Iterator[ServerEvent]:
        yield self._chunk({"role": "assistant", "content": ""})

    def opened(self, block: Block) -> Iterator[ServerEvent]:
        if block.call is not None:
            yield self._chunk({"tool_calls": [{"index": self._call_index(block), **_call(block.call)}]})

    def piece(self, block: Block, text: str) -> Iterator[ServerEvent]:
        yield self._chunk({"content" if block.kind == "text" else "reasoning_content": text})

    def closed(self, block: Block) -> Iterator[ServerEvent]:
        yield from ()

    def ended(self) -> Iterator[ServerEvent]:
        yield self._chunk({}, finish_reason=self._finish_reason)
        yield ServerEvent({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage})
        yield ServerEvent("[DONE]")

    def whole(self) -> dict[str, Any]:
        calls = [_call(block.call) for block in self.blocks if block.call is not None]
        message: dict[str, Any] = {"role": "assistant", "content": self._joined("text")}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage}

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if any(block.kind == "call" for block in self.blocks) else "stop"

    @property
    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }

    def _joined(self, kind: str) -> str:
        return "".join(block.text for block in self.blocks if block.kind == kind)

    def _call_index(self, block: Block) -> int:
        return sum(other.kind == "call" for other in self.blocks[: block.index])

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.answer_id}", "object": kind, "created": 0, "model": self.conversation.model}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> ServerEvent:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return ServerEvent({**self._head("chat.completion.chunk"), "choices": [choice]})


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
