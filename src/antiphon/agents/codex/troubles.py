"""What went wrong, in words for a person."""

import re
from typing import Any

import msgspec

from antiphon.agents.codex.protocol import TurnError
from antiphon.core.session import Problem

DETAIL_MAX = 2_000
ADVICE = {
    "unauthorized": "Codex is not logged in, or its key is not accepted. Run `codex login`, or set the key.",
    "contextWindowExceeded": "The conversation no longer fits into the model. `clear` the session to begin afresh.",
    "usageLimitExceeded": "The usage limit of the account is reached. Try again later.",
    "rateLimitExceeded": "The model is asked too often. Try again later.",
    "serverOverloaded": "The model's server is overloaded. Try again later.",
    "sandboxError": "Codex's sandbox does not work here. See its `sandbox` option.",
}


UNAUTHORIZED = "401 Unauthorized"
COUNTED = re.compile(r"\b\d+/\d+\b")


class _ProviderError(msgspec.Struct):
    message: str = ""


class _ProviderBody(msgspec.Struct):
    error: _ProviderError


def failed(text: str) -> Problem:
    """The end of a turn that failed."""
    return Problem(code="agent_failed", detail=text[:DETAIL_MAX])


def told(error: TurnError | None) -> str:
    """What Codex says about an error, and what to do about it where that is known."""
    if error is None:
        return "Codex says that the turn failed, but not why."
    message = _plain(error.message) or "Codex says that the turn failed."
    details = _plain(error.additional_details or "")
    said = f"{message} ({details})" if details and details not in message else message
    kind = "unauthorized" if UNAUTHORIZED in said else _kind(error.codex_error_info)
    advice = ADVICE.get(kind)
    return f"{said} {advice}" if advice else said


def endless(error: TurnError) -> bool:
    """Whether Codex, which says that it will try again, sets itself no limit.

    It counts its retries ("Reconnecting... 1/5"), but waits for ever for a network ("Reconnecting... waiting for
    network").
    """
    return COUNTED.search(error.message) is None


def _plain(message: str) -> str:
    """The words in it: where the provider answered with JSON, Codex hands on the whole body."""
    try:
        return msgspec.json.decode(message, type=_ProviderBody).error.message or message
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return message


def _kind(info: Any) -> str:
    """The name of a `CodexErrorInfo`, which is a string or an object with one key."""
    if isinstance(info, dict):
        return next((str(key) for key in info), "")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(info)
