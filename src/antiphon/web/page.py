"""The page at `/` and what it loads: files of this package, built from `web/` when antiphon is built."""

import hashlib
from functools import cache
from importlib.resources import files

import msgspec

MEDIA_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, nothing from elsewhere, and no text ever becomes markup: no script may even make it so."""


class File(msgspec.Struct, frozen=True):
    """Something the page is made of."""

    content: bytes
    media_type: str
    tag: str


@cache
def built() -> bool:
    """Whether this installation has the page, and not only a word about how to build it."""
    return files("antiphon.web").joinpath("built", "index.html").is_file()


@cache
def index() -> File:
    """The page as HTML."""
    name = ("built", "index.html") if built() else ("unbuilt.html",)
    return _file(files("antiphon.web").joinpath(*name).read_bytes(), "text/html")


@cache
def assets() -> dict[str, File]:
    """What the page loads, by name."""
    folder = files("antiphon.web").joinpath("built", "assets")
    if not built():
        return {}
    kinds = ((entry, MEDIA_TYPES.get(entry.name.rpartition(".")[2])) for entry in folder.iterdir())
    return {entry.name: _file(entry.read_bytes(), kind) for entry, kind in kinds if kind}


def _file(content: bytes, media_type: str) -> File:
    return File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
