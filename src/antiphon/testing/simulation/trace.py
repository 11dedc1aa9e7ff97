"""What happened, line by line: equal for equal seeds, to the last character."""

import hashlib
from typing import Any

from antiphon.testing.simulation.loop import VirtualLoop


class Trace:
    """The notes of one simulation, in the order in which things happened."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._notes: list[tuple[float, str, tuple[Any, ...]]] = []

    def note(self, what: str, *about: Any) -> None:
        """Write down what just happened."""
        self._notes.append((self._loop.seconds, what, about))

    def lines(self) -> list[str]:
        """Every note as a line of text."""
        return [f"{at:9.4f} {what} {' '.join(_short(item) for item in about)}" for at, what, about in self._notes]

    def digest(self) -> str:
        """A hash of all lines: two simulations with the same one went the same way."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()


def _short(item: Any) -> str:
    """Ids are counted up: their zeros say nothing."""
    text = str(item)
    prefix, _, number = text.partition("_")
    return f"{prefix}_{number.lstrip('0')}" if len(number) == 32 else text
