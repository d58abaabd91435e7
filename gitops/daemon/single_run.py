"""`run --once`: passes over a cluster until another would find nothing more, or until that has lasted for long enough."""

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
"""It is given up after so many passes: somebody else changes back what they write."""


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """Waits for what is in flight as long as it changes, and then for `wait`; ends early where `stop` is set."""

    wait: timedelta
    clock: Clock
    stop: asyncio.Event

    async def reconcile(
        self,
        reconciler: Reconciler,
        states: Sequence[SourceState],
        on_pass: Callable[[ReconcileResult], None],
        whole_pass_turn: Callable[[], AbstractAsyncContextManager[None]],
    ) -> ReconcileResult:
        """Return what the last pass has found; each is run within `whole_pass_turn`.

        What is refused is sent once, as long as nothing of it changes. Raises ClusterError.
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
    """What a single run over the clusters of a fleet has come to: the last pass of each, why others were not worked on, and which are left alone on
    purpose.
    """

    results: Mapping[ClusterName, ReconcileResult]
    failures: Mapping[ClusterName, str]
    left_alone: Mapping[ClusterName, str]
