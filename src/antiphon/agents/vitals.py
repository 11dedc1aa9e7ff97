"""The process table of this machine, as the host's watchdog needs it."""

import os
from collections.abc import Iterator

from antiphon.agents.guard import children_of, processes_below
from antiphon.ports.vitals import Signs

PROCESSES_MAX = 1_000
"""How many processes of one agent are looked at."""


class SystemVitals:
    """`Vitals`, read from /proc. Elsewhere it sees nothing, and the clock alone decides."""

    def __init__(self) -> None:
        self._ticks = os.sysconf("SC_CLK_TCK")

    def look(self, pid: int) -> Signs | None:
        """See `Vitals.look`."""
        own = _stat(pid)
        uptime_s = _uptime_s()
        if own is None or uptime_s is None:
            return None
        below = [stat for child in _below(pid) if (stat := _stat(child))]
        ticks = sum(int(number) for stat in (own, *below) for number in stat[11:15])
        ages_s = tuple(uptime_s - int(stat[19]) / self._ticks for stat in below)
        return Signs(cpu_s=ticks / self._ticks, ages_s=ages_s, stopped=own[0] in (b"T", b"t"))


def _below(ancestor: int) -> Iterator[int]:
    """Every process below one; who is born meanwhile may be missed."""
    parents, left = [ancestor], PROCESSES_MAX
    while parents and left > 0:
        parent = parents.pop()
        try:
            children = children_of(parent)
        except OSError:
            children = list(processes_below(ancestor)) if parent == ancestor else []
        for child in children[:left]:
            left -= 1
            parents.append(child)
            yield child


def _stat(pid: int) -> list[bytes] | None:
    """The fields of proc_pid_stat(5) from the third, the state, on; None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  many a second
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def _uptime_s() -> float | None:
    try:
        with open("/proc/uptime", "rb", buffering=0) as file:  # noqa: PTH123
            return float(file.read(64).split()[0])
    except (OSError, ValueError):
        return None
