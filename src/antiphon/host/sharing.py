"""What many viewers are told alike is made once."""

from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Made = TypeVar("Made")


class Shared(Generic[Thing, Made]):
    """Makes something of a thing, and gives the same again to whoever asks for it with that very thing soon after.

    Viewers of a session that keep up are woken together and told the same entries, so the last few are enough.
    """

    def __init__(self, make: Callable[[Thing], Made], *, keeps: Callable[[Made], bool], limit: int = 512) -> None:
        """Make by `make`; keep the last `limit` of those that `keeps` holds for, which bounds the memory."""
        self._make, self._keeps, self._limit = make, keeps, limit
        self._made: dict[int, tuple[Thing, Made]] = {}

    def __call__(self, thing: Thing) -> Made:
        """What is made of this thing."""
        known = self._made.get(id(thing))
        if known is not None:  # a thing that is kept is alive, so no other has its id
            return known[1]
        made = self._make(thing)
        if self._keeps(made):
            self._made[id(thing)] = thing, made
            if len(self._made) > self._limit:
                del self._made[next(iter(self._made))]
        return made
