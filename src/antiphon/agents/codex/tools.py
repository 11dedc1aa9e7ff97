"""What Codex does besides talking: its items, as the tools of the port."""

from typing import Any

from antiphon.agents.codex.protocol import Item
from antiphon.agents.excerpts import shortened
from antiphon.ports.agent import ToolEnded, ToolStarted

SHELL = "commandExecution"
FAILED = frozenset({"failed", "declined"})
"""The statuses of an item that did not succeed (`CommandExecutionStatus`, `PatchApplyStatus`, `McpToolCallStatus`)."""


def started(turn_id: str, item: Item) -> ToolStarted | None:
    """The item as the start of a tool, if it is one."""
    described = _described(item)
    if described is None:
        return None
    name, given = described
    return ToolStarted(turn_id=turn_id, tool_id=item.id, name=name, input=given)


def ended(turn_id: str, item: Item) -> ToolEnded:
    """The item, a tool, as its end."""
    failed = item.status in FAILED or item.error is not None
    return ToolEnded(
        turn_id=turn_id, tool_id=item.id, outcome="failed" if failed else "completed", output=_output(item)
    )


def _described(item: Item) -> tuple[str, Any] | None:
    match item.type:
        case "commandExecution":
            return "shell", {"command": item.command, "cwd": item.cwd}
        case "fileChange":
            return "file_change", {"changes": [_change(change) for change in item.changes]}
        case "mcpToolCall":
            return f"{item.server}.{item.tool}", item.arguments
        case "dynamicToolCall":
            return item.tool or "tool", item.arguments
        case "collabAgentToolCall":
            return item.tool or "sub_agent", {"prompt": item.prompt}
        case "webSearch":
            return "web_search", {"query": item.query}
        case "imageView":
            return "view_image", {"path": item.path}
        case "imageGeneration":
            return "generate_image", None
        case _:
            return None


def _change(change: dict[str, Any]) -> dict[str, Any]:
    diff = change.get("diff")
    return {**change, "diff": shortened(diff)} if isinstance(diff, str) else change


def _output(item: Item) -> Any:
    match item.type:
        case "commandExecution":
            return {"exit_code": item.exit_code, "output": shortened(item.aggregated_output or "")}
        case "fileChange":
            return {"status": item.status}
        case _:
            return item.error or item.result or item.content_items
