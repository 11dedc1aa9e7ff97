"""A prompt as one message of a chat."""

from collections.abc import Iterator
from pathlib import Path

from antiphon.agents.prompts import as_text
from antiphon.ports.agent import Part

FILE_MAX = 1 << 20
"""Bytes of a file that is told whole."""


def as_content(parts: tuple[Part, ...]) -> str:
    """The texts, the paths of the files, and what stands in those that are texts: a model can't look for itself."""
    return "\n\n".join([as_text(parts), *filter(None, _contents(parts))])


def _contents(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if part.path is not None and (text := _text(Path(part.path))) is not None:
            yield f"{part.path} holds:\n\n{text}"


def _text(path: Path) -> str | None:
    """What stands in a file; None where it is no text of a size that can be told, or can't be read."""
    try:
        if path.stat().st_size > FILE_MAX:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text
