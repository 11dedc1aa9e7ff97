"""Any OpenAI-compatible Chat Completions endpoint, with tools from MCP servers; the conversation is kept by antiphon.

A small child process for each open session talks to the endpoint, keeps the transcript and runs the tools: see
`program`. Source of every fact about the protocol, unless another one is named: OpenAI API reference, "Chat".
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.agents.openai.adapter import OpenAIAgent

__all__ = ["OpenAIAgent"]


def __getattr__(name: str) -> Any:
    """The adapter, when the host asks for it: the child imports this package too, and starts faster without."""
    if name != "OpenAIAgent":
        raise AttributeError(name)
    from antiphon.agents.openai import adapter  # noqa: PLC0415

    return adapter.OpenAIAgent
