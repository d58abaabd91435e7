"""Detection of the hub of a fleet.

Most commands need no other code of fleets, so the detection has a separate module.
"""

from __future__ import annotations

from typing import Final

from applier.cluster import Reader
from gitops.records.installation import CLUSTER_RECORD
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind

CLUSTER_RECORDS: Final = f"{well_known.RECORD}={CLUSTER_RECORD}"
"""Label selector of the records of clusters."""


async def is_fleet_hub(cluster: Reader) -> bool:
    """Return whether the cluster contains records of member clusters. Raises: ClusterError."""
    found = await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=CLUSTER_RECORDS, metadata_only=True)
    return bool(found)
