"""A real host for the views, and the views in a terminal of memory."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from antiphon.client import AsyncClient, Client
from antiphon.terminal.app import Terminal
from antiphon.terminal.reading import PACE
from antiphon.terminal.seen import Seen
from antiphon.terminal.session import SessionScreen
from clientlab.running import Installation

SIZE = (110, 40)


@pytest.fixture(scope="module")
def host(antiphon_command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A host that the tests of a module share; none of them ends it."""
    installation = Installation(antiphon_command, tmp_path_factory.mktemp("host"))
    try:
        yield installation.serve()
    finally:
        installation.close()


@pytest.fixture
def alone(antiphon_command: str, tmp_path: Path) -> Iterator[Installation]:
    """A host of a test's own."""
    installation = Installation(antiphon_command, tmp_path)
    try:
        yield installation.serve()
    finally:
        installation.close()


@pytest.fixture
def client(host: Installation) -> Iterator[Client]:
    """A client of the shared host."""
    ready = host.ready()
    with Client(ready["url"], ready["token"]) as one:
        yield one


class View:
    """A view that is being looked at."""

    def __init__(self, app: Terminal, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    @property
    def session(self) -> SessionScreen:
        """The session's view, which must be the one on top."""
        assert isinstance(self.app.screen, SessionScreen)
        return self.app.screen

    async def shows(self, *words: str) -> None:
        """Wait until all these words stand on the screen."""
        await self.until(lambda: all(word in self.text for word in words), f"{words} on the screen")

    async def until(self, question: Callable[[], Any], what: str, seconds: float = 30) -> None:
        """Wait until the answer is truthy."""
        try:
            async with asyncio.timeout(seconds):
                while not question():  # noqa: ASYNC110  the screen is looked at, as a person would
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"no {what} within {seconds} s, but:\n{self.text}") from None

    async def type(self, text: str) -> None:
        """Press the keys of a text, then Enter."""
        names = {" ": "space", "[": "left_square_bracket", "]": "right_square_bracket"}
        await self.pilot.press(*[names.get(char, char) for char in text], "enter")


Open = Callable[..., "contextlib.AbstractAsyncContextManager[View]"]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """How to open a view of an installation's host: `opened(host, ref="key")`."""

    @contextlib.asynccontextmanager
    async def opening(host: Installation, *, size: tuple[int, int] = SIZE, **settings: Any) -> AsyncGenerator[View]:
        async with await AsyncClient.local(host.data, start=False, pace=PACE) as one:
            app = Terminal(one, Seen("epoch", tmp_path / "seen"), **settings)
            async with app.run_test(size=size, notifications=True) as pilot:
                yield View(app, pilot)

    return opening
