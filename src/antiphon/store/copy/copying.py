"""The copy itself."""

# ruff: noqa: S608  # what is put into SQL is ours

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from antiphon.core.errors import StoreUnavailable
from antiphon.store.copy.comparing import Compared, compared, held
from antiphon.store.copy.parts import (
    ALL_TABLES,
    ENTRY_COLUMNS,
    FEED_COLUMNS,
    MOVES,
    OCCUPIED,
    PARTS,
    Part,
    along_the_feed,
)
from antiphon.store.copy.places import CannotCopy, Place, Row, opened
from antiphon.store.copy.progress import Progress, keep, read_progress
from antiphon.store.identity import COPIED, FEED, UNFINISHED, Identity
from antiphon.store.sql.rows import UNREADABLE

BATCH_ROWS = 2000
BATCH_BYTES = 4 << 20
TELL_S = 2.0
"""After so long something is said of a part that is being copied."""

Told = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a copy.

    Attributes:
        epoch: The journal's name, which both stores have now.
        rows, digests: What the target holds, by table.
        damaged: How many rows of the source no host could read; `damage` says which the first of them are.
        differences: In what the target is not as the source, in words; then it is not finished.
        resumed: Whether it went on with a copy that had been cut short.
        already: Whether it had been finished before, and was only compared.
    """

    epoch: str
    rows: dict[str, int]
    digests: dict[str, str]
    damaged: int = 0
    damage: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    resumed: bool = False
    already: bool = False


async def copied(source: str, target: str, told: Told) -> Outcome:
    """Copy a store, or go on with a copy that was cut short.

    Args:
        source: A data directory or a `postgresql://` address.
        target: The same; what is there must be empty, or an unfinished copy of this very source.
        told: Hears of the progress, in lines for a person.

    Raises:
        CannotCopy: There is nothing to copy, or the target holds something else. Nothing was changed.
        StoreUnavailable: One of them is in use, or failed, or the source changed meanwhile. What is copied is kept.
        StoreDamaged: One of them can't be read.
    """
    async with opened(source, is_source=True) as here, opened(target, is_source=False) as there:
        return await _Copy(here, there, told).run()


class _Copy:
    """One copy, from its beginning or from where it stopped."""

    def __init__(self, source: Place, target: Place, told: Told) -> None:
        self._source = source
        self._target = target
        self._told = told
        self._identity = Identity.read(source.meta, "The store to copy from")
        self._progress: Progress
        self._told_at = 0.0

    async def run(self) -> Outcome:
        async with self._source.looking():
            moves = await self._moves()
            if already := await self._finished_before():
                return already
            await self._begin(moves)
            for part in (*PARTS[:1], along_the_feed(self._source.feed), *PARTS[1:]):
                if part.name not in self._progress.done:
                    await self._copy(part)
            found = await self._compare()
        if await self._moves() != moves:
            raise StoreUnavailable("The source was changed while it was copied: something else writes to it.")
        if found.differences:
            self._progress.moves = ()  # the next attempt begins anew
            async with self._target.writing():
                await self._progress.save(self._target)
        else:
            await self._finish()
        return self._outcome(found)

    async def _moves(self) -> tuple[int, ...]:
        return tuple(int(number) for number in (await self._source.fetch(MOVES))[0])

    # Its beginning

    async def _finished_before(self) -> Outcome | None:
        """The outcome of a copy of this source that is finished, and has not been used since."""
        if self._target.meta.get(COPIED) != self._identity.epoch or not await self._target.fetch(OCCUPIED):
            return None
        self._told("comparing with the copy that is there")
        async with self._target.looking():
            found = await compared(self._source, self._target)
        if found.differences:
            raise CannotCopy("The target is a finished copy of this store, and one of them has been used since then.")
        return Outcome(epoch=self._identity.epoch, rows=found.rows, digests=found.digests, already=True)

    async def _begin(self, moves: tuple[int, ...]) -> None:
        kept = self._target.meta.get(UNFINISHED)
        if kept is None:
            if await self._target.fetch(OCCUPIED):
                raise CannotCopy("The target holds a store already. Nothing was changed.")
            return await self._anew(moves)
        progress = read_progress(kept)
        if progress.epoch != self._identity.epoch:
            raise CannotCopy("The target holds an unfinished copy of another store. Nothing was changed.")
        if progress.moves != moves:
            self._told("the source has changed since the copy was begun: beginning anew")
            return await self._anew(moves)
        self._told("going on with a copy that was cut short")
        progress.resumed = True
        self._progress = progress
        return None

    async def _anew(self, moves: tuple[int, ...]) -> None:
        self._progress = Progress(epoch=self._identity.epoch, moves=moves)
        async with self._target.writing():
            for table in ALL_TABLES:
                await self._target.fetch(f"DELETE FROM {table}")
            await self._progress.save(self._target)

    # Its parts

    async def _copy(self, part: Part) -> None:
        after = tuple(self._progress.after)
        width = len(part.key)
        batch: list[Row] = []
        key: Sequence[Any] = ()
        size = 0
        [(total,)] = await self._source.fetch(f"SELECT count(*) FROM {part.name}")
        async with aclosing(self._source.stream(part.reading(resumed=bool(after)), *after)) as read:
            async for row in read:
                if (len(batch) >= BATCH_ROWS or size >= BATCH_BYTES) and row[:width] != key:
                    await self._write(part, batch, list(key), total)
                    batch, size = [], 0
                key, values = row[:width], row[width:]
                batch.append(values)
                size += sum(len(value) for value in values if isinstance(value, bytes | str))
        await self._write(part, batch, None, total)

    async def _write(self, part: Part, batch: Sequence[Row], last: list[Any] | None, total: int) -> None:
        """Copy a batch, and note that: the key of its last row, or that it was the last of its part (None)."""
        progress, kept = self._progress, [row for row in batch if await self._passes(part, row)]
        async with self._target.writing():
            if part.name == "entries":
                await self._put_journals(kept)
            else:
                await self._target.put(part.name, part.columns, kept)
            progress.count(part.name, kept)
            progress.after = last or []
            if last is None:
                progress.done.append(part.name)
            await progress.save(self._target)
        now = asyncio.get_running_loop().time()
        if last is None or now > self._told_at + TELL_S:
            self._told_at = now
            self._told(f"{part.name}: {progress.rows[part.name]}" + ("" if last is None else f" of about {total}"))

    async def _put_journals(self, rows: Sequence[Row]) -> None:
        """Put entries, and the rows of the feed that they came with, at the positions that follow."""
        position, commit = self._progress.position, (0, 0)
        feed: list[Row] = []
        entries: list[Row] = []
        for first, last, *entry in rows:
            if commit != (entry[0], first):
                commit, position = (entry[0], first), position + 1
                feed.append((position, entry[0], first, last))
            entries.append((position, *entry))
        await self._target.put("feed", FEED_COLUMNS, feed)
        await self._target.put("entries", ENTRY_COLUMNS, entries)
        self._progress.position = position

    async def _passes(self, part: Part, row: Row) -> bool:
        """Whether a row can be copied. One that no host could read is told, and copied as it is."""
        try:
            part.check(row)
        except UNREADABLE:
            await self._note(part, row, "can't be read; it was copied as it is")
        if held(row, self._target):
            return True
        await self._note(part, row, "holds a NUL character, which PostgreSQL can't; it was left out")
        return False

    async def _note(self, part: Part, row: Row, what: str) -> None:
        named = dict(zip(part.columns, row, strict=True)) if part.name != "entries" else {"sequence": row[3]}
        which = next((f" {named[name]}" for name in ("id", "message_id", "sequence") if name in named), "")
        of = ""
        if part.session is not None and part.name != "sessions":
            [(id,)] = await self._source.fetch("SELECT id FROM sessions WHERE number = $1", row[part.session])
            of = f" of session {id}"
        self._progress.note_damage(f"{part.name}{which}{of}: {what}")
        self._told(self._progress.damage[-1])

    # Its end

    async def _compare(self) -> Compared:
        self._told("comparing")
        async with self._target.looking():
            return await compared(self._source, self._target)

    async def _finish(self) -> None:
        numbers = await self._source.given()
        async with self._target.writing():
            await self._target.give_after(numbers)
            await keep(self._target, "epoch", self._identity.epoch)
            await keep(self._target, FEED, secrets.token_hex(3))
            await keep(self._target, COPIED, self._identity.epoch)
            await self._target.fetch("DELETE FROM meta WHERE name = $1", UNFINISHED)

    def _outcome(self, found: Compared) -> Outcome:
        progress = self._progress
        return Outcome(
            epoch=progress.epoch,
            rows=found.rows,
            digests=found.digests,
            damaged=progress.damaged,
            damage=tuple(progress.damage),
            differences=found.differences,
            resumed=progress.resumed,
        )
