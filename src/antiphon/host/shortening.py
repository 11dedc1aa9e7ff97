"""What an agent is given of a message when more were collected than one turn answers in full."""

from collections.abc import Mapping, Sequence
from typing import Any

BEGINNING_MAX = 200
"""Characters of a text that are given in any case."""


def shortened(text: str, files: Sequence[Mapping[str, Any]]) -> str:
    """The beginning of a message, with what was left out told to the agent."""
    left_out = [f"{len(text) - BEGINNING_MAX} more characters"] if len(text) > BEGINNING_MAX else []
    left_out += [f"{len(files)} file{'s' if len(files) > 1 else ''}"] if files else []
    if not left_out:
        return text
    return f"{text[:BEGINNING_MAX]}… [left out, as many messages came at once: {' and '.join(left_out)}]"
