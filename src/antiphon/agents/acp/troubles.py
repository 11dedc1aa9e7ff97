"""What went wrong, in words for a person."""

from typing import Any, cast

from antiphon.agents.acp.protocol import AuthMethod
from antiphon.agents.jsonrpc import Fault
from antiphon.core.session import Problem

DETAIL_MAX = 2_000
AUTHENTICATION_REQUIRED = -32000
"""ACP, "Error codes"."""
INTERNAL = "Internal error"
"""What the libraries of ACP make of an exception whose words they keep in `data`."""
CUT = {
    "max_tokens": "The model reached its limit of tokens, so the answer is not complete.",
    "max_turn_requests": "The agent reached its limit of model calls in one turn, so its work is not complete.",
    "refusal": "The agent refuses to go on. It forgets this message; say it in another way.",
}
"""The reasons to stop that are no end of an answer. ACP, "Prompt Turn", Stop Reasons."""


def failed(text: str) -> Problem:
    """The end of a turn that failed."""
    return Problem(code="agent_failed", detail=text[:DETAIL_MAX])


def told(fault: Fault) -> str:
    """Why something was refused, with the details that agents keep apart from the message."""
    details = _details(fault.data)
    message = fault.message or "The agent gives no reason."
    if not details or details in message:
        return message
    return details if message == INTERNAL else f"{message}: {details}"


def wants_login(fault: Fault, ways: list[AuthMethod]) -> str | None:
    """What to do, when it was refused because nobody is logged in."""
    if fault.code != AUTHENTICATION_REQUIRED:
        return None
    named = "; ".join(_way(each) for each in ways)
    if not named:
        return "It is not logged in, and names no way to do so. Log in with its own program, or set its key."
    return (
        f"It is not logged in. Log in with its own program, set its key in `environment`, or name one of its ways in "
        f"`auth_method`: {named}."
    )


def too_long(size: int) -> str:
    """A line was not read."""
    return f"The agent wrote a line of {size} bytes, which is over the limit."


def _details(data: Any) -> str:
    if isinstance(data, str):
        return data
    if not isinstance(data, dict):
        return ""
    known = cast("dict[str, Any]", data)
    return next(
        (known[key] for key in ("details", "message", "error", "reason") if isinstance(known.get(key), str)), ""
    )


def _way(method: AuthMethod) -> str:
    return f"{method.id} ({': '.join(filter(None, (method.name, method.description)))})"
