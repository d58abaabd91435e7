"""What would die with a Namespace or a CRD though it was never in a set; looked at right before either is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from applier.cluster import Object, Reader
from applier.errors import KindNotServed, Unavailable
from applier.state.observed import Observed
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE, defined_kind

_IN_EVERY_NAMESPACE = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("", "Endpoints"),
        GroupKind("discovery.k8s.io", "EndpointSlice"),
        GroupKind("coordination.k8s.io", "Lease"),
    }
)


async def contents_of(cluster: Reader, key: ObjectKey, observed: Observed, besides: Collection[ObjectKey] = ()) -> str:
    """What would die with a Namespace or a CRD though it was never in a set; empty for other kinds and where nothing would. What a Namespace holds
    `besides` does not count.

    Raises ClusterError where that cannot be told.
    """
    if key.group_kind == CRD:
        found = await _listed(cluster, defined_kind(observed.objects[key]), None)
        return str(ObjectKey.of(found[0])) if found else ""
    if key.group_kind != NAMESPACE:
        return ""
    discovery = await cluster.discover(refresh=True)  # others may have brought a kind since, and objects of it
    if discovery.stale:
        silent = ", ".join(sorted(discovery.stale))
        raise Unavailable(
            f"{key}: what is in it cannot be told: no answer from the API server of {silent}; see its APIService"
        )
    kinds = [kind for kind, one in discovery.resources.items() if one.namespaced and discovery.keeps(kind)]
    for objects in await asyncio.gather(
        *(_listed(cluster, kind, key.name) for kind in sorted(set(kinds) - _IN_EVERY_NAMESPACE))
    ):
        for obj in objects:
            owned = any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
            if not owned and not _belongs_to_every_namespace(one := ObjectKey.of(obj)) and one not in besides:
                return str(one)
    return ""


async def _listed(cluster: Reader, kind: GroupKind, namespace: str | None) -> list[Object]:
    try:
        return await cluster.list(kind, namespace, metadata_only=True)
    except KindNotServed:
        return []


def _belongs_to_every_namespace(key: ObjectKey) -> bool:
    return (key.kind, key.name) in {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),
    }
