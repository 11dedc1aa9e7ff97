"""A browser for the tests of a module, and pages in it that are signed in to a host of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from browser import WAIT_MS, running
from e2e.driver import Host


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The module's browser."""
    with running() as browser:
        yield browser


expect.set_options(timeout=WAIT_MS)


class Visit:
    """One person's browser at one host. Whatever a page complains of fails the test."""

    def __init__(self, host: Host, context: BrowserContext) -> None:
        self.host, self.context = host, context
        self.complaints: list[str] = []
        self.tolerated: tuple[str, ...] = ()
        context.set_default_timeout(WAIT_MS)
        context.on("weberror", lambda told: self.complaints.append(str(told.error)))
        context.on("console", self._hear)

    def _hear(self, told: ConsoleMessage) -> None:
        if told.type == "error":
            self.complaints.append(told.text)

    def link(self, *args: str) -> str:
        """A new sign-in link."""
        done = self.host.cli("open", "--print", *args)
        assert done.code == 0, done.err
        return done.out.strip()

    def board(self) -> Page:
        """The board, signed in."""
        page = self.context.new_page()
        page.goto(self.link())
        page.wait_for_selector(".groups")
        return page

    def session(self, ref: str) -> Page:
        """A session, in a new page of a browser that is signed in by now."""
        page = self.context.new_page()
        page.goto(self.link(ref))
        page.wait_for_selector(".session-head")
        return page


@pytest.fixture
def visits(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Makes visits; at the end nothing may have gone wrong in any page of them."""
    made: list[Visit] = []

    def visit(host: Host, **options: Any) -> Visit:
        made.append(Visit(host, browser.new_context(**options)))
        return made[-1]

    yield visit
    for each in made:
        each.context.close()
    complaints = [text for each in made for text in each.complaints if not any(part in text for part in each.tolerated)]
    assert complaints == []


@pytest.fixture
def visit(host: Host, visits: Callable[..., Visit]) -> Visit:
    """One visit to the test's host."""
    return visits(host, viewport={"width": 1280, "height": 800})
