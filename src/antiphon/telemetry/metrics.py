"""Metrics for Prometheus, in a registry of their own."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import generate_latest

from antiphon.host.service import HostStatus

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"})
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

GAUGES = {
    "draining": "Whether the host is shutting down and takes nothing new.",
    "agents_open": "Agents that are open just now.",
    "max_agents": "Agents that may be open at once.",
    "sessions_awake": "Sessions with something in memory.",
    "sessions_owned": "Sessions whose turns this host runs; the others that are awake are another host's.",
    "turns_running": "Turns that run just now.",
    "messages_queued": "Messages that wait just now.",
    "viewers": "Viewers that follow events just now.",
    "uptime_s": "Seconds since the host started.",
}
"""The fields of a host's status that are numbers, and what they say."""

UNITS = {"uptime_s": "uptime_seconds"}


class Metrics:
    """What a host can be measured by: how it is when asked, and what went through its door."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._host = Info("antiphon_host", "Version and store of the host.", registry=self.registry)
        self._gauges = {
            field: Gauge(f"antiphon_{UNITS.get(field, field)}", told, registry=self.registry)
            for field, told in GAUGES.items()
        }
        self._requests = Counter(
            "antiphon_http_requests",
            "Requests, by the template of their route.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "antiphon_http_request_duration_seconds",
            "Time from a request to the start of its answer.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self.registry,
        )

        self._tries = Counter(
            "antiphon_webhook_tries", "Tries of deliveries, by what came of them.", ("outcome",), registry=self.registry
        )
        self._deliveries = Gauge(
            "antiphon_webhook_deliveries", "Deliveries that are pending or dead.", ("state",), registry=self.registry
        )
        self._runs = Counter(
            "antiphon_schedule_runs", "Runs of schedules, by what came of them.", ("outcome",), registry=self.registry
        )

    def webhook_tried(self, outcome: str) -> None:
        """Count a try of a delivery: `delivered`, `failed` or `dead`."""
        self._tries.labels(outcome).inc()

    def webhooks_kept(self, counts: Mapping[str, int]) -> None:
        """Note how many deliveries are in each state that is worth an alarm."""
        for state, count in counts.items():
            self._deliveries.labels(state).set(count)

    def schedule_ran(self, outcome: str) -> None:
        """Count a run: `sent`, `missed`, `overlapped` or `refused`."""
        self._runs.labels(outcome).inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is a template, never a path: paths hold the names of sessions."""
        counted, timed = self._series(method if method in METHODS else "other", route, status)
        counted.inc()
        timed.observe(seconds)

    def _series(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """The time series of a kind of answer, looked up once: to find one costs more than to count in it."""
        found = self._known.get((method, route, status))
        if found is None:
            found = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._known[method, route, status] = found
        return found

    def render(self, status: HostStatus) -> bytes:
        """Everything in Prometheus' text format."""
        self._host.info({"version": status.version, "store": status.store})
        for field, gauge in self._gauges.items():
            gauge.set(float(getattr(status, field)))
        return generate_latest(self.registry)
