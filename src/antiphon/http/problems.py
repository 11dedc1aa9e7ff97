"""Refusals as problem documents (RFC 9457): the one table from stable codes to statuses, and the answers made of it."""

from typing import Any

import msgspec
from starlette.responses import Response

from antiphon.core.errors import AntiphonError

MEDIA_TYPE = "application/problem+json"

STATUSES: dict[str, int] = {
    "invalid_request": 422,
    "idempotency_key_reused": 422,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "session_not_found": 404,
    "message_not_found": 404,
    "turn_not_found": 404,
    "agent_not_found": 404,
    "permission_not_found": 404,
    "token_not_found": 404,
    "webhook_not_found": 404,
    "delivery_not_found": 404,
    "schedule_not_found": 404,
    "host_not_found": 404,
    "event_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "session_busy": 409,
    "session_stopped": 409,
    "session_exists": 409,
    "session_conflict": 409,
    "turn_ended": 409,
    "fork_unavailable": 409,
    "not_editable": 409,
    "permission_answered": 409,
    "delivery_not_dead": 409,
    "precondition_failed": 412,
    "message_too_large": 413,
    "queue_full": 429,
    "session_limit": 429,
    "head_too_large": 431,
    "internal": 500,
    "agent_unavailable": 502,
    "agent_failed": 502,
    "draining": 503,
    "store_unavailable": 503,
    "too_many_connections": 503,
}
"""The status of every code. This is the only place that knows one."""

TITLES: dict[str, str] = {
    "invalid_request": "The request does not have the form that is asked for",
    "idempotency_key_reused": "The idempotency key was spent on another body",
    "unauthorized": "A valid token is needed",
    "forbidden": "This is not allowed",
    "not_found": "There is nothing here",
    "session_not_found": "No such session",
    "message_not_found": "No such message",
    "turn_not_found": "No such turn",
    "agent_not_found": "No such agent",
    "permission_not_found": "No such permission request",
    "token_not_found": "No such token",
    "webhook_not_found": "No such webhook",
    "delivery_not_found": "No such delivery",
    "schedule_not_found": "No such schedule",
    "host_not_found": "No such host",
    "event_not_found": "No such event",
    "method_not_allowed": "The method is not allowed here",
    "request_timeout": "The request did not arrive in time",
    "session_busy": "A turn is running",
    "session_stopped": "The session is stopped",
    "session_exists": "The key is in use",
    "session_conflict": "Other writers came first every time",
    "turn_ended": "The turn has ended",
    "fork_unavailable": "No session can begin there",
    "not_editable": "The message is no longer queued",
    "permission_answered": "The permission request has been answered",
    "delivery_not_dead": "The delivery was made, or is still tried",
    "precondition_failed": "The session has changed",
    "message_too_large": "The body is too large",
    "head_too_large": "The head of the request is too large",
    "queue_full": "The queue is full",
    "session_limit": "No more sessions fit",
    "internal": "Something went wrong inside",
    "agent_unavailable": "The agent could not be started",
    "agent_failed": "The agent failed",
    "draining": "The host is shutting down",
    "store_unavailable": "The store can't be reached",
    "too_many_connections": "There are too many connections",
}
"""What each code means, in words that never change."""

RETRY_AFTER_S: dict[str, int] = {
    "session_busy": 1,
    "queue_full": 1,
    "session_limit": 5,
    "draining": 2,
    "store_unavailable": 1,
    "too_many_connections": 1,
}
"""After how long to try again, where the refusal itself does not say."""

RESERVED = frozenset({"type", "title", "status", "code", "detail"})


class RequestTimeout(AntiphonError):
    """The body of the request did not arrive in time."""

    code = "request_timeout"


class MethodNotAllowed(AntiphonError):
    """The route exists, but not for this method."""

    code = "method_not_allowed"


class NoRoute(AntiphonError):
    """Nothing is served under this path."""

    code = "not_found"


class Internal(AntiphonError):
    """A mistake of the host itself. What it was stands in the log, not in the answer."""

    code = "internal"


def status_of(error: AntiphonError) -> int:
    """The HTTP status of an error; 500 for a code that the table does not know."""
    return STATUSES.get(error.code, 500)


def document(error: AntiphonError) -> dict[str, Any]:
    """The problem document of an error: the members of RFC 9457 section 3.1, `code`, and the ids concerned.

    `type` is a path on this host (section 3.1.1) at which the code is explained.
    """
    problem: dict[str, Any] = {
        "type": f"/docs#{error.code}",
        "title": TITLES.get(error.code, "Something went wrong"),
        "status": status_of(error),
        "code": error.code,
        "detail": error.detail,
    }
    return problem | {name: value for name, value in error.ids.items() if name not in RESERVED}


def headers_of(error: AntiphonError) -> dict[str, str]:
    """The headers that go with an error."""
    headers = {"cache-control": "no-store"}
    retry_after_s = RETRY_AFTER_S.get(error.code) if error.retry_after_s is None else error.retry_after_s
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    if error.code == "unauthorized":
        headers["www-authenticate"] = 'Bearer realm="antiphon"'
    return headers


def refusal(error: AntiphonError, headers: dict[str, str] | None = None) -> Response:
    """The answer that refuses."""
    content = msgspec.json.encode(document(error))
    return Response(content, status_of(error), headers_of(error) | (headers or {}), MEDIA_TYPE)
