"""What Claude Code asks a person, and the answers that it understands."""

from typing import Any

import msgspec

from antiphon.agents.claude.protocol import Request
from antiphon.agents.excerpts import shortened

ONCE = {"id": "allow", "name": "Allow", "kind": "allow_once"}
SESSION = {"id": "allow_session", "name": "Allow for the session", "kind": "allow_always"}
DENY = {"id": "deny", "name": "Deny", "kind": "reject_once"}
STOP = {"id": "deny_stop", "name": "Deny and stop the turn", "kind": "reject_once"}
DENIED = "A person denied this. Don't try it in another way; go on without it, or say what you can't do."
SUBJECTS = ("command", "file_path", "notebook_path", "url", "path", "pattern", "query", "plan")
"""What the tools of Claude Code call that which they act on."""


class Question(msgspec.Struct, frozen=True):
    """A `can_use_tool` request that waits for a person.

    Attributes:
        request_id: Its id.
        turn_id: The host's id of the turn that waits.
        asked: What Claude Code wants to do.
    """

    request_id: str
    turn_id: str
    asked: Request

    @property
    def text(self) -> str:
        """The question, for a person."""
        asked = self.asked
        name = asked.display_name or asked.tool_name
        subject = next((str(asked.input[key]) for key in SUBJECTS if asked.input.get(key)), None)
        if subject is None:
            subject = msgspec.json.encode(asked.input).decode()
        question = f"Use {name}? {shortened(subject)}"
        return f"{question} ({asked.decision_reason})" if asked.decision_reason else question

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """The answers on offer."""
        session = (SESSION,) if self.asked.permission_suggestions else ()
        return (ONCE, *session, DENY, STOP)

    def result(self, allow: bool, option_id: str | None, note: str | None) -> dict[str, Any]:
        """What to answer. An option that contradicts `allow`, or is not known, is not followed."""
        if not allow:
            return {"behavior": "deny", "message": note or DENIED, "interrupt": option_id == STOP["id"]}
        result: dict[str, Any] = {"behavior": "allow", "updatedInput": self.asked.input}
        if option_id == SESSION["id"]:
            # What Claude Code suggests may be meant for its settings on disk; this answer is for the session alone.
            suggested = self.asked.permission_suggestions or []
            result["updatedPermissions"] = [{**rule, "destination": "session"} for rule in suggested]
        return result
