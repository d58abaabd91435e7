"""Observers of one daemon: monitor, metrics and fleet view, with the HTTP server that publishes their data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from applier.cluster import ClusterName
from gitops.clock import Clock
from gitops.config.fields import ListenAddress
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.instrumentation import Stage, combine
from gitops.queries import QueryGraph
from gitops.server.http import HttpServer, listen
from gitops.server.metric_readings import count_cache_entries
from gitops.server.metrics import Metrics
from gitops.server.monitor import Monitor
from gitops.server.trace_endpoint import TraceEndpoint

if TYPE_CHECKING:
    from gitops.daemon.fleet_environment import ClusterObserver
    from gitops.server.fleet_view import FleetView


class CountingCluster(Protocol):
    """Cluster with a count of the responses of its API server, for metrics."""

    @property
    def name(self) -> ClusterName: ...

    @property
    def answers(self) -> Counter[tuple[str, int]]: ...


class Observability:
    """Observers of one daemon. During its work, the daemon calls `stage`, `record_action` and `record_pass`."""

    def __init__(
        self,
        cluster: CountingCluster,
        version: str,
        clock: Clock,
        leads: Callable[[], bool],
        stands_by: Callable[[], bool],
        longest_hold_seconds: Callable[[], float],
        *,
        has_fleet: bool = False,
    ) -> None:
        self.monitor = Monitor(
            cluster.name,
            version,
            clock,
            leads=leads,
            stands_by=stands_by,
            longest_hold_seconds=longest_hold_seconds,
        )
        self.fleet: FleetView | None = None
        self.record_pass = self.monitor.record_pass
        if has_fleet:
            from gitops.server.fleet_view import FleetView

            self.fleet = FleetView(self.monitor)
            self.record_pass = self.fleet.record_hub_pass
        self.metrics = Metrics(
            self.monitor, lambda: cluster.answers, self._cache_sizes, self._queue_state, fleet=self.fleet
        )
        self.stage: Stage = combine(self.monitor.stage, self.metrics.work.stage)
        self.record_action = self.metrics.work.record_action
        self._follower: Follower | None = None

    def observe(self, cluster: ClusterName, observer: ClusterObserver) -> ClusterObserver:
        """Return an observer that reports the work on a member cluster to `observer`, the page and the metrics."""
        assert self.fleet is not None
        return self.fleet.observe(cluster, observer, self.metrics.work_on(cluster).record_action)

    def stage_of(self, cluster: ClusterName) -> Stage:
        """Return the timer of the stages of work on a member cluster."""
        assert self.fleet is not None
        return combine(self.fleet.monitor_of(cluster).stage, self.metrics.work_on(cluster).stage)

    def serve(
        self,
        address: ListenAddress,
        follower: Follower,
        hint: Callable[..., Awaitable[None]],
        configuration: LiveConfig,
    ) -> AbstractAsyncContextManager[ListenAddress]:
        """Serve pages, metrics, probes and webhooks as long as the context lasts.

        Args:
            hint: function that each webhook calls with the sources of its repository.
            configuration: configuration in force.

        Raises: ListenError if the process cannot listen at `address`.
        """
        self._follower, self.monitor.refused = follower, lambda: configuration.refusal
        self.monitor.unread_sources, self.monitor.errors = lambda: follower.unread, lambda: follower.errors
        server = HttpServer(
            self.monitor,
            self.metrics,
            hint,
            lambda: configuration.config.sources,
            lambda: configuration.config.hooks,
            TraceEndpoint(self._graphs),
            self.fleet,
        )
        return listen(server.create_app(is_local=address.is_loopback), address)

    def _graphs(self) -> Mapping[str, QueryGraph]:
        """Return the graph of each reconciled cluster, the daemon's own first."""
        reconciler = self._follower.reconciler if self._follower else None
        own = {reconciler.name: reconciler.inputs.graph} if reconciler else {}
        return {**own, **(self.fleet.graphs() if self.fleet else {})}

    def _queue_state(self) -> tuple[int, float]:
        return (len(self._follower.queue), self._follower.queue.oldest_age_seconds) if self._follower else (0, 0.0)

    def _cache_sizes(self) -> Mapping[str, int]:
        return count_cache_entries(self._follower.reconciler) if self._follower else {}
