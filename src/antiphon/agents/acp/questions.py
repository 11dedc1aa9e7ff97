"""What an ACP agent asks a person before it acts, and the answers that it understands."""

from typing import Any

import msgspec

from antiphon.agents.acp.protocol import PermissionOption
from antiphon.agents.acp.tools import Tool
from antiphon.agents.excerpts import shortened

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The answer to a question whose turn is cancelled, which a client must give. ACP, "Prompt Turn", Cancellation."""


class Question(msgspec.Struct, frozen=True):
    """A `session/request_permission` that waits for a person.

    Attributes:
        number: The id of the request.
        tool: What it wants to use, with all that is known of it.
        offered: The answers on offer.
    """

    number: int | str
    tool: Tool
    offered: list[PermissionOption]

    @property
    def request_id(self) -> str:
        """How the host calls it: an id that is a number differs from one that is a text."""
        return msgspec.json.encode(self.number).decode()

    @property
    def text(self) -> str:
        """The question, for a person: what the agent calls it, and what it is about where that does not say it."""
        title, subject = self.tool.title, self.tool.subject
        parts = [title] if title else []
        parts += [subject] if subject and subject not in (title or "") else []
        return shortened(f"{self.tool.name}: {' — '.join(parts)}" if parts else f"May it use {self.tool.name}?")

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """The answers on offer, as the port has them; ACP's kinds are its own."""
        return tuple({"id": each.option_id, "name": each.name, "kind": each.kind} for each in self.offered)

    def result(self, allow: bool, option_id: str | None) -> dict[str, Any]:
        """What to answer. An option that contradicts `allow`, or is not known, is not followed.

        Without one the narrowest counts: what is said once is not made a rule, unless nothing else is on offer. A
        denial for which there is no option is told as the cancel of the question.
        """
        word = "allow" if allow else "reject"
        fitting = [each for each in self.offered if each.kind.startswith(word)]
        fitting.sort(key=lambda each: (each.option_id != option_id, not each.kind.endswith("_once")))
        if not fitting:
            return CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": fitting[0].option_id}}

    @property
    def answerable(self) -> bool:
        """Whether a person could allow it at all."""
        return any(each.kind.startswith("allow") for each in self.offered)
