"""Reader of the facts about a cluster that `cluster_check` needs. The reader writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from applier.applyset import kro
from applier.cluster import Cluster, Object, ResourceAttributes
from applier.errors import ClusterError
from applier.read.leftovers import LeftoverSurvey, is_our_parent, our_sets, survey
from applier.state.observed import annotation, label
from gitops.records.source_record import SourceRecord, read_records
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from renderer.kinds import CRD

T = TypeVar("T")

_CONFIG_MAP = GroupKind("", "ConfigMap")
_ALL_PERMISSIONS = ResourceAttributes("*", "*", verb="*")
_VERBS = ("get", "list", "watch", "create", "patch", "delete")


class CheckedCluster(Cluster, Protocol):
    """Cluster that reports its version and Levelgate's permissions."""

    async def version(self) -> str:
        """Return the Kubernetes version of the cluster. Raises: ClusterError."""

    async def may(self, permission: ResourceAttributes) -> bool:
        """Return whether the API server grants `permission` to the user of this connection. Raises: ClusterError."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Objects, records and permissions that one cluster reports."""

    version: str
    """Version of this Levelgate."""
    kubernetes_version: str
    survey: LeftoverSurvey
    records: Mapping[str, SourceRecord]
    """Records of sources, by the name of the source."""
    crds: Mapping[ObjectKey, Object]
    """CRDs of Levelgate's definitions, with all their fields."""
    kro: str
    """Evidence that kro runs in the cluster, or an empty string if no evidence exists."""
    kro_definitions: Mapping[ObjectKey, GroupKind]
    """Kinds that kro's definitions in the cluster define, by the key of the definition."""
    missing_permissions: tuple[ResourceAttributes, ...]
    """Permissions that Levelgate needs and does not have."""
    now: datetime


async def examine(cluster: CheckedCluster, *, version: str, now: datetime) -> ClusterFacts:
    """Return all facts about `cluster`. If the cluster does not report a fact, the fact is empty.

    Args:
        version: version of this Levelgate.

    Raises: ClusterError if the cluster does not answer at all.
    """
    kubernetes, leftovers = await asyncio.gather(cluster.version(), survey(cluster))
    keys_of_crds = [
        key
        for key, obj in leftovers.objects.items()
        if key.group_kind == CRD and annotation(obj, well_known.DEFINITION)
    ]
    crds = await asyncio.gather(*(_or_default(cluster.get(key), None) for key in keys_of_crds))
    return ClusterFacts(
        version=version,
        kubernetes_version=kubernetes,
        survey=leftovers,
        records=dict(await _or_default(read_records(cluster), [])),
        crds={ObjectKey.from_manifest(crd): crd for crd in crds if crd},
        kro=await _or_default(kro.describe_running(cluster, now), ""),
        kro_definitions=await _or_default(kro.list_definitions(cluster), {}),
        missing_permissions=await _find_missing(cluster, needed_permissions(leftovers)),
        now=now,
    )


def needed_permissions(leftovers: LeftoverSurvey) -> list[ResourceAttributes]:
    """Return the permissions that Levelgate needs in the cluster of `leftovers`, sorted.

    Levelgate needs permissions on its own records, on CRDs, and on the kinds of its definitions. Levelgate also needs
    permissions on the kind of each member of its ApplySets.
    """
    sets, served = our_sets(leftovers), leftovers.discovery.resources
    members = {key.group_kind for key, obj in leftovers.objects.items() if label(obj, well_known.PART_OF) in sets}
    instances = {key.group_kind for key, obj in leftovers.objects.items() if is_our_parent(obj)} - {_CONFIG_MAP}
    defined = {
        key.name
        for key, obj in leftovers.objects.items()
        if key.group_kind == CRD and annotation(obj, well_known.DEFINITION)
    }
    instances |= {kind for kind, resource in served.items() if f"{resource.plural}.{resource.group}" in defined}
    permissions = {ResourceAttributes("", "configmaps", OWN_NAMESPACE, verb=verb) for verb in _VERBS[:-1]}
    permissions |= {ResourceAttributes("apps", "controllerrevisions", OWN_NAMESPACE, verb=verb) for verb in _VERBS}
    permissions |= {
        ResourceAttributes("coordination.k8s.io", "leases", OWN_NAMESPACE, verb=verb)
        for verb in ("get", "create", "patch")
    }
    permissions |= {ResourceAttributes("", "namespaces", verb=verb) for verb in ("get", "create", "patch")}
    for resource in (served[kind] for kind in {CRD, *members, *instances} if kind in served):
        permissions |= {ResourceAttributes(resource.group, resource.plural, verb=verb) for verb in _VERBS}
        if resource.group_kind in instances:
            permissions.add(ResourceAttributes(resource.group, resource.plural, subresource="status", verb="patch"))
    return sorted(permissions)


async def _find_missing(
    cluster: CheckedCluster, permissions: list[ResourceAttributes]
) -> tuple[ResourceAttributes, ...]:
    """Return the permissions among `permissions` that the API server does not grant.

    A single request finds the permissions of an administrator. For any other user, each permission needs one further
    request.
    """
    if await cluster.may(_ALL_PERMISSIONS):
        return ()
    answers = await asyncio.gather(*map(cluster.may, permissions))
    return tuple(permission for permission, is_granted in zip(permissions, answers, strict=True) if not is_granted)


async def _or_default(request: Awaitable[T], default: T) -> T:
    """Return the answer to `request`, or `default` if the request fails.

    If the API server refuses a request, the list of missing permissions contains the cause.
    """
    try:
        return await request
    except ClusterError:
        return default
