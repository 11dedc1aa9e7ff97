"""The request headers that mean something here, read as their specifications say."""

import re
from collections.abc import Iterable

from antiphon.core.errors import InvalidRequest

IDEMPOTENCY_KEY_MAX = 255
PREFERENCES_MAX = 1024
"""Longer ones are not understood: the time to read quoted ones grows with the square of their length."""

_PREFERENCES = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_WAIT = re.compile(
    r'\s*wait\s*=\s*(?P<quote>"?)(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,3})?)(?P=quote)\s*(?:;.*)?', re.IGNORECASE
)
_REVISION = re.compile(r'(?P<quote>"?)(?P<revision>[0-9]{1,15})(?P=quote)')
_NO_WEIGHT = re.compile(r"0(\.0{0,3})?")


def preferred_wait_s(values: Iterable[str], longest_s: float) -> float | None:
    """How long the client prefers to wait, from its `Prefer` headers; None when it has no such wish.

    RFC 7240 section 2: of several the first counts, and what can't be understood is ignored; the answer then has no
    `Preference-Applied`. Fractions of a second are taken too.
    """
    preferences = ",".join(values)
    if len(preferences) > PREFERENCES_MAX:
        return None
    for preference in _PREFERENCES.findall(preferences):
        name = preference.partition("=")[0].strip().lower()
        if name == "wait":
            found = _WAIT.fullmatch(preference)
            return min(float(found["seconds"]), longest_s) if found else None
    return None


def applied_wait(seconds: float) -> str:
    """The value of `Preference-Applied` (RFC 7240 section 3)."""
    return f"wait={seconds:.3f}".rstrip("0").rstrip(".")


def expected_revision(value: str | None) -> int | None:
    """The revision that `If-Match` asks for: `7` or `"7"`. `*` asks for any, which every session has.

    Weak tags never match (RFC 9110 section 13.1.1), so asking for one is a mistake.

    Raises:
        InvalidRequest: It is something else.
    """
    if value is None or value.strip() == "*":
        return None
    found = _REVISION.fullmatch(value.strip())
    if not found:
        raise InvalidRequest('`If-Match` must be one revision of the session, such as 7 or "7".', header="If-Match")
    return int(found["revision"])


def idempotency_key(values: list[str]) -> str | None:
    """The key under which the client may send the same thing again.

    Raises:
        InvalidRequest: There are several, or it is empty or too long.
    """
    if not values:
        return None
    if len(values) > 1 or not 1 <= len(values[0]) <= IDEMPOTENCY_KEY_MAX:
        detail = f"`Idempotency-Key` must be given once, with 1 to {IDEMPOTENCY_KEY_MAX} characters."
        raise InvalidRequest(detail, header="Idempotency-Key")
    return values[0]


def wants_events(accept: Iterable[str]) -> bool:
    """Whether `Accept` asks for an event stream, be it among other types."""
    accepted = ",".join(accept)
    if "/event-stream" not in accepted.lower():
        return False
    for item in accepted.split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        if media_type == "text/event-stream":
            weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
            return not _NO_WEIGHT.fullmatch(weight)
    return False
