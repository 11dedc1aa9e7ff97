"""Numbered migration files: `NNNN_title.sql` in a package `migrations` beside its store."""

from importlib.resources import files
from typing import NamedTuple

from antiphon.ports.store import StoreDamaged


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    sql: str


def migrations(package: str) -> tuple[Migration, ...]:
    """The migrations of a store, in order."""
    found = sorted(
        (file for file in files(package).iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
    steps = tuple(Migration(int(file.name[:4]), file.name, file.read_text("utf-8")) for file in found)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), "migrations are numbered without a gap"
    return steps


def pending(steps: tuple[Migration, ...], version: int, place: str) -> tuple[Migration, ...]:
    """The steps that a schema of `version` still needs.

    Raises:
        StoreDamaged: The schema is of a later antiphon.
    """
    if version > len(steps):
        raise StoreDamaged(
            f"{place} has schema {version}; this antiphon knows schemas up to {len(steps)}. It was left as it is:"
            " use the antiphon that wrote it, or a later one."
        )
    return steps[version:]
