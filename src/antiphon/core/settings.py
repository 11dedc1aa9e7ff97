"""The settings of a session that antiphon itself goes by. An agent may have more; those are handed on as they are."""

from collections.abc import Mapping
from typing import Any, get_args

from antiphon.core.collecting import check_collecting
from antiphon.core.reset import check_reset
from antiphon.core.words import OnCrash


def unusable(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings of a session, for a person; None when they can be gone by.

    They must be looked at as they are after a patch: two patches, each good, can merge into something that is not.
    """
    on_crash, patience_s, reset = (settings.get(name) for name in ("on_crash", "stall_after_s", "reset"))
    if on_crash is not None and on_crash not in get_args(OnCrash):
        return f"`settings.on_crash` must be one of {', '.join(get_args(OnCrash))}."
    if patience_s is not None and not _is_positive(patience_s):
        return "`settings.stall_after_s` must be a number of seconds above 0."
    if flaw := check_collecting(settings):
        return flaw
    flaw = check_reset(reset) if reset is not None else None
    return f"{flaw}; null takes a field away." if flaw else None


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
