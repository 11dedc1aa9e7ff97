"""A browser for the tests of a module, and pages in it that are signed in to a host of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from browser import running
from e2e.driver import Host
from e2e.visiting import Visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The module's browser."""
    with running() as browser:
        yield browser


@pytest.fixture
def host(quiet_host: Host) -> Iterator[Host]:
    """A host that serves. It is killed in the end, for what still runs then need not be waited for."""
    yield quiet_host.start()
    if quiet_host.process and quiet_host.process.poll() is None:
        quiet_host.kill()


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
    assert [text for each in made for text in each.unexpected] == []


@pytest.fixture
def visit(host: Host, visits: Callable[..., Visit]) -> Visit:
    """One visit to the test's host."""
    return visits(host, viewport={"width": 1280, "height": 800})
