"""The closed sets of words that the contract fixes, and the names of everything that has a name."""

from typing import Literal

WhenBusy = Literal["refuse", "queue", "steer", "collect", "interrupt", "rollback"]
MessageState = Literal["queued", "running", "answered", "failed", "cancelled", "interrupted", "withdrawn"]
TurnState = Literal["running", "completed", "failed", "cancelled", "interrupted"]
SessionStatus = Literal["starting", "idle", "running", "asking", "stalled", "errored", "dormant", "stopped"]
Lifecycle = Literal["active", "stopped", "deleted"]
Delivery = Literal["turn", "steer", "collect"]
Origin = Literal["message", "agent"]
CancelReason = Literal["cancel", "interrupt", "stop", "clear", "delete", "shutdown"]
OnCrash = Literal["interrupt", "retry_if_untouched", "resume"]
