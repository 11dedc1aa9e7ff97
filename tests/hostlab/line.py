"""A host's way to its store, with what a test puts between them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from antiphon.core import commands as c
from antiphon.core.decide import Given, Refused
from antiphon.core.session import Message, Session, Turn
from antiphon.core.step import Step
from antiphon.ports.store import Commit, SequenceMoved, Store
from antiphon.system import SystemClock

Meeting = Callable[[Commit], Awaitable[None]]


class Line:
    """The store as a host meets it.

    Attributes:
        store: What is behind it.
        before, after: Called before and after each commit; what they raise the host is told.
        commits: What was committed.
        moved: How often a commit met another writer's.
        cut: Whether the host is dead: nothing goes through any more.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.before: Meeting | None = None
        self.after: Meeting | None = None
        self.commits: list[Commit] = []
        self.moved = 0
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def commit(self, commit: Commit) -> None:
        if self.before:
            await self.before(commit)
        if self.cut:
            raise asyncio.CancelledError
        try:
            await self.store.commit(commit)
        except SequenceMoved:
            self.moved += 1
            raise
        self.commits.append(commit)
        if self.after:
            await self.after(commit)


async def write_beside(store: Store, session_id: str, *commands: c.Command) -> Session:
    """Commit commands as another writer of the session does, by a step of its own; the session after it."""
    while True:
        session = await store.load(session_id)
        assert session is not None, f"{session_id} is not there"
        step = Step(session, Given(now=SystemClock().now()), session_id=session_id)
        for command in commands:
            assert not isinstance(step.take(command), Refused)
        step.seal()
        assert step.session is not None
        try:
            await store.commit(
                Commit(
                    session=step.session,
                    expected=session.sequence,
                    entries=tuple(step.entries),
                    messages=tuple(record for record in step.records.values() if isinstance(record, Message)),
                    turns=tuple(record for record in step.records.values() if isinstance(record, Turn)),
                )
            )
        except SequenceMoved:
            continue
        return step.session
