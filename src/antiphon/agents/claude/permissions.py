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
ANSWER = "answer:"
"""How the ids of those options begin that answer a question of the `AskUserQuestion` tool."""
SUBJECTS = ("command", "file_path", "notebook_path", "url", "path", "pattern", "query", "plan")
"""What the tools of Claude Code call that which they act on."""


class _Choice(msgspec.Struct, frozen=True):
    label: str
    description: str = ""


class _Asking(msgspec.Struct, frozen=True):
    """One of the questions of `AskUserQuestion`."""

    question: str
    options: list[_Choice] = []

    @property
    def text(self) -> str:
        """The question with its answers."""
        choices = "; ".join(": ".join(filter(None, (each.label, each.description))) for each in self.options)
        return f"{self.question} ({choices})" if choices else self.question


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
        if self._askings:
            return shortened("\n".join(each.text for each in self._askings))
        name = asked.display_name or asked.tool_name
        subject = next((str(asked.input[key]) for key in SUBJECTS if asked.input.get(key)), None)
        if subject is None:
            subject = msgspec.json.encode(asked.input).decode()
        question = f"Use {name}? {shortened(subject)}"
        return f"{question} ({asked.decision_reason})" if asked.decision_reason else question

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """The answers on offer."""
        if len(self._askings) == 1:
            labels = [choice.label for choice in self._askings[0].options]
            answers = ({"id": ANSWER + label, "name": label, "kind": "allow_once"} for label in labels)
            return (*answers, DENY, STOP)
        session = (SESSION,) if self.asked.permission_suggestions else ()
        return (ONCE, *session, DENY, STOP)

    def result(self, allow: bool, option_id: str | None, note: str | None) -> dict[str, Any]:
        """What to answer. An option that contradicts `allow`, or is not known, is not followed.

        What Claude Code asks with `AskUserQuestion` is answered by an option, or by the words of the note.
        """
        if not allow:
            return {"behavior": "deny", "message": note or DENIED, "interrupt": option_id == STOP["id"]}
        result: dict[str, Any] = {"behavior": "allow", "updatedInput": self.asked.input}
        if self._askings:
            words = note or (option_id or "").removeprefix(ANSWER)
            answers = {each.question: words for each in self._askings if words}
            result["updatedInput"] = {**self.asked.input, "answers": answers}
        elif option_id == SESSION["id"]:
            # What Claude Code suggests may be meant for its settings on disk; this answer is for the session alone.
            suggested = self.asked.permission_suggestions or []
            result["updatedPermissions"] = [{**rule, "destination": "session"} for rule in suggested]
        return result

    @property
    def _askings(self) -> list[_Asking]:
        """What it asks with `AskUserQuestion`; nothing with other tools."""
        if self.asked.tool_name != "AskUserQuestion":
            return []
        try:
            return msgspec.convert(self.asked.input.get("questions"), list[_Asking])
        except msgspec.ValidationError:
            return []
