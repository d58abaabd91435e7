"""Metrics for Prometheus: counters of the work in progress, and gauges of the last reconciliation.

Each scrape computes the gauges. Label values are bounded: names of clusters (at most 200), sources, definitions and
rollouts, and words of closed lists. The name of an object is never a label value. Only this module imports
prometheus_client. docs/operations.md lists every metric.
"""

from __future__ import annotations

import asyncio
import collections
from collections import Counter as CountOf
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from functools import partial
from operator import add
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from applier.cluster import LOCAL_CLUSTER, ClusterName
from applier.execute.results import Result
from gitops.fleet.reach import ReachState
from gitops.instrumentation import STAGES
from gitops.records.display_state import count_states
from gitops.server.dashboard import Dashboard
from gitops.server.metric_readings import (
    ClusterLabels,
    ClusterReadings,
    FleetReadings,
    QueueState,
    ResponseCounts,
)
from gitops.server.monitor import Monitor
from gitops.timestamps import parse_timestamp
from renderer.frozen import dataclass

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of the buckets of the histogram, in seconds."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)

Row = TypeVar("Row", bound=tuple[str, ...])
"""Label values of a sample."""


@dataclass(frozen=True, slots=True)
class WorkMetrics:
    """Counters of the work on one cluster."""

    seconds: Histogram
    failures: Counter
    writes: Counter
    drift: Counter
    labels: tuple[str, ...]
    """Value of the label `cluster`, in a tuple. Without a fleet, the tuple is empty."""

    @contextmanager
    def stage(self, name: str, /, **_about: str) -> Iterator[None]:
        """Measure the duration of a stage, and count its failure (`gitops.instrumentation.Stage`)."""
        failures = self.failures.labels(*self.labels, name)
        with self.seconds.labels(*self.labels, name).time(), failures.count_exceptions(BaseException):
            yield

    def record_action(self, result: Result) -> None:
        """Count an action by its outcome: done or failed."""
        outcome = "failed" if result.error else "done"
        self.writes.labels(*self.labels, result.action.replace(" ", "_"), outcome).inc()
        if result.action == "healed" and result.error is None:
            (self.drift.labels(*self.labels) if self.labels else self.drift).inc()


