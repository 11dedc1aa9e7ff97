"""The Python client, sync and async.

`Client` and `AsyncClient` do the same; both drive the plans of `antiphon.client.plans`. The async one, and with it
httpx2, is imported when it is first asked for: the command line must start fast.
"""

from typing import TYPE_CHECKING

from antiphon.client.documents import (
    Agent,
    Cancelled,
    Delivery,
    Event,
    HostStatus,
    Line,
    Permission,
    Problem,
    Receipt,
    Retried,
    Run,
    Schedule,
    Session,
    Token,
    Turn,
    Usage,
    Webhook,
)
from antiphon.client.errors import (
    AgentFailed,
    AgentNotFound,
    AgentUnavailable,
    ApiError,
    BadRequest,
    ClientError,
    ConnectionLost,
    DeliveryNotDead,
    DeliveryNotFound,
    Draining,
    Forbidden,
    HostNotReached,
    IdempotencyKeyReused,
    InvalidRequest,
    MessageNotFound,
    MessageTooLarge,
    NotAllowed,
    NotEditable,
    NotFound,
    PermissionAnswered,
    PermissionNotFound,
    PreconditionFailed,
    QueueFull,
    Refused,
    ScheduleNotFound,
    SessionBusy,
    SessionConflict,
    SessionExists,
    SessionLimit,
    SessionNotFound,
    SessionStopped,
    StoreUnavailable,
    TokenNotFound,
    Trouble,
    TurnEnded,
    TurnNotFound,
    Unauthorized,
    UnexpectedAnswer,
    WebhookNotFound,
)
from antiphon.client.plans import Pace
from antiphon.client.sync import Client

if TYPE_CHECKING:
    from antiphon.client.asynchronous import AsyncClient

__all__ = [
    "Agent",
    "AgentFailed",
    "AgentNotFound",
    "AgentUnavailable",
    "ApiError",
    "AsyncClient",
    "BadRequest",
    "Cancelled",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Delivery",
    "DeliveryNotDead",
    "DeliveryNotFound",
    "Draining",
    "Event",
    "Forbidden",
    "HostNotReached",
    "HostStatus",
    "IdempotencyKeyReused",
    "InvalidRequest",
    "Line",
    "MessageNotFound",
    "MessageTooLarge",
    "NotAllowed",
    "NotEditable",
    "NotFound",
    "Pace",
    "Permission",
    "PermissionAnswered",
    "PermissionNotFound",
    "PreconditionFailed",
    "Problem",
    "QueueFull",
    "Receipt",
    "Refused",
    "Retried",
    "Run",
    "Schedule",
    "ScheduleNotFound",
    "Session",
    "SessionBusy",
    "SessionConflict",
    "SessionExists",
    "SessionLimit",
    "SessionNotFound",
    "SessionStopped",
    "StoreUnavailable",
    "Token",
    "TokenNotFound",
    "Trouble",
    "Turn",
    "TurnEnded",
    "TurnNotFound",
    "Unauthorized",
    "UnexpectedAnswer",
    "Usage",
    "Webhook",
    "WebhookNotFound",
]


def __getattr__(name: str) -> object:
    if name == "AsyncClient":
        from antiphon.client.asynchronous import AsyncClient  # noqa: PLC0415  httpx2 costs 190 ms

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
