"""The settings of a session that the host itself knows. An agent may have more; those are handed on as they are.

reset: `"never"`, `{"idle_minutes": N}` or `{"daily_at": "HH:MM", "time_zone": "Area/City"}`
on_crash: `"interrupt"`, `"retry_if_untouched"` or `"resume"`
stall_after_s: a number above 0
"""

from collections.abc import Mapping
from typing import Any, get_args

from antiphon.core.errors import InvalidRequest
from antiphon.core.reset import check_reset
from antiphon.core.words import OnCrash


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse values that the host could not go by. A null takes a setting back.

    Raises:
        InvalidRequest: One of them is wrong; the detail says which and how it should be.
    """
    problem = _problem({name: value for name, value in settings.items() if value is not None})
    if problem:
        raise InvalidRequest(problem, field="settings")


def _problem(settings: Mapping[str, Any]) -> str | None:
    if "on_crash" in settings and settings["on_crash"] not in get_args(OnCrash):
        return f"`on_crash` must be one of {', '.join(get_args(OnCrash))}"
    stall = settings.get("stall_after_s", 1)
    if not isinstance(stall, int | float) or isinstance(stall, bool) or stall <= 0:
        return "`stall_after_s` must be a number above 0"
    return check_reset(settings["reset"]) if "reset" in settings else None
