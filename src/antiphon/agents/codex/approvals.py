"""What Codex asks a person, and the answers that it understands."""

from typing import Any

import msgspec

from antiphon.agents.codex.protocol import Approval

COMMAND = "item/commandExecution/requestApproval"
FILE_CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"
METHODS = frozenset({COMMAND, FILE_CHANGE, PERMISSIONS, ELICITATION})

FOR_SESSION = "acceptForSession"
ONCE = {"id": "accept", "name": "Allow", "kind": "allow_once"}
ALWAYS = {"id": FOR_SESSION, "name": "Allow for the session", "kind": "allow_always"}
DECLINE = {"id": "decline", "name": "Deny", "kind": "reject_once"}
CANCEL = {"id": "cancel", "name": "Deny and stop the turn", "kind": "reject_once"}
DECISIONS = frozenset({"accept", FOR_SESSION, "decline", "cancel"})


class Question(msgspec.Struct, frozen=True):
    """A request of Codex's that waits for a person.

    Attributes:
        number: The id of the request.
        method: What is asked.
        asked: With which parameters.
    """

    number: int | str
    method: str
    asked: Approval

    @property
    def answerable(self) -> bool:
        """Whether yes and no are all that it wants. An MCP server may also ask for a form to be filled in."""
        if self.method != ELICITATION:
            return True
        schema = self.asked.requested_schema
        return self.asked.mode != "url" and not (isinstance(schema, dict) and schema.get("required"))  # pyright: ignore[reportUnknownMemberType]

    @property
    def text(self) -> str:
        """The question, for a person."""
        asked = self.asked
        match self.method:
            case "item/commandExecution/requestApproval":
                question = f"Run this command? {asked.command or '(unknown)'}"
            case "item/fileChange/requestApproval":
                question = f"Write files below {asked.grant_root}?" if asked.grant_root else "Make these file changes?"
            case "item/permissions/requestApproval":
                question = f"Grant wider permissions? {msgspec.json.encode(asked.permissions).decode()}"
            case _:
                question = f"{asked.server_name or 'An MCP server'} asks: {asked.message or 'May it go on?'}"
        return f"{question} ({asked.reason})" if asked.reason else question

    @property
    def tool(self) -> str:
        """What the question is about, named as `antiphon.agents.codex.tools` names it."""
        names = {COMMAND: "shell", FILE_CHANGE: "file_change", PERMISSIONS: "permissions"}
        return names.get(self.method) or self.asked.server_name or "mcp"

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """The answers on offer. Those that carry more than a word, such as a changed rule, are not."""
        if self.method not in (COMMAND, FILE_CHANGE):
            return (ONCE, DECLINE)
        offered = self.asked.available_decisions
        always = (ALWAYS,) if offered is None or FOR_SESSION in offered else ()
        return (ONCE, *always, DECLINE, CANCEL)

    def result(self, allow: bool, option_id: str | None = None) -> dict[str, Any]:
        """What to answer. An option that contradicts `allow`, or is not known, is not followed."""
        match self.method:
            case "item/permissions/requestApproval":
                return {"permissions": self.asked.permissions if allow else {}, "scope": "turn"}
            case "mcpServer/elicitation/request":
                return {"action": "accept" if allow else "decline", "content": {} if allow else None, "_meta": None}
            case _:
                return {"decision": _decision(allow, option_id)}


def _decision(allow: bool, option_id: str | None) -> str:
    if option_id in DECISIONS and option_id.startswith("accept") == allow:
        return option_id
    return "accept" if allow else "decline"
