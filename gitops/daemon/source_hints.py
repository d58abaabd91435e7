"""A word that there is something new of sources, given to the process that leads.

Of several processes any one may be told, such as by a forge that calls a Service: one that does not lead passes it on, as a person would ask with
`levelgate reconcile`, by an annotation on the record of the source.
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


@dataclass(frozen=True, slots=True)
class SyncHintForwarder:
    """`leads` says whether this process does, `poll` asks where sources stand. `cluster` takes writes of a process that does not lead, too."""

    cluster: Cluster
    clock: Clock
    leads: Callable[[], bool]
    poll: Callable[..., None]

    async def take(self, *sources: str) -> None:
        """Ask for these soon. A source without a record is asked for when its turn comes. Raises ClusterError where it cannot be passed on."""
        if self.leads():
            self.poll(*sorted(set(sources)))
            return
        if await describe_suspension(self.cluster, self.clock.now()):
            return
        said = {"metadata": {"annotations": {well_known.SYNC_REQUESTED_AT: micro_timestamp(self.clock.now())}}}
        await asyncio.gather(
            *(self.cluster.merge(source_parent(name), said, manager=STATUS_MANAGER) for name in sources)
        )
