"""`antiphon open`: the page, in a browser that is signed in."""

import os
import sys

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given


def open_(context: Context, given: Given) -> int:
    """Open the page with a link that signs the browser in; print it where there is no browser."""
    ref = given.optional("ref")
    with context.client() as client:
        session = client.session(ref) if ref else None
        link = client.sign_in_link()
    url = (context.url or context.local.address().url).rstrip("/") + link.path + (f"/{session.id}" if session else "")
    if context.out.as_json:
        context.out.document({"url": url, "expires_at": link.expires_at})
    elif given.flag("print") or not _opened(url):
        context.out.line(url)
        context.out.note("This link works once, within a minute.")
    else:
        context.out.note("Opened in your browser. If nothing shows there, use: antiphon open --print")
    return DONE


def _opened(url: str) -> bool:
    """Whether a browser took the link. One that would take over the terminal is not asked."""
    graphical = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not graphical and not os.environ.get("BROWSER"):
        return False
    import webbrowser  # noqa: PLC0415  only this command needs it

    return webbrowser.open(url)
