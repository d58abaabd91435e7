"""Readings for metrics, and the bounded values of the label `cluster`."""

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
"""Function that returns the number of responses of the API server, by verb and status. Status 0 means no response."""

QueueState = Callable[[], tuple[int, float]]
"""Function that returns the number of queued keys, and the wait of the oldest queued key in seconds."""

MAX_CLUSTER_NAMES: Final = 200
"""Maximum number of clusters whose label value is the cluster's name."""
OTHER_CLUSTERS: Final = "other"
"""Label value of all clusters beyond `MAX_CLUSTER_NAMES`."""


@dataclass(eq=False, slots=True)
class ClusterReadings:
    """Readings of one cluster for the metrics of each scrape."""

    monitor: Monitor
    answers: ResponseCounts
    caches: Callable[[], Mapping[str, int]]
    """Function that returns the number of entries of each cache."""
    queue: QueueState


class FleetReadings(Protocol):
    """Readings of a fleet for the metrics of each scrape."""

    def clusters(self) -> Mapping[ClusterName, ClusterReadings]:
        """Return the readings of the declared clusters, without the hub's own cluster."""
        ...

    def states(self) -> Mapping[ClusterName, ReachState]:
        """Return the state of every cluster, including the hub's own cluster."""
        ...


@dataclass
class ClusterLabels:
    """Values of the label `cluster`: the first `MAX_CLUSTER_NAMES` names, then `other`. A cluster keeps its value."""

    _names: set[ClusterName] = field(default_factory=set)

    def label_of(self, name: ClusterName) -> str:
        if name not in self._names and len(self._names) >= MAX_CLUSTER_NAMES:
            return OTHER_CLUSTERS
        self._names.add(name)
        return name


def count_cache_entries(reconciler: Reconciler) -> Mapping[str, int]:
    """Return the number of entries of each cache that a reconciler keeps between reconciliations."""
    return {
        "decisions": reconciler.inputs.graph.size,
    }
