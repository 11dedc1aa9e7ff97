"""How far a copy is, as its target keeps it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.store.copy.places import CannotCopy, Place
from antiphon.store.identity import UNFINISHED

DAMAGE_TOLD = 100
"""Of so many damaged rows it is kept which they are; of more, how many."""


class Progress(msgspec.Struct, kw_only=True):
    """What of which store has been copied. It changes in the transactions that copy, and so tells the truth.

    Attributes:
        epoch: The epoch of the source.
        moves: The numbers by which it is noticed that the source has changed since the copy was begun.
        done: The parts that are copied.
        after: The key of the last row of the part that is being copied; empty before the first.
        rows: How many rows were copied, by table.
        position: The last position that was given in the feed.
        damage: Rows that can't be read, in words.
        damaged: How many there are.
        resumed: Whether the copy was cut short before.
    """

    epoch: str
    moves: tuple[int, ...]
    done: list[str] = []
    after: list[Any] = []
    rows: dict[str, int] = {}
    position: int = 0
    damage: list[str] = []
    damaged: int = 0
    resumed: bool = False

    def note_damage(self, what: str) -> None:
        """Count a row that can't be read."""
        self.damaged += 1
        if len(self.damage) < DAMAGE_TOLD:
            self.damage.append(what)

    def count(self, table: str, rows: Sequence[Any]) -> None:
        """Count rows that were copied."""
        self.rows[table] = self.rows.get(table, 0) + len(rows)

    async def save(self, target: Place) -> None:
        """Write it down; within the transaction that copies what it tells."""
        await keep(target, UNFINISHED, msgspec.json.encode(self).decode())


def read_progress(text: str) -> Progress:
    """What a target says of its copy.

    Raises:
        CannotCopy: It is of another antiphon.
    """
    try:
        return msgspec.json.decode(text, type=Progress)
    except msgspec.MsgspecError as error:
        raise CannotCopy("The target holds an unfinished copy that this antiphon can't go on with.") from error


async def keep(target: Place, name: str, value: str) -> None:
    """Write a row of `meta`; within a transaction."""
    await target.fetch(
        "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value,
    )
