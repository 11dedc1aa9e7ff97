"""Where a driver reports to, for as long as its agent is the session's."""

from typing import Protocol

from antiphon.core import commands as c
from antiphon.core.session import Session
from antiphon.host.driver import Desk
from antiphon.ports.store import NewText


class Actor(Protocol):
    """The session's actor, as far as an agent has to do with it."""

    session: Session | None

    @property
    def crowded(self) -> bool:
        """Whether so much lies undecided that more is better told later."""
        ...

    async def room(self) -> None:
        """Wait until there is less of it."""
        ...

    def tell(self, command: c.Command) -> None:
        """Take what an agent said, or what became of it."""
        ...

    def speak(self, turn_id: str, text: str) -> bool:
        """Take a piece of text that an agent said; whether there is room for more."""
        ...

    def written(self, message_id: str) -> NewText | None:
        """What a person wrote, where it is at hand."""
        ...

    def wake(self) -> None:
        """Look again."""
        ...


class SessionDesk(Desk):
    """A session's desk for one driver. Once it is `cut`, nothing that its agent says is heard."""

    def __init__(self, actor: Actor) -> None:
        self.cut = False
        self._actor = actor

    async def report(self, command: c.Command) -> None:
        """See `Desk.report`."""
        if self._actor.crowded:
            await self._actor.room()
        self.tell(command)

    def speak(self, turn_id: str, text: str) -> bool:
        """See `Desk.speak`."""
        return self.cut or self._actor.speak(turn_id, text)

    async def room(self) -> None:
        """See `Desk.room`."""
        await self._actor.room()

    def tell(self, command: c.Command) -> None:
        """See `Desk.tell`."""
        if not self.cut:
            self._actor.tell(command)

    @property
    def session(self) -> Session | None:
        """See `Desk.session`."""
        return self._actor.session

    def written(self, message_id: str) -> NewText | None:
        """See `Desk.written`."""
        return self._actor.written(message_id)

    def wake(self) -> None:
        """See `Desk.wake`."""
        self._actor.wake()
