"""JSON merge patch (RFC 7396), by which writers of different fields never disturb each other."""

from typing import Any, cast


def merged(target: Any, patch: Any) -> Any:
    """`target` with `patch` merged in (RFC 7396 section 2): null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    result: dict[str, Any] = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
