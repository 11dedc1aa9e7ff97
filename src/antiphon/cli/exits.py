"""Exit codes (contract, "Command line"), and what is said on stderr when something goes wrong."""

from collections.abc import Mapping
from typing import Any

from antiphon.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    HostNotReached,
    MethodNotAllowed,
    NotAllowed,
    NotFound,
    Refused,
)

DONE, FAILED, USAGE, REFUSED, UNKNOWN, NO_HOST, WAIT_ENDED, CANCELLED, FORBIDDEN, UNTRIED = range(10)
INTERRUPTED = 130  # 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE

ENDS = {
    "answered": DONE,
    "completed": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "interrupted": CANCELLED,
    "withdrawn": CANCELLED,
}
"""The exit code of a message's or a turn's end; what has not ended is `WAIT_ENDED`."""

_CODES: tuple[tuple[type[ClientError], int], ...] = (
    (MethodNotAllowed, FAILED),
    (BadRequest, USAGE),
    (Refused, REFUSED),
    (NotAllowed, FORBIDDEN),
    (HostNotReached, NO_HOST),
)

_ADVICE = {
    "session_busy": "Leave out --when-busy refuse to wait, or see `antiphon session queue`.",
    "session_stopped": "`antiphon session resume` brings it back.",
    "session_exists": "Use that session, pass --if-exists return, or choose another key.",
    "session_not_found": "`antiphon session list` shows what there is; --agent NAME starts one with the message.",
    "agent_not_found": "`antiphon agent list` shows what there is.",
    "agent_unavailable": "`antiphon agent check` says what is missing.",
    "permission_not_found": "`antiphon permission list` shows what is asked.",
    "webhook_not_found": "`antiphon webhook list` shows what there is.",
    "delivery_not_found": "`antiphon webhook deliveries` shows what there is.",
    "schedule_not_found": "`antiphon schedule list` shows what there is.",
    "host_not_found": "`antiphon host list` shows what there is.",
    "token_not_found": "`antiphon token list` shows what there is.",
    "unauthorized": "Set ANTIPHON_TOKEN, or pass --token, to a token of this host.",
    "forbidden": "This takes a token of scope full: `antiphon token create`.",
    "idempotency_key_reused": "Choose a new key for a new message.",
    "message_too_large": "Send the text as a file: --file PATH.",
    "store_unavailable": "`antiphon doctor` looks for the reason.",
}


def exit_code(error: ClientError) -> int:
    """The exit code of an error."""
    if isinstance(error, NotFound):
        return FAILED if error.code == "not_found" else UNKNOWN
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def told(error: ClientError) -> str:
    """An error for people: what happened, and what to do."""
    if not isinstance(error, ApiError):
        return str(error)
    advice = [_holder(error), _ADVICE.get(error.code, "")]
    if error.retry_after_s is not None:
        advice.append(f"Try again in {error.retry_after_s} s.")
    return " ".join([error.detail, *filter(None, advice)])


def _holder(error: ApiError) -> str:
    """The turn and the message that are in the way, by their ids."""
    holder: dict[str, Any] = error.fields.get("holder") or {}
    named = [f"{kind} {holder[f'{kind}_id']}" for kind in ("turn", "message") if holder.get(f"{kind}_id")]
    return f"In the way: {', '.join(named)}, since {holder.get('since')}." if named else ""


def problem(error: ClientError) -> Mapping[str, Any]:
    """An error for programs: the host's problem document, or one of the same form."""
    if isinstance(error, ApiError):
        return error.fields
    return {"code": "host_not_reached" if isinstance(error, HostNotReached) else "internal", "detail": str(error)}