class Metrics:
    """Counters and gauges of one process, in a separate registry.

    With a `fleet`, metrics of a cluster have the label `cluster`.
    """

    def __init__(
        self,
        monitor: Monitor,
        answers: ResponseCounts,
        caches: Callable[[], Mapping[str, int]] = dict,
        queue: QueueState = lambda: (0, 0.0),
        fleet: FleetReadings | None = None,
    ) -> None:
        # Counters need no creation times, because process_start_time_seconds contains the same time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._labels = ClusterLabels() if fleet else None
        self._collector = _Gauges(ClusterReadings(monitor, answers, caches, queue), fleet, self._cluster_labels)
        of_cluster = ["cluster"] if fleet else []
        self.registry.register(self._collector)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._seconds = Histogram(
            "levelgate_stage_duration_seconds",
            "Duration of parts of a reconciliation. `pass` is the whole reconciliation.",
            [*of_cluster, "stage"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._failures = Counter(
            "levelgate_stage_failures",
            "Parts of a reconciliation that failed.",
            [*of_cluster, "stage"],
            registry=self.registry,
        )
        self._writes = Counter(
            "levelgate_actions",
            "Actions on objects, by action and outcome.",
            [*of_cluster, "action", "result"],
            registry=self.registry,
        )
        self._drift = Counter(
            "levelgate_drift_healed", "Drifted objects that Levelgate has healed.", of_cluster, registry=self.registry
        )
        self._hooks = Counter(
            "levelgate_hook_calls",
            "Webhook calls, by outcome.",
            ["provider", "result"],
            registry=self.registry,
        )
        self.work = self.work_on(LOCAL_CLUSTER)
        for stage in STAGES:
            self._seconds.labels(*self.work.labels, stage)
            self._failures.labels(*self.work.labels, stage)

    def work_on(self, cluster: ClusterName) -> WorkMetrics:
        """Return the counters of a cluster. Reading Git counts as work on the hub's own cluster."""
        return WorkMetrics(self._seconds, self._failures, self._writes, self._drift, self._cluster_labels(cluster))

    def _cluster_labels(self, cluster: ClusterName) -> tuple[str, ...]:
        return (self._labels.label_of(cluster),) if self._labels else ()

    def record_webhook(self, provider: str, result: str) -> None:
        self._hooks.labels(provider, result).inc()

    async def render(self, now: datetime) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        await self._collector.refresh(now)
        # A thread generates the text, because 100 clusters take most of a second.
        return await asyncio.to_thread(generate_latest, self.registry)


@dataclass(eq=False)
class _Gauges(Collector):
    """Collector of gauges. `refresh` stores the readings, and `collect` returns their metrics."""

    hub: ClusterReadings
    fleet: FleetReadings | None
    labels_of: Callable[[ClusterName], tuple[str, ...]]
    _read: Mapping[ClusterName, tuple[ClusterReadings, Dashboard | None]] = field(default_factory=dict)
    _now: datetime | None = None
    _families: tuple[Metric, ...] = ()

    async def refresh(self, now: datetime) -> None:
        """Store the current readings. Call the method on the event loop.

        Args:
            now: time of the scrape in UTC.
        """
        readings = {LOCAL_CLUSTER: self.hub, **(self.fleet.clusters() if self.fleet else {})}
        self._read = {name: (reading, await reading.monitor.dashboard()) for name, reading in readings.items()}
        self._now = now
        self._families = tuple(self._collect())

    def collect(self) -> Iterable[Metric]:
        """Return the metrics from `refresh`.

        The method must not read data that the event loop changes, because a thread calls the method.
        """
        return self._families

    def _collect(self) -> Iterator[Metric]:
        if self.fleet is None:
            yield from self._cluster_metrics(self.hub, self._read[LOCAL_CLUSTER][1] if self._read else None)
            return
        yield from _state_metrics(self.fleet.states(), self.labels_of)
        yield from _merge_clusters(
            (self.labels_of(name), family)
            for name, (readings, board) in self._read.items()
            for family in self._cluster_metrics(readings, board)
        )

    def describe(self) -> Iterable[Metric]:
        return []

    def _cluster_metrics(self, readings: ClusterReadings, board: Dashboard | None) -> Iterator[Metric]:
        yield from self._work_metrics(readings)
        if board is not None and self._now is not None:
            yield from _source_metrics(board, self._now, set(readings.monitor.errors()))
            yield from _instance_metrics(board)
            yield from _window_metrics(board, self._now)

    def _work_metrics(self, readings: ClusterReadings) -> Iterator[Metric]:
        monitor = readings.monitor
        yield _gauge("levelgate_build_info", "The running version.", ("version",), {(monitor.version,): 1})
        yield _gauge("levelgate_leader", "1 while this process leads.", (), {(): monitor.leads()})
        yield _gauge(
            "levelgate_configuration_refused",
            "1 while Levelgate rejects the current configuration file.",
            (),
            {(): bool(monitor.refused())},
        )
        yield _gauge(
            "levelgate_last_pass_timestamp_seconds",
            "End of the last reconciliation, or 0 before the end of the first reconciliation.",
            (),
            {(): monitor.passes[-1].at.timestamp() if monitor.passes else 0.0},
        )
        yield _metric(
            CounterMetricFamily,
            "levelgate_api_requests",
            "Requests to the API server, by verb and status. Code 0 means no answer.",
            ("verb", "code"),
            {(verb, str(code)): count for (verb, code), count in readings.answers().items()},
        )
        yield _metric(
            CounterMetricFamily,
            "levelgate_rollout_miscounts",
            "Rollouts with a wrong count, which is a fault of Levelgate.",
            (),
            {(): monitor.miscounts},
        )
        yield _gauge(
            "levelgate_event_loop_longest_hold_seconds",
            "The longest time for which the event loop stood still.",
            (),
            {(): monitor.longest_hold_seconds()},
        )
        depth, oldest = readings.queue()
        yield _gauge("levelgate_queue_depth", "Keys in the queue that wait for a worker.", (), {(): depth})
        yield _gauge("levelgate_queue_oldest_seconds", "Waiting time of the oldest key in the queue.", (), {(): oldest})
        yield _gauge(
            "levelgate_cache_entries",
            "Entries that caches keep in memory between reconciliations.",
            ("cache",),
            {(name,): size for name, size in readings.caches().items()},
        )


def _source_metrics(board: Dashboard, now: datetime, unreadable: set[str]) -> Iterator[Metric]:
    records = board.overview.sources
    lag = {
        (name,): max(0.0, (now - since).total_seconds())
        if record.applied != record.target and (since := parse_timestamp(record.since))
        else 0.0
        for name, record in records.items()
    }
    yield _gauge(
        "levelgate_source_lag_seconds",
        "Seconds for which Levelgate has not applied the newest commit completely, or 0 if the commit is applied.",
        ("source",),
        lag,
    )
    yield _gauge(
        "levelgate_source_readable",
        "0 while Levelgate cannot read the source from Git.",
        ("source",),
        {(name,): name not in unreadable for name in {*records, *unreadable}},
    )
    yield _gauge(
        "levelgate_source_state",
        "1 for the state that the source has.",
        ("source", "state"),
        {(name, record.state): 1 for name, record in records.items() if record.state},
    )
    yield _gauge(
        "levelgate_left_behind",
        "Objects left behind: written by Levelgate, no longer in Git, and without the label of an ApplySet.",
        ("source",),
        {(name,): record.left_behind.count for name, record in records.items()},
    )


def _instance_metrics(board: Dashboard) -> Iterator[Metric]:
    states = collections.Counter(
        (source, definition, instance_state.state) for source, definition, instance_state in board.by_definition
    )
    yield _gauge("levelgate_instances", "Instances by state.", ("source", "definition", "state"), states)
    causes = [
        (source, cause) for source, _, instance_state in board.by_definition for cause in instance_state.display_causes
    ]
    causes += list(board.overview.causes)
    blocked = collections.Counter((source, str(cause.reason)) for source, cause in causes)
    yield _gauge("levelgate_blocked", "Causes of waiting and of failure, by reason.", ("source", "reason"), blocked)
    openings: dict[tuple[str, ...], float] = {}
    for source, cause in causes:
        if cause.until:
            openings[source,] = min(openings.get((source,), cause.until.timestamp()), cause.until.timestamp())
    yield _gauge(
        "levelgate_next_opening_timestamp_seconds",
        "The earliest time at which an object that waits can continue.",
        ("source",),
        openings,
    )
    moves = {
        (rollout.name, state): number
        for rollout in board.overview.rollouts
        for state, number in count_states(rollout.waves).items()
    }
    yield _gauge("levelgate_rollout_instances", "Instances of a rollout by state.", ("rollout", "state"), moves)


def _window_metrics(board: Dashboard, now: datetime) -> Iterator[Metric]:
    active = collections.Counter(
        (rules.source, str(window.kind), "active" if window.timeline.span(now).active else "inactive")
        for rules in board.rules
        for window in rules.windows.values()
    )
    yield _gauge("levelgate_windows", "Windows in force, by kind and state.", ("source", "kind", "state"), active)


_OF_PROCESS: Final = frozenset(
    {
        "levelgate_build_info",
        "levelgate_leader",
        "levelgate_configuration_refused",
        "levelgate_event_loop_longest_hold_seconds",
        "levelgate_source_readable",
    }
)
"""Metrics with one value for all clusters, without the label `cluster`."""

_MERGED_BY: Final[Mapping[str, Callable[[float, float], float]]] = {
    **dict.fromkeys(_OF_PROCESS, max),
    "levelgate_source_readable": min,
    "levelgate_last_pass_timestamp_seconds": min,
    "levelgate_next_opening_timestamp_seconds": min,
    "levelgate_source_lag_seconds": max,
    "levelgate_source_state": max,
    "levelgate_queue_oldest_seconds": max,
}
"""Functions that merge the values of several clusters into one value of `other`.

For a metric that is not in this mapping, the merged value is the sum.
"""


def _state_metrics(
    states: Mapping[ClusterName, ReachState], labels_of: Callable[[ClusterName], tuple[str, ...]]
) -> Iterator[Metric]:
    counts = CountOf(states.values())
    by_name = CountOf((*labels_of(name), str(state)) for name, state in states.items())
    yield _gauge(
        "levelgate_clusters",
        "Clusters of the fleet by state.",
        ("state",),
        {(str(state),): counts[state] for state in ReachState},
    )
    yield _gauge("levelgate_cluster_state", "1 for the state that a cluster has.", ("cluster", "state"), by_name)


def _merge_clusters(families: Iterable[tuple[tuple[str, ...], Metric]]) -> Iterator[Metric]:
    """Yield one metric for all families of the same name, with the label `cluster` on its samples."""
    merged: dict[str, Metric] = {}
    samples: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
    for labels, family in families:
        merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        merge: Callable[[float, float], float] = _MERGED_BY.get(family.name, add)
        of_cluster = {} if family.name in _OF_PROCESS else dict(zip(("cluster",), labels, strict=True))
        for sample in family.samples:
            key = (family.name, sample.name, tuple(sorted({**of_cluster, **sample.labels}.items())))
            samples[key] = merge(samples[key], sample.value) if key in samples else sample.value
    for (family_name, sample_name, row), value in sorted(samples.items()):
        merged[family_name].samples.append(Sample(sample_name, dict(row), value))
    yield from merged.values()


def _metric(
    family_type: type[Family], name: str, text: str, labels: tuple[str, ...], values: Mapping[Row, float]
) -> Family:
    family = family_type(name, text, labels=labels)
    for row, value in sorted(values.items()):
        family.add_metric(row, float(value))
    return family


_gauge = partial(_metric, GaugeMetricFamily)
