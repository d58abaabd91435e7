"""Readings from which metrics are made, and the bounded values of the label `cluster`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Protocol

from applier.cluster import ClusterName
from gitops.fleet.reach import ReachState
from gitops.reconcile.reconciler import Reconciler
from gitops.server.monitor import Monitor
from renderer.frozen import dataclass

ResponseCounts = Callable[[], Mapping[tuple[str, int], int]]
"""Function that returns the number of responses of the API server, by verb and status (0 for no response)."""

QueueState = Callable[[], tuple[int, float]]
"""Function that returns the number of keys that wait in the work queue, and for how many seconds the oldest waits."""

MAX_CLUSTER_NAMES: Final = 200
"""Maximum number of clusters with a label value of their own."""
OTHER_CLUSTERS: Final = "other"
"""Label value of all further clusters."""


@dataclass(eq=False, slots=True)
class ClusterReadings:
    """Sources of the metrics of one cluster, read at each scrape."""

    monitor: Monitor
    answers: ResponseCounts
    caches: Callable[[], Mapping[str, int]]
    """Function that returns the number of entries of each cache."""
    queue: QueueState


class FleetReadings(Protocol):
    """Sources of the metrics of a fleet, read at each scrape."""

    def clusters(self) -> Mapping[ClusterName, ClusterReadings]:
        """Return the readings of the declared clusters, without the hub's own cluster."""
        ...

    def states(self) -> Mapping[ClusterName, ReachState]:
        """Return the state of every cluster, including the hub's own cluster."""
        ...


@dataclass
class ClusterLabels:
    """Values of the label `cluster`: the first `MAX_CLUSTER_NAMES` names, then `other`. A name keeps its value."""

    _names: set[ClusterName] = field(default_factory=set)

    def label_of(self, name: ClusterName) -> str:
        if name not in self._names and len(self._names) >= MAX_CLUSTER_NAMES:
            return OTHER_CLUSTERS
        self._names.add(name)
        return name


def count_cache_entries(reconciler: Reconciler) -> Mapping[str, int]:
    """Return the number of entries of each cache that a reconciler keeps between reconciliations."""
    return {"renderings": reconciler.decider.memo.size, "comparisons": reconciler.decider.comparisons.size}
