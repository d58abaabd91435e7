"""Whether a cluster is the hub of a fleet. All that most commands need of fleets, so that those without one load nothing of them."""

from __future__ import annotations

from typing import Final

from applier.cluster import Reader
from gitops.records.installation import CLUSTER_RECORD
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind

CLUSTER_RECORDS: Final = f"{well_known.RECORD}={CLUSTER_RECORD}"


async def is_fleet_hub(cluster: Reader) -> bool:
    """Return whether a hub keeps records of clusters here. Raises ClusterError."""
    found = await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=CLUSTER_RECORDS, metadata_only=True)
    return bool(found)
