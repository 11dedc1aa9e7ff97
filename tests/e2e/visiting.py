"""A person's browser at a host."""

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from browser import WAIT_MS
from e2e.driver import Host

expect.set_options(timeout=WAIT_MS)


class Visit:
    """One person's browser at one host. Whatever a page complains of fails the test.

    Attributes:
        complaints: What was heard so far.
        tolerated: Parts of complaints that a test brings about.
    """

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

    @property
    def unexpected(self) -> list[str]:
        """The complaints that no test brought about."""
        return [text for text in self.complaints if not any(part in text for part in self.tolerated)]

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
        """A session, in a new page."""
        page = self.context.new_page()
        page.goto(self.link(ref))
        page.wait_for_selector(".session-head")
        return page
