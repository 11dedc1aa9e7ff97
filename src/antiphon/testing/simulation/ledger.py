"""What the simulation's clients did and were told: the half of the truth that stands in no journal."""

from typing import Any

import msgspec

from antiphon.host.views import Receipt


class Attempt(msgspec.Struct, kw_only=True):
    """One try to send a message.

    Attributes:
        token: The message's text, which no other message has.
        ref: The session it was sent to: its key or its id.
        key: The idempotency key; all tries of one message share it.
        outcome: `accepted`, `refused`, or `unknown` when no answer arrived.
        code: Of the refusal.
        receipt: What was accepted.
    """

    token: str
    ref: str
    key: str | None
    when_busy: str | None
    outcome: str = "unknown"
    code: str | None = None
    receipt: Receipt | None = None


class Patch(msgspec.Struct, kw_only=True):
    """A change of one field to a value that nothing else has; `outcome` as for an attempt."""

    value: str
    changes: dict[str, Any]
    outcome: str = "unknown"


class Ledger:
    """All clients' notes.

    Attributes:
        findings: Broken promises that were seen on the spot.
        receipts: Every receipt that somebody was shown, in order of time.
        over: When each message was first seen to have ended, in seconds of the simulation.
        cancels: The turns that somebody wanted cancelled.
        confirmed: The states of those whose cancel was confirmed.
        message_cancels: The messages that somebody wanted cancelled.
        message_confirmed: Those whose cancel was answered with an end.
        wanted: Which of `stop`, `resume`, `clear` and `delete` somebody has asked for.
        clears: How many clears of each session were confirmed.
        clears_unknown: How many there were besides of which nobody was told what became of them.
        edits: What somebody wanted a message to say instead, and which one.
    """

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.attempts: list[Attempt] = []
        self.patches: list[Patch] = []
        self.receipts: list[Receipt] = []
        self.over: dict[str, float] = {}
        self.cancels: set[str] = set()
        self.confirmed: dict[str, str] = {}
        self.message_cancels: set[str] = set()
        self.message_confirmed: set[str] = set()
        self.wanted: set[str] = set()
        self.clears: dict[str, int] = {}
        self.clears_unknown = 0
        self.edits: dict[str, str] = {}
        self._tokens = 0

    def token(self) -> str:
        """A word that no one has said before."""
        self._tokens += 1
        return f"t{self._tokens}."

    def finding(self, text: str) -> None:
        """Note that a promise was broken."""
        self.findings.append(text)
