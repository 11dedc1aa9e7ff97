"""What can go wrong for a client, as one tree.

    ClientError
    ├── HostNotReached            nobody answers at that address: nothing was sent
    │   └── ConnectionLost        the request went out and no answer came: it may or may not have been done
    ├── UnexpectedAnswer          what answers there does not speak antiphon's protocol
    └── ApiError                  the host said no, with a stable `code`
        ├── Refused               not now, or not any more: SessionBusy, QueueFull, SessionStopped, SessionExists, …
        ├── NotFound              nothing by that name: SessionNotFound, MessageNotFound, TurnNotFound, …
        ├── NotAllowed            Unauthorized, Forbidden
        ├── BadRequest            the request is at fault: InvalidRequest, MessageTooLarge, MethodNotAllowed
        └── Trouble               AgentUnavailable, AgentFailed, StoreUnavailable

A code that this version does not know becomes the group of its HTTP status, and keeps its code.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class ClientError(Exception):
    """Every error that this package raises on purpose."""


class HostNotReached(ClientError):
    """No host answers at that address; nothing was sent."""


class ConnectionLost(HostNotReached):
    """The request went out, and its answer did not come: it may or may not have been done."""


class UnexpectedAnswer(ClientError):
    """What came back is not what the contract says."""


class ApiError(ClientError):
    """The host refused or failed, with a problem document (RFC 9457).

    Attributes:
        code: The stable code of the contract.
        status: The HTTP status.
        detail: A sentence that a person can act on.
        fields: The whole problem document, with the ids concerned.
        retry_after_s: After how many seconds trying again is sensible; None where it never is.
    """

    CODE: ClassVar[str] = ""
    by_code: ClassVar[dict[str, type["ApiError"]]] = {}

    def __init__(self, status: int, fields: Mapping[str, Any], *, retry_after_s: int | None = None) -> None:
        self.code = str(fields.get("code") or self.CODE or "internal")
        self.status = status
        self.detail = str(fields.get("detail") or fields.get("title") or f"The host answered {status}.")
        self.fields = fields
        self.retry_after_s = retry_after_s
        super().__init__(self.detail)

    def __init_subclass__(cls) -> None:
        if cls.CODE:
            ApiError.by_code[cls.CODE] = cls

    @staticmethod
    def of(status: int, fields: Mapping[str, Any], *, retry_after_s: int | None = None) -> "ApiError":
        """The error of a problem document: the class of its code, else the group of its status."""
        kind = ApiError.by_code.get(str(fields.get("code"))) or _GROUPS.get(status, ApiError)
        return kind(status, fields, retry_after_s=retry_after_s)


class Refused(ApiError):
    """Not now, or not any more; nothing was changed."""


class SessionBusy(Refused):
    """A message with `when_busy: refuse` met a running turn; `fields["holder"]` says which."""

    CODE = "session_busy"


class QueueFull(Refused):
    CODE = "queue_full"


class SessionLimit(Refused):
    CODE = "session_limit"


class SessionStopped(Refused):
    """A person stopped the session; only `session_resume` brings it back."""

    CODE = "session_stopped"


class SessionExists(Refused):
    """The key is taken; `fields["session_id"]` is the session that has it."""

    CODE = "session_exists"


class SessionConflict(Refused):
    CODE = "session_conflict"


class TurnEnded(Refused):
    CODE = "turn_ended"


class ForkUnavailable(Refused):
    CODE = "fork_unavailable"


class NotEditable(Refused):
    """The message no longer waits."""

    CODE = "not_editable"


class PermissionAnswered(Refused):
    CODE = "permission_answered"


class DeliveryNotDead(Refused):
    """The delivery was made, or is still tried."""

    CODE = "delivery_not_dead"


class PreconditionFailed(Refused):
    """`if_match` named a revision that is no longer the current one."""

    CODE = "precondition_failed"


class IdempotencyKeyReused(Refused):
    """The idempotency key was spent on another body."""

    CODE = "idempotency_key_reused"


class Draining(Refused):
    """The host is shutting down and takes nothing new."""

    CODE = "draining"


class NotFound(ApiError):
    CODE = "not_found"


class SessionNotFound(NotFound):
    CODE = "session_not_found"


class MessageNotFound(NotFound):
    CODE = "message_not_found"


class TurnNotFound(NotFound):
    CODE = "turn_not_found"


class AgentNotFound(NotFound):
    CODE = "agent_not_found"


class PermissionNotFound(NotFound):
    CODE = "permission_not_found"


class TokenNotFound(NotFound):
    CODE = "token_not_found"


class WebhookNotFound(NotFound):
    CODE = "webhook_not_found"


class DeliveryNotFound(NotFound):
    CODE = "delivery_not_found"


class ScheduleNotFound(NotFound):
    CODE = "schedule_not_found"


class HostNotFound(NotFound):
    CODE = "host_not_found"


class NotAllowed(ApiError):
    """The token does not allow this."""


class Unauthorized(NotAllowed):
    CODE = "unauthorized"


class Forbidden(NotAllowed):
    CODE = "forbidden"


class BadRequest(ApiError):
    """Asking the same again will not help: the request is at fault."""


class InvalidRequest(BadRequest):
    CODE = "invalid_request"


class MessageTooLarge(BadRequest):
    CODE = "message_too_large"


class MethodNotAllowed(BadRequest):
    CODE = "method_not_allowed"


class Trouble(ApiError):
    """The host could not do it, through no fault of the request."""


class AgentUnavailable(Trouble):
    CODE = "agent_unavailable"


class AgentFailed(Trouble):
    CODE = "agent_failed"


class StoreUnavailable(Trouble):
    CODE = "store_unavailable"


_GROUPS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    405: BadRequest,
    409: Refused,
    412: Refused,
    413: BadRequest,
    422: BadRequest,
    429: Refused,
    502: Trouble,
    503: Trouble,
}
