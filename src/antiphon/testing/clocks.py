"""Clocks for tests."""


class CountingClock:
    """Time that passes a millisecond at each look, from the same start: nothing in it depends on the machine.

    Nobody sleeps by it.
    """

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._now = start

    def now(self) -> int:
        """A millisecond later than the last time."""
        self._now += 1
        return self._now

    def monotonic(self) -> float:
        """A millisecond later than the last time, in seconds."""
        return self.now() / 1000

    async def sleep(self, seconds: float) -> None:
        """Not to be called."""
        raise AssertionError(f"nobody sleeps by this clock, not {seconds} s")
