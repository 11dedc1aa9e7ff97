"""The one error tree. Each class is a refusal or failure that a client can meet, with a stable `code`.

    AntiphonError
    ├── Busy, QueueFull, Stopped, Exists, Conflict, TurnEnded, NotEditable, PermissionAnswered,
    │   ForkUnavailable                                                                          the session says no
    ├── KeyReused, InvalidRequest, TooLarge, PreconditionFailed, MethodNotAllowed                the request is at fault
    ├── NotFound                                                                                 nothing by that name
    ├── AgentUnavailable, AgentFailed                                                            the agent is at fault
    ├── Draining, StoreUnavailable, SessionLimit                                                 the host says: later
    └── Unauthorized, Forbidden                                                                  the token is at fault

HTTP status and exit codes are mapped at the edges (`antiphon.http`, `antiphon.cli`), not here.
"""

from typing import Any, ClassVar


class AntiphonError(Exception):
    """A refusal or failure with a stable code.

    Attributes:
        code: The stable code, as `docs/reference/errors.md` lists it.
        detail: A sentence that a person can act on. It never holds a prompt, an answer or a secret.
        ids: The ids concerned, and further fields of the problem document, JSON-compatible.
        retry_after_s: After how many seconds trying again is sensible; None where it never is.
    """

    code: ClassVar[str] = "internal"

    def __init__(self, detail: str, *, retry_after_s: int | None = None, **ids: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.ids = {name: value for name, value in ids.items() if value is not None}
        self.retry_after_s = retry_after_s


class Busy(AntiphonError):
    """A message with `when_busy: refuse` met a running turn; `ids["holder"]` says which."""

    code = "session_busy"


class QueueFull(AntiphonError):
    """As many messages wait as the limit allows."""

    code = "queue_full"


class SessionLimit(AntiphonError):
    """The host keeps as many sessions as its limit allows."""

    code = "session_limit"


class Stopped(AntiphonError):
    """The session was stopped by a person; only `resume` brings it back."""

    code = "session_stopped"


class Exists(AntiphonError):
    """The key is taken; `ids["session_id"]` is the session that has it."""

    code = "session_exists"


class Conflict(AntiphonError):
    """Every retry met another writer. Nothing was changed; the next attempt starts clean."""

    code = "session_conflict"


class ForkUnavailable(AntiphonError):
    """No session can begin where that turn ended: it did not complete, or its agent can't go back there."""

    code = "fork_unavailable"


class TurnEnded(AntiphonError):
    """The turn that was to be cancelled has ended already."""

    code = "turn_ended"


class NotEditable(AntiphonError):
    """The message is no longer queued."""

    code = "not_editable"


class PermissionAnswered(AntiphonError):
    """Somebody, or the deadline, has answered this permission request already."""

    code = "permission_answered"


class KeyReused(AntiphonError):
    """The idempotency key was spent on another body."""

    code = "idempotency_key_reused"


class InvalidRequest(AntiphonError):
    """The request does not have the form that the contract asks for."""

    code = "invalid_request"


class TooLarge(AntiphonError):
    """The body is over the limit."""

    code = "message_too_large"


class PreconditionFailed(AntiphonError):
    """`If-Match` names a revision that is no longer the current one."""

    code = "precondition_failed"


class MethodNotAllowed(AntiphonError):
    """The thing is there, but cannot be asked that way."""

    code = "method_not_allowed"


class NotFound(AntiphonError):
    """Nothing by that name; `code` says what kind of thing was looked for."""

    code = "not_found"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"No {kind} {name!r} here.")
        self.ids = {"agent" if kind == "agent" else f"{kind}_id": name}
        self.code = f"{kind}_not_found"  # pyright: ignore[reportAttributeAccessIssue]


class AgentUnavailable(AntiphonError):
    """The agent could not be started."""

    code = "agent_unavailable"


class AgentFailed(AntiphonError):
    """The agent died, or said that its turn failed."""

    code = "agent_failed"


class Draining(AntiphonError):
    """The host is shutting down and takes nothing new."""

    code = "draining"


class StoreUnavailable(AntiphonError):
    """The store can't be read or written just now; nothing was half done."""

    code = "store_unavailable"


class Unauthorized(AntiphonError):
    """No token, or an unknown one."""

    code = "unauthorized"


class Forbidden(AntiphonError):
    """The token, the `Host` or the `Origin` does not allow this."""

    code = "forbidden"
