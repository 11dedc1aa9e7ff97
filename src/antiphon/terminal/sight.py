"""What others wrote, made fit for the eye: control characters are shown as escapes, markup is text, HTML is text."""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual.content import Content

from antiphon.cli.output import in_a_row, visible

__all__ = ["in_a_row", "markdown_parser", "plain", "row", "source"]


def plain(text: str, style: str = "") -> Content:
    """Text of several lines as it is. Square brackets are square brackets."""
    return Content.styled(visible(_lines(text)), style) if style else Content(visible(_lines(text)))


def row(text: str, style: str = "") -> Content:
    """Text on one line."""
    return Content.styled(in_a_row(text), style) if style else Content(in_a_row(text))


def source(text: str) -> str:
    """Markdown without control characters; what an entity such as `&#x202e;` hides is caught by the parser below."""
    return visible(_lines(text))


def markdown_parser() -> MarkdownIt:
    """A parser that takes HTML for text, and whose tokens hold no control characters, however they were written."""
    parser = MarkdownIt("gfm-like", {"html": False})
    parser.core.ruler.push("visible", _make_visible)
    return parser


def _make_visible(state: StateCore) -> None:
    for token in state.tokens:
        _clean(token)


def _clean(token: Token) -> None:
    token.content = visible(token.content)
    token.info = visible(token.info)
    token.attrs = {name: visible(value) if isinstance(value, str) else value for name, value in token.attrs.items()}
    for child in token.children or ():
        _clean(child)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
