"""What follows from a try: delivered, tried again, or given up. Pure: time and chance are given."""

from email.utils import parsedate_to_datetime

import msgspec
from msgspec.structs import replace

from antiphon.ports.outbox import Delivery

HOUR_S = 3600.0
GROWTH = 3
JITTER = 0.2
GONE = 410


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """When tries are made, in seconds.

    Attributes:
        first_s: How long after the first failed try the second one follows; each pause is three times the last.
        longest_s: The longest pause.
        give_up_s: How long after its event a delivery is tried for the last time.
    """

    first_s: float = 5.0
    longest_s: float = HOUR_S
    give_up_s: float = 24 * HOUR_S


class Answer(msgspec.Struct, frozen=True):
    """A receiver's answer: its status, and its `Retry-After` as it was sent."""

    status: int
    retry_after: str | None = None


class NoAnswer(msgspec.Struct, frozen=True):
    """There was none; `why` in words of ours."""

    why: str


def after_try(delivery: Delivery, outcome: Answer | NoAnswer, *, now: int, pace: Pace, chance: float) -> Delivery:
    """How a delivery stands after a try.

    Args:
        delivery: As it stood before.
        outcome: What came of the try.
        now: Milliseconds since the epoch.
        pace: When tries are made.
        chance: A random number from 0 to 1, which spreads tries that failed together.
    """
    status = outcome.status if isinstance(outcome, Answer) else None
    tried = replace(delivery, attempts=delivery.attempts + 1, status=status or delivery.status)
    if status is not None and 200 <= status < 300:
        return replace(tried, state="delivered", settled_at=now, error=None)
    error = outcome.why if isinstance(outcome, NoAnswer) else f"The receiver answered {status}."
    end = delivery.since + int(pace.give_up_s * 1000)
    if status == GONE or now >= end:
        return replace(tried, state="dead", settled_at=now, error=error)
    asked_s = retry_after_s(outcome.retry_after, now) if isinstance(outcome, Answer) else 0.0
    pause_s = max(pause_after(tried.attempts, pace), asked_s) * (1 + JITTER * chance)
    return replace(tried, next_at=min(now + int(pause_s * 1000), end), error=error)


def pause_after(attempts: int, pace: Pace) -> float:
    """How long to wait after so many failed tries, before chance lengthens it."""
    return min(pace.first_s * GROWTH ** min(attempts - 1, 30), pace.longest_s)


def retry_after_s(header: str | None, now: int) -> float:
    """How long a receiver asks to be left alone (RFC 9110 section 10.2.3); 0 when it says nothing that can be read."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now / 1000)
    except (ValueError, OverflowError):
        return 0.0
