"""Forwarding of hints about new commits to the leading process.

A forge calls a Service, so a webhook may reach any of several processes. If a process does not lead, the process
annotates the record of the source, as `levelgate reconcile` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from applier.cluster import STATUS_MANAGER, Cluster
from gitops.clock import Clock
from gitops.records.instance_state import describe_suspension
from gitops.timestamps import micro_timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import source_parent


@dataclass
class SyncHintForwarder:
    """Receiver of hints about sources.

    The receiver polls the sources in this process, or informs the leading process.
    """

    cluster: Cluster
    """Cluster that accepts writes even if this process does not lead."""

    clock: Clock
    leads: Callable[[], bool]
    """Function that returns whether this process leads."""

    poll: Callable[..., None]
    """Function of the leading process that polls the named sources soon."""

    async def take(self, *sources: str) -> None:
        """Poll `sources` soon, in this process or in the leading process.

        If a source has no record, forward no hint, so that the source waits for its regular poll. During a suspension,
        forward no hint.

        Raises: ClusterError.
        """
        if self.leads():
            self.poll(*sorted(set(sources)))
            return
        if await describe_suspension(self.cluster, self.clock.now()):
            return
        request = {"metadata": {"annotations": {well_known.SYNC_REQUESTED_AT: micro_timestamp(self.clock.now())}}}
        await asyncio.gather(
            *(self.cluster.merge(source_parent(name), request, manager=STATUS_MANAGER) for name in sources)
        )
