"""How times are written: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime


def rfc3339(ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 UTC with milliseconds."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03d}Z"
