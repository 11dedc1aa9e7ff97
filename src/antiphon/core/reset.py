"""The reset policy of a session: when its next message begins a new generation instead of going on.

The setting `reset` is `"never"` (the default), `{"idle_minutes": N}`, or
`{"daily_at": "HH:MM", "time_zone": "Europe/Berlin"}`. Only real messages count as activity.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from antiphon.core.session import Session


def reset_due(session: Session, now: int) -> bool:
    """Whether the policy wants a new generation before a message accepted at `now` (ms).

    A policy that can't be used, such as one whose time zone this machine does not know, wants none.
    """
    policy: Any = session.settings.get("reset", "never")
    if session.message_at is None or policy == "never" or check_reset(policy):
        return False
    rules = cast("dict[str, Any]", policy)
    if "idle_minutes" in rules:
        return now - session.message_at >= rules["idle_minutes"] * 60_000
    return session.message_at < _last_daily(rules["daily_at"], rules.get("time_zone", "UTC"), now)


def _last_daily(daily_at: str, time_zone: str, now: int) -> float:
    """The last moment, in ms, at which clocks of the zone showed that time.

    Of a time that a change of the zone repeats the first counts; one that it skips counts as that much later (02:30
    as 03:30). A zone may have skipped a whole day, hence three.
    """
    zone = ZoneInfo(time_zone)
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).date()
    moments = [_moment(today - timedelta(days=days), time.fromisoformat(daily_at), zone) for days in (0, 1, 2)]
    return next(moment for moment in moments if moment <= now)


def _moment(day: date, at: time, zone: ZoneInfo) -> float:
    return datetime.combine(day, at, zone).astimezone(UTC).timestamp() * 1000


def check_reset(policy: Any) -> str | None:
    """What is wrong with a `reset` setting, for a person; None when it can be used."""
    if policy == "never":
        return None
    rules = cast("dict[str, Any]", policy) if isinstance(policy, dict) else {}
    if set(rules) == {"idle_minutes"}:
        minutes = rules["idle_minutes"]
        good = isinstance(minutes, int | float) and not isinstance(minutes, bool) and minutes > 0
        return None if good else "`reset.idle_minutes` must be a number above 0"
    if set(rules) in ({"daily_at"}, {"daily_at", "time_zone"}):
        return _check_daily(rules)
    return '`reset` must be "never", {"idle_minutes": N} or {"daily_at": "HH:MM", "time_zone": "Area/City"}'


def _check_daily(rules: dict[str, Any]) -> str | None:
    try:
        good = time.fromisoformat(rules["daily_at"]).tzinfo is None
        ZoneInfo(rules.get("time_zone", "UTC"))
    except (ValueError, TypeError, OSError, KeyError):  # the last two: no such zone
        good = False
    return None if good else "`reset.daily_at` must be a time like 04:00, `reset.time_zone` a zone like Europe/Berlin"
