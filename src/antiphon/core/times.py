"""How times are written: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 UTC with milliseconds."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """A second since the epoch; what is told together is mostly of the same few."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
