"""Whether a program that says nothing does anything."""

from typing import Protocol

import msgspec


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What a process and everything below it were found to do.

    Attributes:
        cpu_s: Seconds of processor time that they have used, with that of children which have ended.
        ages_s: How long each process below it has been running, in seconds.
        stopped: Whether the process itself is stopped, by a signal or a debugger.
    """

    cpu_s: float
    ages_s: tuple[float, ...] = ()
    stopped: bool = False


class Vitals(Protocol):
    """The process table."""

    def look(self, pid: int) -> Signs | None:
        """What a process does; None when it is gone, or cannot be looked at here. Returns at once."""
        ...
