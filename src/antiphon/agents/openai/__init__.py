"""Any OpenAI-compatible Chat Completions endpoint, with tools from MCP servers; the conversation is kept by antiphon.

A small child process for each open session talks to the endpoint, keeps the transcript and runs the tools: see
`program`. Source of every fact about the protocol, unless another one is named: OpenAI API reference, "Chat".
"""

from antiphon.agents.openai.adapter import OpenAIAgent

__all__ = ["OpenAIAgent"]
