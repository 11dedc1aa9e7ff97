"""A prompt as one text, for agents that take nothing else."""

from antiphon.ports.agent import Part


def as_text(parts: tuple[Part, ...]) -> str:
    """The texts, with a blank line between two of them, and then the paths of the files, a line each."""
    text = "\n\n".join(part.text for part in parts if part.path is None or part.text)
    return "\n".join([*([text] if text else []), *(part.path for part in parts if part.path is not None)])
