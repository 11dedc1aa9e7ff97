"""What an ACP agent does besides talking: its tool calls, as the tools of the port.

A call is told in pieces: first that there will be one, often without what it is given, then what has changed, again and
again. The port has one start and one end, so the start waits until the agent says that it runs or what it is given.
"""

from typing import Any, cast

import msgspec

from antiphon.agents.acp.protocol import ToolCall, ToolContent
from antiphon.agents.excerpts import OUTPUT_MAX, shortened
from antiphon.ports.agent import ToolEnded, ToolStarted

PLAN = "plan"
"""The tool as which the agent's plan is shown: ACP has a message of its own for it, the port has not."""
ENDS = frozenset({"completed", "failed"})
SUBJECTS = ("command", "cmd", "file_path", "filepath", "filePath", "abs_path", "path", "url", "pattern", "query")
"""What the tools of agents call that which they act on."""


class Tool:
    """A tool call, as far as it was told.

    Attributes:
        tool_id: The agent's id of it.
        started: Whether its start was said.
        ended: Whether its end was said.
    """

    def __init__(self, tool_id: str) -> None:
        self.tool_id = tool_id
        self.started = False
        self.ended = False
        self._told = ToolCall(tool_call_id=tool_id)

    @property
    def name(self) -> str:
        """What the agent calls the tool, where it tells; else ACP's kind of it: `read`, `edit`, `execute`…"""
        return self._told.name or self._told.kind or "tool"

    @property
    def title(self) -> str | None:
        """What it is about, in the agent's words."""
        return self._told.title

    @property
    def subject(self) -> str | None:
        """What it acts on: a command, a path…"""
        given = self._told.raw_input
        if isinstance(given, dict):
            known = cast("dict[str, Any]", given)
            found = next((known[key] for key in SUBJECTS if known.get(key)), None)
            if found is not None:
                return found if isinstance(found, str) else msgspec.json.encode(found).decode()
        return next((place.path for place in self._told.locations or () if place.path), None)

    @property
    def status(self) -> str | None:
        """`pending`, `in_progress`, `completed` or `failed`."""
        return self._told.status

    def take(self, told: ToolCall) -> None:
        """Take in what was told, or has changed."""
        news = {name: value for name in told.__struct_fields__ if (value := getattr(told, name)) is not None}
        if not news.get("raw_input", True):  # an empty input is one that is not known yet
            del news["raw_input"]
        self._told = msgspec.structs.replace(self._told, **news)

    def start(self, turn_id: str) -> ToolStarted:
        """Its start, with what is known of it now."""
        self.started = True
        given = self._told.raw_input
        if given is None:
            given = {"title": self._told.title} if self._told.title else None
        return ToolStarted(turn_id=turn_id, tool_id=self.tool_id, name=self.name, input=_bounded(given))

    def end(self, turn_id: str) -> ToolEnded:
        """Its end."""
        self.ended = True
        outcome = "failed" if self._told.status == "failed" else "completed"
        return ToolEnded(turn_id=turn_id, tool_id=self.tool_id, outcome=outcome, output=self._output())

    def _output(self) -> Any:
        texts = [text for part in self._told.content or () if (text := _words(part))]
        return shortened("\n".join(texts)) if texts else _bounded(self._told.raw_output)


def plan(turn_id: str, tool_id: str, entries: list[dict[str, Any]]) -> tuple[ToolStarted, ToolEnded]:
    """A plan, as a tool that was used."""
    started = ToolStarted(turn_id=turn_id, tool_id=tool_id, name=PLAN, input=_bounded({"entries": entries}))
    return started, ToolEnded(turn_id=turn_id, tool_id=tool_id)


def _words(part: ToolContent) -> str | None:
    match part.type:
        case "content":
            return part.content.words if part.content else None
        case "diff":
            return f"{part.path}: {'changed' if part.old_text else 'written'}"
        case _:
            return None


def _bounded(value: Any) -> Any:
    """A value of any size, as far as a journal should keep it."""
    if isinstance(value, str):
        return shortened(value)
    text = msgspec.json.encode(value)
    return value if len(text) <= OUTPUT_MAX else shortened(text.decode())
