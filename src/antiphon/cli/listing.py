"""Lists, fields and times for people."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from antiphon.cli.output import Output, in_a_row, terminal_width

GAP = "  "
_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (604_800, 86_400, "d"))


def table(out: Output, heads: Sequence[str], rows: Iterable[Sequence[str]], *, coloured: int | None = None) -> None:
    """Print rows under heads, in columns; one column may be coloured by its words.

    A terminal gets the last column cut to its width; a file or pipe gets everything.
    """
    cells = [list(heads), *([in_a_row(cell) for cell in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(heads))]
    room = terminal_width() if out.to_terminal else None
    for number, row in enumerate(cells):
        *first, last = [cell + " " * (widths[column] - width(cell)) for column, cell in enumerate(row)]
        last = last.rstrip()
        if room is not None:
            last = cut(last, max(8, room - sum(widths[:-1]) - len(GAP) * len(first)))
        line = [*first, last]
        if coloured is not None and number:
            line[coloured] = out.coloured(line[coloured])
        out.finished(GAP.join(line).rstrip())


def fields(out: Output, pairs: Iterable[tuple[str, str | None]]) -> None:
    """Print names and values, one pair a line; a value of several lines is indented, an empty one left out."""
    shown = [(name, value) for name, value in pairs if value]
    column = max((len(name) for name, _ in shown), default=0) + 2
    for name, value in shown:
        out.line(name.ljust(column) + value.replace("\n", "\n" + " " * column))


def width(text: str) -> int:
    """How many columns of a terminal a text takes (Unicode UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def cut(text: str, columns: int) -> str:
    """A text that takes at most so many columns."""
    if width(text) <= columns:
        return text
    kept, taken = "", 1
    for char in text:
        taken += _width(char)
        if taken > columns:
            break
        kept += char
    return kept + "…"


def ago(time: str | None) -> str:
    """How long a time of the host is past, in words; a date when it is long past."""
    moment = _moment(time)
    if moment is None:
        return ""
    seconds = int((_now() - moment).total_seconds())
    if seconds < 1:
        return "now"
    for limit, unit, name in _STEPS:
        if seconds < limit:
            return f"{seconds // unit} {name} ago"
    return f"{moment.astimezone():%Y-%m-%d}"


def at(time: str | None) -> str:
    """A time of the host in this machine's time zone, with how long it is past."""
    moment = _moment(time)
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({ago(time)})" if moment else ""


def clock(time: str | None) -> str:
    """The time of day of a time of the host, to the millisecond, in this machine's time zone."""
    moment = _moment(time)
    return f"{moment.astimezone():%H:%M:%S.%f}"[:-3] if moment else ""


def lasting(begin: str | None, end: str | None) -> str:
    """How long something took."""
    first, last = _moment(begin), _moment(end)
    return f"{(last - first).total_seconds():.1f} s" if first and last else ""


def _moment(time: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(time) if time else None
    except ValueError:
        return None


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  what a person reads is told in that person's time


def _width(char: str) -> int:
    import unicodedata  # noqa: PLC0415  most lists are ASCII

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
