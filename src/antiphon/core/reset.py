"""The reset policy of a session: when its next message begins a new generation instead of going on.

The setting `reset` is `"never"` (the default), `{"idle_minutes": N}`, or `{"daily_at": "HH:MM", "time_zone": "Europe/Berlin"}`.
Only real messages count as activity.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from antiphon.core.session import Session


def reset_due(session: Session, now: int) -> bool:
    """Whether the policy wants a new generation before a message accepted at `now` (ms)."""
    policy: Any = session.settings.get("reset", "never")
    if session.message_at is None or not isinstance(policy, dict):
        return False
    rules = cast("dict[str, Any]", policy)
    if "idle_minutes" in rules:
        return now - session.message_at >= float(rules["idle_minutes"]) * 60_000
    if "daily_at" in rules:
        return session.message_at < _last_daily(str(rules["daily_at"]), str(rules.get("time_zone", "UTC")), now)
    return False


def _last_daily(daily_at: str, time_zone: str, now: int) -> float:
    """The last moment, in ms, at which clocks of the zone showed that time. A time skipped by a zone's change counts
    as the moment of the change; of a repeated one the first counts."""
    zone = ZoneInfo(time_zone)
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).date()
    moments = [_moment(today - timedelta(days=days), time.fromisoformat(daily_at), zone) for days in (0, 1)]
    return next(moment for moment in moments if moment <= now)


def _moment(day: Any, at: time, zone: ZoneInfo) -> float:
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
        time.fromisoformat(rules["daily_at"])
        ZoneInfo(rules.get("time_zone", "UTC"))
    except (ValueError, TypeError, OSError, KeyError):
        return "`reset.daily_at` must be a time like 04:00 and `reset.time_zone` a zone like Europe/Berlin"
    return None
