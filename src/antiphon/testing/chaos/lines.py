"""The way of one host to one server of the database, which several faults may stop at a time."""

from antiphon.testing.cut_line import CutLine


class Way:
    """A line, and why it does not work just now: it works again once every reason is gone."""

    def __init__(self, line: CutLine) -> None:
        self.line = line
        self._shut: set[str] = set()
        self._silent: set[str] = set()

    def shut(self, why: str) -> None:
        """Cut it, and refuse connections."""
        self._shut.add(why)
        self.line.shut()

    def silence(self, why: str) -> None:
        """Let nothing through, and tell nobody."""
        self._silent.add(why)
        self.line.hold()

    async def mend(self, why: str, *, deliver: bool = False) -> None:
        """Take a reason away. `deliver`: what was held arrives late; otherwise what was silent is cut."""
        silent = why in self._silent
        self._shut.discard(why)
        self._silent.discard(why)
        if silent and not deliver:
            self.line.cut()
        if not self._silent:
            self.line.let_go()
        if not self._shut:
            await self.line.open()

    def deafen(self, *, deaf: bool) -> None:
        """Swallow what the server says; in the end the connections that missed something are cut."""
        self.line.deaf = deaf
        if not deaf:
            self.line.cut()
