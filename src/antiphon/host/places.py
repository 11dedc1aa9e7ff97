"""Places for agents: how many may be open at once, who has one, who waits for one."""

from collections import OrderedDict
from typing import Protocol


class Guest(Protocol):
    """What takes a place: a session's actor."""

    @property
    def idle(self) -> bool:
        """Whether its agent could be let go now."""
        ...

    def wake(self) -> None:
        """Called when a place may have become free for it."""
        ...

    def let_go(self) -> None:
        """Called when its idle agent has to make room; it gives its place back once the agent is gone."""
        ...


class Places:
    """At most `limit` guests hold a place. Those who wait are served in the order in which they asked."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._holders: OrderedDict[Guest, None] = OrderedDict()
        self._waiting: OrderedDict[Guest, None] = OrderedDict()

    @property
    def taken(self) -> int:
        """How many places are held."""
        return len(self._holders)

    def take(self, guest: Guest) -> bool:
        """Hold a place from now on, or stand in line for one and be woken. Asking again keeps one's place in line."""
        if guest in self._holders:
            self._holders.move_to_end(guest)
            return True
        free = self.limit - len(self._holders)
        ahead = next((index for index, other in enumerate(self._waiting) if other is guest), len(self._waiting))
        if ahead < free:
            self._waiting.pop(guest, None)
            self._holders[guest] = None
            return True
        self._waiting[guest] = None
        self.make_room()
        return False

    def waits(self, guest: Guest) -> bool:
        """Whether this guest stands in line."""
        return guest in self._waiting

    def give_back(self, guest: Guest) -> None:
        """Hold no place and wait for none. Whoever is next in line is woken. Idempotent.

        Also one who leaves the line without a place may have stood before another for whom there is one.
        """
        left = self._waiting.pop(guest, self) is None
        if self._holders.pop(guest, self) is None or left:
            self._call()

    def make_room(self) -> None:
        """Ask the guests that have been idle longest to let their agents go, one for each that waits."""
        wanted = len(self._waiting) - (self.limit - len(self._holders))
        for guest in list(self._holders):
            if wanted <= 0:
                return
            if guest.idle:
                guest.let_go()
                wanted -= 1

    def _call(self) -> None:
        free = self.limit - len(self._holders)
        for guest in list(self._waiting)[:free]:
            guest.wake()
