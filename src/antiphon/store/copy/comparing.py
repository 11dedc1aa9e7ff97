"""Whether two stores hold the same: both are read whole and compared by count and digest, session by session."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from hashlib import blake2b

import msgspec

from antiphon.store.copy.parts import ENTRIES, PARTS, Part, feed_order
from antiphon.store.copy.places import Place, Row

_WHOLE = 1 << 128
SHOWN = 20
"""So many sessions that differ are told of each table."""


class Tally(msgspec.Struct):
    """Rows without their order: how many, and the sum of their digests."""

    rows: int = 0
    total: int = 0

    def add(self, row: Row) -> None:
        """Add a row."""
        self.rows += 1
        digest = blake2b(msgspec.msgpack.encode(row), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "big")) % _WHOLE

    @property
    def digest(self) -> str:
        """The sum, for people."""
        return f"{self.total:032x}"


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison found: digests and counts by table, and what differs, in words."""

    digests: dict[str, str]
    rows: dict[str, int]
    differences: tuple[str, ...]


def held(row: Row, target: Place) -> bool:
    """Whether the target can hold a row: PostgreSQL's texts have no NUL."""
    return target.holds_nul or not any(isinstance(value, str) and "\0" in value for value in row)


async def compared(source: Place, target: Place) -> Compared:
    """Read both stores, and compare all that the target could be given."""
    digests: dict[str, str] = {}
    counts: dict[str, int] = {}
    differences: list[str] = []
    for part in (ENTRIES, *PARTS):
        here = await _tallies(source, part, target)
        there = await _tallies(target, part, target)
        differences += _differences(part.name, here, there)
        whole = Tally()
        for tally in there.values():
            whole.rows += tally.rows
            whole.total = (whole.total + tally.total) % _WHOLE
        digests[part.name], counts[part.name] = whole.digest, whole.rows
    digests["feed"], order = await _order(target), await _order(source)
    if digests["feed"] != order:
        differences.append("feed: its order is another one")
    return Compared(digests=digests, rows=counts, differences=tuple(differences))


def _differences(table: str, here: Mapping[int, Tally], there: Mapping[int, Tally]) -> list[str]:
    differing = [session for session in here.keys() | there.keys() if here.get(session) != there.get(session)]
    return [
        f"{table}: {_said(here.get(session))} in the source, {_said(there.get(session))} in the target"
        + (f" (session number {session})" if session else "")
        for session in sorted(differing)[:SHOWN]
    ]


def _said(tally: Tally | None) -> str:
    return f"{tally.rows} rows, digest {tally.digest[:12]}" if tally else "none"


async def _tallies(place: Place, part: Part, target: Place) -> dict[int, Tally]:
    """The tally of each session, by its number; 0 for a part that is not of sessions."""
    found: dict[int, Tally] = {}
    async with aclosing(values(place, part)) as read:
        async for row in read:
            if held(row, target):
                session = 0 if part.session is None else row[part.session]
                found.setdefault(session, Tally()).add(row)
    return found


async def values(place: Place, part: Part) -> AsyncGenerator[Row]:
    """The values of a whole part."""
    async with aclosing(place.stream(part.reading(resumed=False))) as read:
        async for row in read:
            yield row[len(part.key) :]


async def _order(place: Place) -> str:
    """A digest of whose commits the feed holds, in its order."""
    digest = blake2b(digest_size=16)
    async with aclosing(place.stream(feed_order(place.feed))) as read:
        async for row in read:
            digest.update(msgspec.msgpack.encode(row))
    return digest.hexdigest()
