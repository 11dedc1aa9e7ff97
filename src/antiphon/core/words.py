"""The closed sets of words that the contract fixes, and the names of everything that has a name."""

from typing import Literal

WhenBusy = Literal["refuse", "queue", "steer", "collect", "interrupt", "rollback"]
MessageState = Literal["queued", "running", "answered", "failed", "cancelled", "interrupted", "withdrawn"]
TurnState = Literal["running", "completed", "failed", "cancelled", "interrupted"]
SessionStatus = Literal["starting", "idle", "running", "asking", "stalled", "errored", "dormant", "stopped"]
Lifecycle = Literal["active", "stopped", "deleted"]
Delivery = Literal["turn", "steer", "collect"]
Origin = Literal["message", "agent"]
CancelReason = Literal["cancel", "interrupt", "stop", "clear", "delete", "shutdown", "deadline"]
Substitute = Literal["queue", "interrupt", "summary"]
"""What was done instead of what `when_busy` asks for: a steer that got a turn of its own, a rollback after which the
agent remembers the cancelled turn, a collected message of which the agent got the beginning only."""
Overflow = Literal["refuse", "summarise"]
Senders = Literal["apart", "together"]
Again = Literal["anew", "resumed"]
OnCrash = Literal["interrupt", "retry_if_untouched", "resume"]
