"""How much of a conversation a model is sent. No I/O.

The policy: the system prompt, the tools and the running turn are always sent, and before it as many of the last turns
as fit. Only whole turns are left out, the oldest first; and when one has to be, so many that a quarter of the room is
free again, so that it does not happen anew in every turn (and the provider's cache of the beginning stays good). A turn
that was left out stays out.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

BYTES_PER_TOKEN = 3
"""English has about four bytes a token, other scripts fewer: a third is on the safe side for most."""
TOKENS_PER_MESSAGE = 8
KEPT_SHARE = 0.75


def tokens(part: Any) -> int:
    """The size of a message, or of anything else that is sent, in tokens as they are estimated here."""
    match part:
        case {"role": _, "content": str(content)}:
            size = len(content.encode(errors="replace"))
            size += len(msgspec.json.encode(part["tool_calls"])) if "tool_calls" in part else 0
        case _:
            size = len(msgspec.json.encode(part))
    return TOKENS_PER_MESSAGE - (-size // BYTES_PER_TOKEN)


def left_out(past: Sequence[int], present: int, budget: int) -> int | None:
    """How many of the oldest turns have to be left out.

    Args:
        past: The sizes of the turns that are over and not left out yet, oldest first.
        present: The size of what must be sent: system prompt, tools and the running turn.
        budget: All that may be sent.

    Returns:
        None when not even `present` fits.
    """
    if present > budget:
        return None
    if present + sum(past) <= budget:
        return 0
    room = int(budget * KEPT_SHARE) - present
    kept = 0
    for size in reversed(past):
        if size > room:
            break
        room -= size
        kept += 1
    return len(past) - kept
