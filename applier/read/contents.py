"""Search for the contents of a Namespace or CRD, immediately before a deletion would destroy the contents."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from applier.cluster import Reader, list_if_served
from applier.errors import Unavailable
from applier.state.observed import Observed, is_controlled
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE, defined_kind

_UBIQUITOUS_KINDS = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("", "Endpoints"),
        GroupKind("discovery.k8s.io", "EndpointSlice"),
        GroupKind("coordination.k8s.io", "Lease"),
    }
)


async def contents_of(
    cluster: Reader, key: ObjectKey, observed: Observed, ignored_keys: Collection[ObjectKey] = ()
) -> str:
    """Return the name of an object that the deletion of the Namespace or CRD `key` would destroy, or an empty string.

    For a Namespace, every object counts, with three exceptions: objects in `ignored_keys`, objects that a controller
    owns, and objects that every Namespace has. For a CRD, every custom object counts. If the deletion would destroy no
    object, or `key` has another kind, return an empty string.

    Raises: ClusterError if the contents are unknown.
    """
    if key.group_kind == CRD:
        custom_objects = await list_if_served(cluster, defined_kind(observed.objects[key]), metadata_only=True)
        return str(ObjectKey.from_manifest(custom_objects[0])) if custom_objects else ""
    if key.group_kind != NAMESPACE:
        return ""
    discovery = await cluster.discover(refresh=True)  # other clients may have added kinds, and objects of them
    if discovery.stale_groups:
        silent_groups = ", ".join(sorted(discovery.stale_groups))
        raise Unavailable(
            f"{key}: the contents are unknown, because the API server of {silent_groups} does not answer; "
            "check its APIService"
        )
    kinds = [
        kind for kind, resource in discovery.resources.items() if resource.namespaced and discovery.is_listable(kind)
    ]
    for objects in await asyncio.gather(
        *(
            list_if_served(cluster, kind, key.name, metadata_only=True)
            for kind in sorted(set(kinds) - _UBIQUITOUS_KINDS)
        )
    ):
        for obj in objects:
            if (
                not is_controlled(obj)
                and not _belongs_to_every_namespace(content_key := ObjectKey.from_manifest(obj))
                and content_key not in ignored_keys
            ):
                return str(content_key)
    return ""


def _belongs_to_every_namespace(key: ObjectKey) -> bool:
    return (key.kind, key.name) in {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),
    }
