"""What came of one thing that was tried."""

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """One thing that was tried: `state` is `ok`, `failed`, or `skipped` where the agent can't be made to do it."""

    step: str
    state: str
    detail: str = ""
