"""What went wrong, in words for a person."""

from antiphon.agents.claude.protocol import Result, System
from antiphon.core.session import Problem

DETAIL_MAX = 2_000
NOT_LOGGED_IN = "Claude Code is not logged in, or its key is not accepted. Run `claude` and `/login`, or set the key."
TOO_LONG = "Prompt is too long"
COMPACTED = (
    "Claude Code has put a summary in the place of what was said so far, because the conversation had grown too long."
)
ADVICE = {
    401: NOT_LOGGED_IN,
    403: NOT_LOGGED_IN,
    429: "The model is asked too often, or the account's limit is reached. Try again later.",
    529: "The model's server is overloaded. Try again later.",
}


def failed(text: str) -> Problem:
    """The end of a turn that failed."""
    return Problem(code="agent_failed", detail=text[:DETAIL_MAX])


def too_long(size: int) -> str:
    """A line was not read."""
    return f"Claude Code wrote a line of {size} bytes, which is over the limit."


def told(result: Result) -> str:
    """Why a turn failed, and what to do about it where that is known.

    An API failure comes as `subtype: "success"` with its words in `result`; other failures have them in `errors`.
    """
    words = "; ".join(filter(None, result.errors)) or result.result or ""
    if result.subtype == "error_max_turns":
        return f"{words or 'The limit of steps is reached'}. See the `max_turns` option of this agent."
    said = words or f"Claude Code says that the turn failed ({result.subtype or 'no reason given'})."
    if TOO_LONG in said:
        return f"{said}. The conversation no longer fits into the model. `clear` the session to begin afresh."
    advice = ADVICE.get(result.api_error_status or 0)
    return f"{said} {advice}" if advice else said


def retrying(retry: System) -> str:
    """Claude Code asks its model again."""
    why = " ".join(str(word) for word in (retry.error_status, retry.error) if word) or "no reason given"
    delay_s = retry.retry_delay_ms / 1000
    return (
        f"Claude Code could not get an answer of its model ({why}). "
        f"It tries again in {delay_s:.1f} s ({retry.attempt} of {retry.max_retries})."
    )
