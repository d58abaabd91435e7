"""Ask a cluster everything that `judge` needs to know. Reads only."""

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
_EVERYTHING = ResourceAttributes("*", "*", verb="*")
_VERBS = ("get", "list", "watch", "create", "patch", "delete")


class CheckedCluster(Cluster, Protocol):
    """A cluster that also tells what it is and what we may do there."""

    async def version(self) -> str:
        """The Kubernetes version."""

    async def may(self, permission: ResourceAttributes) -> bool:
        """Does the server allow us this?"""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a cluster answered. `version` is this program's; `crds` are those of definitions, whole; `kro` says what shows that it runs,
    `kro_definitions` of which kinds it has definitions; `missing` are permissions that we need and do not have.
    """

    version: str
    kubernetes: str
    survey: LeftoverSurvey
    records: Mapping[str, SourceRecord]
    crds: Mapping[ObjectKey, Object]
    kro: str
    kro_definitions: Mapping[ObjectKey, GroupKind]
    missing: tuple[ResourceAttributes, ...]
    now: datetime


async def examine(cluster: CheckedCluster, *, version: str, now: datetime) -> ClusterFacts:
    """Raises ClusterError only where the cluster does not answer at all."""
    kubernetes, found = await asyncio.gather(cluster.version(), survey(cluster))
    keys_of_crds = [
        key for key, obj in found.objects.items() if key.group_kind == CRD and annotation(obj, well_known.DEFINITION)
    ]
    crds = await asyncio.gather(*(_or(cluster.get(key), None) for key in keys_of_crds))
    return ClusterFacts(
        version=version,
        kubernetes=kubernetes,
        survey=found,
        records=dict(await _or(read_records(cluster), [])),
        crds={ObjectKey.of(crd): crd for crd in crds if crd},
        kro=await _or(kro.running(cluster, now), ""),
        kro_definitions=await _or(kro.definitions(cluster), {}),
        missing=await _missing(cluster, needed(found)),
        now=now,
    )


def needed(found: LeftoverSurvey) -> list[ResourceAttributes]:
    """What Levelgate does in this cluster, as permissions: its own records, CRDs, every kind that a set of ours holds, and those of definitions."""
    sets, served = our_sets(found), found.discovery.resources
    members = {key.group_kind for key, obj in found.objects.items() if label(obj, well_known.PART_OF) in sets}
    instances = {key.group_kind for key, obj in found.objects.items() if is_our_parent(obj)} - {_CONFIG_MAP}
    defined = {
        key.name
        for key, obj in found.objects.items()
        if key.group_kind == CRD and annotation(obj, well_known.DEFINITION)
    }
    instances |= {kind for kind, one in served.items() if f"{one.plural}.{one.group}" in defined}
    wanted = {ResourceAttributes("", "configmaps", OWN_NAMESPACE, verb=verb) for verb in _VERBS[:-1]}
    wanted |= {ResourceAttributes("apps", "controllerrevisions", OWN_NAMESPACE, verb=verb) for verb in _VERBS}
    wanted |= {
        ResourceAttributes("coordination.k8s.io", "leases", OWN_NAMESPACE, verb=verb)
        for verb in ("get", "create", "patch")
    }
    wanted |= {ResourceAttributes("", "namespaces", verb=verb) for verb in ("get", "create", "patch")}
    for one in (served[kind] for kind in {CRD, *members, *instances} if kind in served):
        wanted |= {ResourceAttributes(one.group, one.plural, verb=verb) for verb in _VERBS}
        if one.group_kind in instances:
            wanted.add(ResourceAttributes(one.group, one.plural, subresource="status", verb="patch"))
    return sorted(wanted)


async def _missing(cluster: CheckedCluster, wanted: list[ResourceAttributes]) -> tuple[ResourceAttributes, ...]:
    """One question for whoever may do everything, else one for each permission."""
    if await cluster.may(_EVERYTHING):
        return ()
    held = await asyncio.gather(*map(cluster.may, wanted))
    return tuple(one for one, is_held in zip(wanted, held, strict=True) if not is_held)


async def _or(asked: Awaitable[T], otherwise: T) -> T:
    """What the cluster answers. What it refuses is among the missing permissions, and the rest is worth knowing."""
    try:
        return await asked
    except ClusterError:
        return otherwise
