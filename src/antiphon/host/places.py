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
    """At most `limit` guests hold a place. Those who wait are served in the order in which they asked.

    Who has used its place once makes room for those who wait, and goes to the end of their line: a session with a long
    queue holds up the others for one turn at a time.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._holders: OrderedDict[Guest, None] = OrderedDict()
        self._waiting: OrderedDict[Guest, None] = OrderedDict()
        self._used: set[Guest] = set()

    @property
    def taken(self) -> int:
        """How many places are held."""
        return len(self._holders)

    def take(self, guest: Guest) -> bool:
        """Use a place now, or stand in line for one and be woken. Asking again keeps one's place in line.

        A guest that is refused although it holds a place must `vacate` it once its agent is gone, for which it was
        asked to let it go.
        """
        if guest in self._holders:
            return self._use_again(guest)
        free = self.limit - len(self._holders)
        ahead = next((index for index, other in enumerate(self._waiting) if other is guest), len(self._waiting))
        if ahead < free:
            self._waiting.pop(guest, None)
            self._holders[guest] = None
            self._used.add(guest)
            return True
        self._waiting[guest] = None
        self.make_room()
        return False

    def _use_again(self, guest: Guest) -> bool:
        if guest in self._used and self._wanted_by_others(guest):
            if guest not in self._waiting:
                self._waiting[guest] = None
                guest.let_go()
            return False
        self._waiting.pop(guest, None)
        self._holders.move_to_end(guest)
        self._used.add(guest)
        return True

    def _wanted_by_others(self, guest: Guest) -> bool:
        """Whether more others wait than there are places free, or about to be."""
        others = sum(1 for other in self._waiting if other is not guest)
        if not others:
            return False
        leaving = sum(1 for holder in self._holders if holder.idle)
        return others > self.limit - len(self._holders) + leaving

    def vacate(self, guest: Guest) -> None:
        """Leave the place that one holds to those who wait, and go on waiting. Idempotent."""
        self._used.discard(guest)
        if guest in self._holders:
            del self._holders[guest]
            self._call()

    def waits(self, guest: Guest) -> bool:
        """Whether this guest stands in line."""
        return guest in self._waiting

    def give_back(self, guest: Guest) -> None:
        """Hold no place and wait for none. Whoever is next in line is woken. Idempotent.

        Also one who leaves the line without a place may have stood before another for whom there is one.
        """
        self._used.discard(guest)
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
