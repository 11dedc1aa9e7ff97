"""The settings of a session that antiphon itself goes by. An agent may have more; those are handed on as they are."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from antiphon.core.collecting import check_collecting
from antiphon.core.reset import check_reset
from antiphon.core.words import OnCrash

PATIENCES = ("stall_after_s", "busy_stall_after_s")
LIMITS = ("end_stalled_after_s", "permission_deadline_s")
"""Of which 0 stands for none."""


def unusable(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings of a session, for a person; None when they can be gone by.

    They must be looked at as they are after a patch: two patches, each good, can merge into something that is not.
    """
    on_crash, reset = settings.get("on_crash"), settings.get("reset")
    if on_crash is not None and on_crash not in get_args(OnCrash):
        return f"`settings.on_crash` must be one of {', '.join(get_args(OnCrash))}."
    for name in PATIENCES:
        if settings.get(name) is not None and not _is_positive(settings[name]):
            return f"`settings.{name}` must be a number of seconds above 0."
    for name in LIMITS:
        if settings.get(name) not in (None, 0) and not _is_positive(settings[name]):
            return f"`settings.{name}` must be a number of seconds, or 0 for ever."
    if flaw := _check_permissions(settings):
        return flaw
    if flaw := check_collecting(settings):
        return flaw
    flaw = check_reset(reset) if reset is not None else None
    return f"{flaw}; null takes a field away." if flaw else None


def _check_permissions(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings that say how questions are answered without a person."""
    if settings.get("permission_default") not in (None, "allow", "deny"):
        return "`settings.permission_default` must be allow or deny."
    for name in ("allow_tools", "deny_tools"):
        if settings.get(name) is not None and not _is_texts(settings[name]):
            return f'`settings.{name}` must be a list of names of tools, such as ["Read", "mcp__files__*"].'
    return None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("list[Any]", value))


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
