"""The form of a store command: a generator that yields statements, is sent their rows, and returns its result.

SQL is what SQLite and PostgreSQL both understand, with `$1`, `$2`… as parameters. A command never sees a connection:
the driver gives it a transaction, and rolls back when it raises.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

Row = Sequence[Any]
Statement = tuple[str, tuple[Any, ...]]
T = TypeVar("T")
Command = Generator[Statement, list[Row], T]

LIVES = "coalesce(deleted_at, 0) = 0"
"""Of a session that is looked for by its id or number. No index has this condition, so that none but those can serve:
a plan that was made while there was little in the store would go through all sessions by another one ever after."""

CHUNKS = (128, 32, 16, 8, 4, 2, 1)
"""How many rows go into one statement: few forms, so that engines keep them prepared, and few statements."""


def insert(table: str, columns: str, rows: Sequence[tuple[Any, ...]], suffix: str = "") -> Command[list[Row]]:
    """Insert rows in as few statements as may be; what `suffix` returns (`RETURNING …`)."""
    returned: list[Row] = []
    for statement in filled(f"INSERT INTO {table} ({columns}) VALUES {{}} {suffix}", rows):  # noqa: S608  # names are ours
        returned += yield statement
    return returned


def filled(sql: str, rows: Sequence[tuple[Any, ...]]) -> Iterator[Statement]:
    """A statement with rows of parameters in the place of `{}`, as often as it takes for all of them."""
    start = 0
    for count in CHUNKS:
        while len(rows) - start >= count:
            chunk = rows[start : start + count]
            start += count
            yield _filled(sql, count, len(chunk[0])), tuple(chain.from_iterable(chunk))


@lru_cache(maxsize=256)
def _filled(sql: str, count: int, width: int) -> str:
    numbers = iter(range(1, count * width + 1))
    rows = ", ".join("(" + ", ".join(f"${next(numbers)}" for _ in range(width)) + ")" for _ in range(count))
    return sql.format(rows)


def chunks(values: Sequence[str], size: int = 64) -> Iterable[tuple[str, ...]]:
    """The values in tuples of `size`, the last filled up with its own last value: one form of statement for all."""
    for start in range(0, len(values), size):
        chunk = tuple(values[start : start + size])
        yield chunk + chunk[-1:] * (size - len(chunk))
