"""What the host uses, looked at from outside, once a second."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from antiphon.testing.processes import marked

PAUSE_S = 1.0
GROWTH_MAX = 1.25
GROWTH_MIN_MB = 24.0
"""How much more memory the host may use late than early: a quarter, and anyhow so many MB."""


class Sample(msgspec.Struct, frozen=True):
    """The host's own memory in MB, its open files, and how many processes there are, with the host's and guards."""

    rss_mb: float
    files: int
    processes: int


class Gauges:
    """Samples of one run."""

    def __init__(self, pid: int, mark: dict[str, str]) -> None:
        self._pid = pid
        self._mark = mark
        self.samples: list[Sample] = []

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            sample = await asyncio.to_thread(self._take)
            if sample:
                self.samples.append(sample)
            await asyncio.sleep(PAUSE_S)

    def _take(self) -> Sample | None:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
            files = len(list(Path(f"/proc/{self._pid}/fd").iterdir()))
        except OSError:
            return None
        rss_kb = int(status.partition("VmRSS:")[2].split(maxsplit=1)[0])
        return Sample(rss_kb / 1024, files, len(marked(self._mark)))

    def report(self) -> dict[str, float]:
        """Memory early (the second quarter of the run), late (the last), and at the most; nothing without a sample."""
        if not self.samples:
            return {}
        early, late = _of(self.samples, 0.25, 0.5), _of(self.samples, 0.75, 1.0)
        return {
            "rss_early_mb": round(median(sample.rss_mb for sample in early), 1),
            "rss_late_mb": round(median(sample.rss_mb for sample in late), 1),
            "rss_most_mb": round(max(sample.rss_mb for sample in self.samples), 1),
            "files_early": median(sample.files for sample in early),
            "files_late": median(sample.files for sample in late),
            "processes_most": max(sample.processes for sample in self.samples),
        }

    def findings(self) -> list[str]:
        """What grew that should not."""
        if len(self.samples) < 8:
            return []
        report = self.report()
        early, late = report["rss_early_mb"], report["rss_late_mb"]
        if late > max(early * GROWTH_MAX, early + GROWTH_MIN_MB):
            return [f"the host's memory grew from {early} MB to {late} MB"]
        return []


def _of(samples: Sequence[Sample], begin: float, end: float) -> Sequence[Sample]:
    """A part of a run; of a short one at least one sample."""
    count = len(samples)
    return samples[int(count * begin) : int(count * end)] or samples[-1:]
