"""What a benchmark says: a value beside its floor, and the bound that their ratio has to keep."""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """One comparison. `ratio` is value by floor; it should be `better`, `higher` or `lower`, than `bound`."""

    name: str
    what: str
    value: float
    floor: float
    bound: float
    better: str
    unit: str

    @property
    def ratio(self) -> float:
        """How the value stands to its floor."""
        return self.value / self.floor

    @property
    def kept(self) -> bool:
        """Whether the bound is kept."""
        return self.ratio >= self.bound if self.better == "higher" else self.ratio <= self.bound


def median_of(measure: Callable[[], float], times: int) -> float:
    """The median of some measurements."""
    return statistics.median(measure() for _ in range(times))


def write_json(figures: Sequence[Figure], path: Path) -> None:
    """Write the figures for machines."""
    table = {
        figure.name: {
            "value": round(figure.value, 4),
            "floor": round(figure.floor, 4),
            "ratio": round(figure.ratio, 3),
            "bound": round(figure.bound, 3),
            "better": figure.better,
            "unit": figure.unit,
        }
        for figure in figures
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def as_table(figures: Sequence[Figure]) -> str:
    """The figures for people, as Markdown."""
    lines = ["| figure | value | floor | ratio | bound | |", "|---|---|---|---|---|---|"]
    for figure in figures:
        sign = "≥" if figure.better == "higher" else "≤"
        cells = f"{figure.value:.4g} {figure.unit} | {figure.floor:.4g} {figure.unit} | {figure.ratio:.2f}"
        lines.append(
            f"| {figure.what} | {cells} | {sign} {figure.bound:.2f} | {'kept' if figure.kept else '**missed**'} |"
        )
    return "\n".join(lines) + "\n"
