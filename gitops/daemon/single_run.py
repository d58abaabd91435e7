"""Single run (`levelgate run --once`): reconciliations of a cluster until no change remains, or until a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

from applier.cluster import ClusterName
from gitops.clock import Clock, wait_for_any
from gitops.daemon.dispatcher import seconds_until
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import FIRST_LOOK, LAST_LOOK, in_flight
from gitops.reconcile.sources import SourceState
from renderer.frozen import dataclass

MAX_PASSES: Final = 500
"""Maximum number of reconciliations in a run. If another writer reverts each change, a run reaches the maximum."""


@dataclass(kw_only=True)
class SingleRun:
    """Reconciliations until no change remains."""

    wait: timedelta
    """Longest wait for nodes in flight."""
    clock: Clock
    stop: asyncio.Event
    """Event that ends the run after the current reconciliation."""

    async def reconcile(
        self,
        reconciler: Reconciler,
        states: Sequence[SourceState],
        on_pass: Callable[[ReconcileResult], None],
        whole_pass_turn: Callable[[], AbstractAsyncContextManager[None]],
    ) -> ReconcileResult:
        """Run reconciliations, each within `whole_pass_turn`, and return the last result.

        Unless the manifest or the object changes, do not retry a rejected write.

        Raises: ClusterError.
        """
        reconciler.disable_retries()
        waited, delay = 0.0, FIRST_LOOK
        for _ in range(MAX_PASSES):
            async with whole_pass_turn():
                result = await reconciler.reconcile(states)
            on_pass(result)
            if result.is_conclusive and not any(map(in_flight, result.plan.sets)):
                return result
            if result.changed:
                waited, delay = 0.0, FIRST_LOOK
            elif waited >= self.wait.total_seconds():
                return result
            if self.stop.is_set():
                return result
            delay = min(delay, seconds_until(result.plan.recheck_at, self.clock.now()))
            await wait_for_any(self.clock.sleep(delay), self.stop.wait())
            waited += delay
            delay = min(delay * 2, LAST_LOOK, max(FIRST_LOOK, self.wait.total_seconds() - waited))
        return result


@dataclass(frozen=True, slots=True)
class FleetRun:
    """Outcome of a single run over the clusters of a fleet. Each cluster is in exactly one of the mappings."""

    results: Mapping[ClusterName, ReconcileResult]
    """Result of the last reconciliation of each reconciled cluster."""

    failures: Mapping[ClusterName, str]
    """Clusters whose run is not complete, each with the reason."""

    left_alone: Mapping[ClusterName, str]
    """Clusters that Git excludes, such as paused clusters, each with the reason."""
