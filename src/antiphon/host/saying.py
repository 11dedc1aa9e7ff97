"""What agents say, as the commands and events of the core."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from antiphon.core import events as e
from antiphon.ports import agent as port

PIECE_MAX = 64 * 1024
"""Characters of one `turn.text`: longer pieces are told in several."""


@contextlib.asynccontextmanager
async def listening(agent: port.RunningAgent) -> AsyncGenerator[AsyncIterator[port.Said], None]:
    """What an agent says. A generator comes to its end here, not whenever it is collected."""
    everything = agent.said()
    try:
        yield everything
    finally:
        if isinstance(everything, AsyncGenerator):
            await everything.aclose()


def pieces(text: str) -> Sequence[str]:
    """A text in pieces that an event may hold."""
    if len(text) <= PIECE_MAX:
        return (text,) if text else ()
    return [text[start : start + PIECE_MAX] for start in range(0, len(text), PIECE_MAX)]


_SAID: dict[type[port.Said], Callable[..., e.Event]] = {
    port.Thought: e.TurnThought,
    port.ToolStarted: e.TurnToolStarted,
    port.ToolEnded: e.TurnToolEnded,
    port.Used: e.TurnUsage,
}


def event_of(said: port.Said) -> e.TurnThought | e.TurnToolStarted | e.TurnToolEnded | e.TurnUsage | None:
    """The event that says the same as the agent did."""
    kind = _SAID.get(type(said))
    fields = {name: getattr(said, name) for name in said.__struct_fields__}
    return kind(**fields) if kind else None  # pyright: ignore[reportReturnType]
