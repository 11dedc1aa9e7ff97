"""When a schedule runs: five fields of cron in the time of a zone, with daylight saving time as Debian's cron has it.

A job at a fixed time of day that the clocks skip in spring runs at once after the change, and one at a time that comes
twice in autumn runs the first time only. A job whose minute or hour begins with `*` keeps to real time.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIELDS = 5
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
COUNT_MAX = 1000
"""Missed runs are counted up to this number."""
FIRST_WINDOW = timedelta(hours=1)
ZONE_MAX = 100


def cron_problem(cron: str) -> str | None:
    """What is wrong with an expression, for a person; None when it can be used."""
    expression = MACROS.get(cron.strip().lower(), cron)
    if len(expression) > 200 or len(expression.split()) != FIELDS:
        return "A cron expression has five fields (minute, hour, day of month, month, day of week), or is `@daily`…"
    try:
        next(CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return f"The cron expression can't be read: {str(error).lower()}."
    except StopIteration:
        return "The cron expression never comes true."
    return None


def zone_problem(name: str) -> str | None:
    """What is wrong with a time zone's name, for a person; None when there is one of that name."""
    try:
        _zone(name[:ZONE_MAX])
    except (KeyError, ValueError, OSError):  # unknown; no name at all; the name of a folder of names
        return "There is no time zone of that name. It has the form `Europe/Berlin`, or is `UTC`."
    return None


def next_after(cron: str, zone: str, at: int) -> int | None:
    """The first run after a time (ms since the epoch, as all here); None when there is none in fifty years."""
    return next(_runs(cron, zone, at), None)


def next_runs(cron: str, zone: str, at: int, count: int) -> list[int]:
    """The first runs after a time."""
    return [run for run, _ in zip(_runs(cron, zone, at), range(count), strict=False)]


def last_of(cron: str, zone: str, first: int, now: int) -> tuple[int, int]:
    """The last run up to now, and how many there were before it, from the run `first` on; at most `COUNT_MAX`."""
    found = 0
    for run in _runs(cron, zone, first - 1):
        if run > now or found > COUNT_MAX:
            break
        found += 1
    return _last(cron, zone, first, now), min(max(found - 1, 0), COUNT_MAX)


def _last(cron: str, zone: str, first: int, now: int) -> int:
    """The last run up to now, looked for in ever larger steps back: what lies between is never counted through."""
    window = FIRST_WINDOW
    while True:
        start = max(first - 1, now - int(window.total_seconds() * 1000))
        last = None
        for run in _runs(cron, zone, start):
            if run > now:
                break
            last = run
        if last is not None:
            return last
        if start <= first - 1:
            return first
        window *= 4


def _runs(cron: str, zone: str, after: int) -> Iterator[int]:
    """The runs after a time, ascending: two that fall together when the clocks are put forward are one."""
    start = datetime.fromtimestamp(after // 1000, UTC).astimezone(_zone(zone))
    last = after
    for moment in CronSim(MACROS.get(cron.strip().lower(), cron), start):
        run = int(moment.timestamp()) * 1000
        if run > last:
            last = run
            yield run


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
