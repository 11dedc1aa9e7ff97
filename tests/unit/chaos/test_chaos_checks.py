"""The checker finds what several owners could do wrong: a turn that is lost, doubled, told by two, or out of order."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.events import Entry
from antiphon.core.session import Session
from antiphon.core.step import Step
from antiphon.ports.store import Listed
from antiphon.testing.torture.checks import Told, check, read_store

Entries = list[Entry]
ACCEPTED: list[Told] = [
    {"kind": "accepted", "token": f"tok{name}z", "id": f"msg_{name}", "session": "s"} for name in "ab"
]


class Shelf:
    """As much of a store as the checker reads: one session and its journal."""

    def __init__(self, session: Session, entries: Sequence[Entry]) -> None:
        self._session = session
        self._entries = tuple(entries)

    async def sessions(self, query: Any, *, cursor: str | None, limit: int) -> Listed:
        return Listed(items=(self._session,))

    async def entries(self, session_id: str, *, after: int, limit: int) -> Sequence[Entry]:
        return self._entries[after : after + limit]


def lived() -> tuple[Session, Entries]:
    """A session that answered two messages, one after the other, by one agent."""
    step = Step(None, Given(now=1), session_id="ses_1")
    step.take(c.CreateSession(session_id="ses_1", agent="echo", key="s"))
    for name in "ab":
        step.take(c.SendMessage(message_id=f"msg_{name}", text=f"[[pid]] tok{name}z"))
    for name in "ab":
        step.take(c.StartTurn(turn_id=f"turn_{name}"))
        if name == "a":
            step.take(c.AgentOpened(run_id="run_1", generation=1, pid=7))
        for text in ("pid 7\n", f"echo: tok{name}z"):
            step.take(c.AgentSaid(turn_id=f"turn_{name}", said=e.TurnText(turn_id=f"turn_{name}", text=text)))
        step.take(c.AgentEnded(turn_id=f"turn_{name}"))
    step.seal()
    assert isinstance(step.session, Session)
    return step.session, list(step.entries)


async def findings(change: Callable[[Entries], Entries], told: Sequence[Told] = ()) -> list[str]:
    session, entries = lived()
    changed = [msgspec.structs.replace(entry, sequence=place) for place, entry in enumerate(change(entries), 1)]
    found = list[str]()
    kept = await read_store(Shelf(session, changed), found)  # pyright: ignore[reportArgumentType]
    return [*found, *check([*ACCEPTED, *told], kept)]


def of_turn(entries: Entries, turn_id: str) -> Entries:
    return [entry for entry in entries if entry.turn_id == turn_id]


def without_a_message(entries: Entries) -> Entries:
    """What was said to be accepted is nowhere."""
    return [entry for entry in entries if entry.message_id != "msg_b" and entry.turn_id != "turn_b"]


def late(entries: Entries) -> Entries:
    """The first turn's owner, frozen in the middle, speaks on when the second turn runs already."""
    first = next(entry for entry in entries if entry.type == "turn.text")
    place = next(n for n, entry in enumerate(entries) if entry.type == "turn.started" and entry.turn_id == "turn_b")
    return [*entries[: place + 1], first, *entries[place + 1 :]]


def voice_of_another(entries: Entries) -> Entries:
    """A piece of the second turn comes from the process of another host."""
    return [
        msgspec.structs.replace(entry, data={"text": "pid 8\n"})
        if entry.turn_id == "turn_b" and entry.data.get("text") == "pid 7\n"
        else entry
        for entry in entries
    ]


def started_beside(entries: Entries) -> Entries:
    """The second turn starts, by another owner, while the first still runs."""
    start = next(entry for entry in entries if entry.type == "turn.started" and entry.turn_id == "turn_b")
    place = next(n for n, entry in enumerate(entries) if entry.type == "turn.text")
    return [*entries[:place], start, *[entry for entry in entries[place:] if entry is not start]]


def reordered(entries: Entries) -> Entries:
    """The two turns change places."""
    place = next(n for n, entry in enumerate(entries) if entry.type == "turn.started")
    rest = [entry for entry in entries[place:] if entry.turn_id not in ("turn_a", "turn_b")]
    return [*entries[:place], *of_turn(entries, "turn_b"), *of_turn(entries, "turn_a"), *rest]


async def test_an_honest_journal_has_no_findings() -> None:
    assert await findings(lambda entries: entries) == []


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (without_a_message, "is lost (P2)"),
        (lambda entries: [entry for entry in entries if entry.turn_id != "turn_b"], "msg_b"),
        (lambda entries: [*entries, *of_turn(entries, "turn_a")], "turn_a"),
        (late, "of a turn that does not run"),
        (voice_of_another, "is told by process 8, and its agent is 7 (P1)"),
        (started_beside, "a turn started while"),
        (reordered, "(P7)"),
    ],
    ids=["lost message", "lost turn", "doubled turn", "late writer", "second voice", "second owner", "reordered"],
)
async def test_what_two_owners_could_do_is_found(change: Callable[[Entries], Entries], broken: str) -> None:
    assert any(broken in finding for finding in await findings(change))
