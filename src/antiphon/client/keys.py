"""The client's only source of chance: idempotency keys and the jitter of pauses."""

from os import urandom


def new_key() -> str:
    """An idempotency key that nobody else has: 128 random bits."""
    return urandom(16).hex()


def jitter() -> float:
    """A factor between 0.5 and 1, so that clients which were cut off together do not come back together."""
    return 0.5 + urandom(1)[0] / 510
