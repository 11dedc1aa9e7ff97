"""Debian's Chromium, driven by Playwright. Nothing is downloaded: the program is the one of this machine."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WAIT_MS = 30_000


def program() -> str | None:
    """The browser to drive: $ANTIPHON_TEST_BROWSER, else one that is found; None where there is none."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    return os.environ.get("ANTIPHON_TEST_BROWSER") or found


@contextmanager
def running() -> Generator[Browser]:
    """A browser, closed in the end. While it runs, this thread can run no event loop of its own."""
    path = program()
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()
