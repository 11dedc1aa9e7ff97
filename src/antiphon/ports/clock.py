"""Time."""

from typing import Protocol


class Clock(Protocol):
    """Where time comes from. Nothing else in antiphon asks the machine what time it is."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC. It may jump; nothing may be paired or ordered by it."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much monotonic time pass. Cancellable at any point."""
        ...
