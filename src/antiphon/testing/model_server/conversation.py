"""What a request asks, whichever protocol it came in: the user's texts, the tools on offer, the results so far."""

from collections.abc import Iterable
from typing import Any

import msgspec

INJECTED_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<system-reminder>",
    "# AGENTS.md instructions",
    "[Request interrupted by user",
)
"""How agents begin what they say in the user's name: Codex its surroundings and aborts, Claude Code its reminders and
interrupts."""

SHELL_TOOLS = ("exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command")
"""What agents call their shell, by preference: Codex, older Codex, Claude Code, opencode and pi, Gemini."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool on offer. `parameters` are the names of its arguments."""

    name: str
    parameters: tuple[str, ...] = ()


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model makes."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said at once, and the outputs of the tools that were called after it, oldest first."""

    text: str
    results: tuple[str, ...] = ()


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent sent.

    Attributes:
        model: The model it asked for.
        stream: It wants events rather than one answer.
        messages: What the user said, oldest first, without what the agent put in the user's mouth.
        answered: How many of these have had their answer.
        turn: The agent's name for the turn that this belongs to, where it tells.
        joined: How many of the last messages came into the running turn, where the agent tells.
        tools: What the model may call.
    """

    model: str = ""
    stream: bool = True
    messages: tuple[Message, ...] = ()
    answered: int = 0
    turn: str | None = None
    joined: int = 0
    tools: tuple[Tool, ...] = ()

    @property
    def user_texts(self) -> tuple[str, ...]:
        """Every text of the user, oldest first."""
        return tuple(message.text for message in self.messages)

    @property
    def last_text(self) -> str:
        """What the user said last."""
        return self.messages[-1].text if self.messages else ""

    @property
    def shell(self) -> Tool | None:
        """The tool that runs a shell command, if the agent offers one."""
        offered = {tool.name: tool for tool in self.tools}
        return next((offered[name] for name in SHELL_TOOLS if name in offered), None)


class Messages:
    """Gathers the messages of the user while a dialect walks through a request."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, list[str]]] = []
        self._answered = 0
        self._last_word = 0
        self._joined = 0

    def user(self, texts: Iterable[str]) -> None:
        """Note what the user said at once; what agents inject is passed over."""
        own = [text for text in texts if text.strip() and not text.lstrip().startswith(INJECTED_PREFIXES)]
        if own:
            self._answered = self._last_word
            self._messages.append(("\n\n".join(own), []))
            self._joined = 0

    def join(self, text: str) -> None:
        """Note what the user said into the running turn."""
        joined = self._joined
        self.user([text])
        self._joined = joined + 1

    def answer(self) -> None:
        """Note that the model said something: an answer, unless a tool call follows."""
        self._last_word = len(self._messages)

    def call(self) -> None:
        """Note that the model called a tool, so its answer is still to come."""
        self._last_word = self._answered

    def result(self, output: str) -> None:
        """Note the output of a tool."""
        if self._messages:
            self._messages[-1][1].append(output)

    def conversation(
        self, *, model: str, stream: bool, tools: tuple[Tool, ...], turn: str | None = None
    ) -> Conversation:
        """What was gathered."""
        messages = tuple(Message(text=text, results=tuple(results)) for text, results in self._messages)
        return Conversation(
            model=model,
            stream=stream,
            messages=messages,
            answered=self._answered,
            turn=turn,
            joined=self._joined,
            tools=tools,
        )


def shell_arguments(tool: Tool, command: str) -> dict[str, Any]:
    """The arguments with which `tool` runs a shell command: long-running ones must not be cut short by a default.

    Codex's `exec_command` answers after 10 s at the latest unless `yield_time_ms` (at most 30000) says otherwise.
    """
    if "cmd" in tool.parameters:
        return {"cmd": command, "login": False, "yield_time_ms": 30_000}
    if tool.name == "shell":
        return {"command": ["bash", "-c", command]}
    arguments: dict[str, Any] = {"command": command}
    if "description" in tool.parameters:
        arguments["description"] = "Run the command of the test"
    return arguments
