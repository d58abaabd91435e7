"""Everything that watches one daemon, put together: what it tells while it works, and where that is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from applier.cluster import ClusterName
from gitops.clock import Clock
from gitops.config.fields import ListenAddress
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.instrumentation import Stage, combine
from gitops.server.http import HttpServer, listen
from gitops.server.metrics import Metrics
from gitops.server.monitor import Monitor


class CountingCluster(Protocol):
    """A cluster that counts what comes back from it."""

    @property
    def name(self) -> ClusterName: ...

    @property
    def answers(self) -> Counter[tuple[str, int]]: ...


class Observability:
    """`stage`, `report` and `passed` are to be told by whoever works; `leads`, `stands_by` and `longest_hold_seconds` as for the `Monitor`."""

    def __init__(
        self,
        cluster: CountingCluster,
        version: str,
        clock: Clock,
        leads: Callable[[], bool],
        stands_by: Callable[[], bool],
        longest_hold_seconds: Callable[[], float],
    ) -> None:
        self.monitor = Monitor(
            cluster.name,
            version,
            clock,
            leads=leads,
            stands_by=stands_by,
            longest_hold_seconds=longest_hold_seconds,
        )
        self.metrics = Metrics(self.monitor, lambda: cluster.answers, self._cache_sizes, self._queue_state)
        self.stage: Stage = combine(self.monitor.stage, self.metrics.stage)
        self.record_action, self.record_pass = self.metrics.record_action, self.monitor.record_pass
        self._follower: Follower | None = None

    def serve(
        self,
        address: ListenAddress,
        follower: Follower,
        hint: Callable[..., Awaitable[None]],
        configuration: LiveConfig,
    ) -> AbstractAsyncContextManager[ListenAddress]:
        """Answer requests as long as the context lasts; hooks give hints of the sources that are configured. Raises ListenError."""
        self._follower, self.monitor.refused = follower, lambda: configuration.refusal
        self.monitor.unread_sources, self.monitor.errors = lambda: follower.unread, lambda: follower.errors
        server = HttpServer(
            self.monitor,
            self.metrics,
            hint,
            lambda: configuration.config.sources,
            lambda: configuration.config.hooks,
        )
        return listen(server.create_app(is_local=address.is_loopback), address)

    def _queue_state(self) -> tuple[int, float]:
        return (len(self._follower.queue), self._follower.queue.oldest_age_seconds) if self._follower else (0, 0.0)

    def _cache_sizes(self) -> Mapping[str, int]:
        if self._follower is None:
            return {}
        decider = self._follower.reconciler.decider
        return {"renderings": decider.memo.size, "comparisons": decider.comparisons.size}
