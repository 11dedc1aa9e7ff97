"""What a request asks, whichever protocol it came in: the user's texts, the tools on offer, the results so far."""

from typing import Any

import msgspec

INJECTED_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<system-reminder>",
    "# AGENTS.md instructions",
)
"""How agents begin what they say in the user's name: Codex its surroundings and aborts, Claude Code its reminders."""

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


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent sent.

    Attributes:
        model: The model it asked for.
        stream: It wants events rather than one answer.
        user_texts: Every text of the user, oldest first, without what the agent put in the user's mouth.
        results: The outputs of the tools that were called since the last of these texts, oldest first.
        tools: What the model may call.
    """

    model: str = ""
    stream: bool = True
    user_texts: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()

    @property
    def last_text(self) -> str:
        """What the user said last."""
        return self.user_texts[-1] if self.user_texts else ""

    @property
    def shell(self) -> Tool | None:
        """The tool that runs a shell command, if the agent offers one."""
        offered = {tool.name: tool for tool in self.tools}
        return next((offered[name] for name in SHELL_TOOLS if name in offered), None)


class Turns:
    """Gathers the user's texts and the results after the last of them, while a dialect walks through a request."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._results: list[str] = []

    def user(self, text: str) -> None:
        """Note a text of the user; what agents inject is passed over."""
        if text.strip() and not text.lstrip().startswith(INJECTED_PREFIXES):
            self._texts.append(text)
            self._results.clear()

    def result(self, output: str) -> None:
        """Note the output of a tool."""
        self._results.append(output)

    def conversation(self, *, model: str, stream: bool, tools: tuple[Tool, ...]) -> Conversation:
        """What was gathered."""
        return Conversation(
            model=model, stream=stream, user_texts=tuple(self._texts), results=tuple(self._results), tools=tools
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
