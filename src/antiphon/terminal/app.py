"""The program behind `antiphon board` and `antiphon session attach`."""

import asyncio
import signal

from textual.app import App
from textual.binding import Binding
from textual.screen import Screen

from antiphon.client import AsyncClient
from antiphon.terminal.board import BoardScreen
from antiphon.terminal.seen import Seen
from antiphon.terminal.session import SessionScreen

_LEAVE_AT = (signal.SIGTERM, signal.SIGHUP)


class Terminal(App[None]):
    """The board, or one session where a `ref` is given. Leaving ends the looking on and nothing else."""

    TITLE = "antiphon"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("ctrl+q", "quit", "Leave", priority=True), Binding("ctrl+c", "quit", show=False)]
    CSS = """
    #head { height: 1; padding: 0 1; background: $panel; }
    #trouble { height: auto; padding: 0 1; background: $warning; color: $text; text-style: bold; }
    #transcript { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    #questions { height: auto; max-height: 40%; }
    .asked { height: auto; border: round $warning; padding: 0 1; }
    .asked Horizontal { height: auto; }
    .asked Button { margin: 0 2 0 0; }
    #queue { height: auto; max-height: 7; border: round $secondary; padding: 0 1; }
    #prompt { height: auto; min-height: 3; max-height: 12; border: round $primary; }
    #filter { height: 1; }
    #sessions { height: 1fr; }
    .said { margin: 1 0 0 0; text-style: bold; }
    .note, .foot { color: $text-muted; }
    RunView { height: auto; }
    RunView Markdown { margin: 0; padding: 0; }
    Fold { height: auto; }
    Fold:focus { background: $boost; }
    """

    def __init__(
        self, client: AsyncClient, seen: Seen, *, ref: str | None = None, mode: str | None = None, wanted: str = ""
    ) -> None:
        super().__init__()
        self._client, self._seen = client, seen
        self._ref, self._mode, self._wanted = ref, mode, wanted

    def get_default_screen(self) -> Screen[None]:
        """The board, which is also below a session that was attached to."""
        return BoardScreen(self._client, self._seen, self._open, wanted=self._wanted)

    def on_mount(self) -> None:
        """Show the session that was asked for; leave in good order when told to end."""
        loop = asyncio.get_running_loop()
        for number in _LEAVE_AT:
            loop.add_signal_handler(number, self.exit, None, 128 + number)
        if self._ref is not None:
            self._open(self._ref)

    def on_unmount(self) -> None:
        """Keep what was seen."""
        loop = asyncio.get_running_loop()
        for number in _LEAVE_AT:
            loop.remove_signal_handler(number)
        self._seen.keep()

    def _open(self, ref: str) -> None:
        self.push_screen(SessionScreen(self._client, ref, self._seen, mode=self._mode))


async def show(client: AsyncClient, *, ref: str | None = None, mode: str | None = None, wanted: str = "") -> int:
    """Draw on the terminal until the person leaves, and return the exit code.

    Raises:
        ClientError: The host does not answer now, at the beginning; later that is told on the screen.
    """
    async with client:
        seen = Seen((await client.status()).epoch)
        app = Terminal(client, seen, ref=ref, mode=mode, wanted=wanted)
        await app.run_async()
        return app.return_code or 0
