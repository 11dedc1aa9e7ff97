"""The page at `/`, a file of this package."""

from functools import cache
from importlib.resources import files


@cache
def index() -> str:
    """The page as HTML. It needs nothing from anywhere."""
    return files("antiphon.web").joinpath("index.html").read_text("utf-8")
