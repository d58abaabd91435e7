"""What is left of us in a cluster: every object that carries a key, a finalizer or a field manager of ours.

Nothing is taken from an inventory: what a crash, an older version or a hand left outside all sets is found as well. Reads metadata only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from applier.applyset.inventory import TOOL, tool_of
from applier.cluster import CONTENT, PARENT, PEOPLE, STATUS, Cluster, Discovery, Object
from applier.errors import ClusterError, KindNotServed
from applier.state.observed import annotation, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey

MANAGERS = frozenset({CONTENT, PARENT, STATUS, PEOPLE})
PREFIXES = ("levelgate.dev/", "internal.levelgate.dev/")

_NEVER_OURS = frozenset({GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")})


@dataclass(frozen=True, slots=True)
class LeftoverSurvey:
    """Metadata of all objects with a trace of ours or a key of an ApplySet; `refused` are kinds that could not be listed."""

    discovery: Discovery
    objects: Mapping[ObjectKey, Object]
    refused: Mapping[GroupKind, ClusterError]


async def survey(cluster: Cluster) -> LeftoverSurvey:
    """Look through everything that the cluster holds and that can be written: one list of metadata for each kind."""
    discovery = await cluster.discover(refresh=True)
    kinds = sorted(kind for kind, one in discovery.resources.items() if {"list", "patch"} <= one.verbs)
    wanted = [kind for kind in kinds if kind not in _NEVER_OURS]
    answers = await asyncio.gather(*(_traced(cluster, kind) for kind in wanted))
    found = [obj for answer in answers if isinstance(answer, list) for obj in answer]
    refused = {kind: one for kind, one in zip(wanted, answers, strict=True) if isinstance(one, ClusterError)}
    return LeftoverSurvey(discovery, {ObjectKey.of(obj): obj for obj in found}, refused)


async def _traced(cluster: Cluster, kind: GroupKind) -> list[Object] | ClusterError:
    try:
        listed = await cluster.list(kind, metadata_only=True)
    except KindNotServed:
        return []
    except ClusterError as error:
        return error
    return [obj for obj in listed if is_ours(obj) or label(obj, well_known.PART_OF) or label(obj, well_known.PARENT_ID)]


def is_ours(obj: Object) -> bool:
    """Does the object carry a key, a finalizer or a field manager of ours?"""
    metadata = obj["metadata"]
    return (
        any(ours_among(metadata.get("labels")))
        or any(ours_among(metadata.get("annotations")))
        or well_known.FINALIZER in (metadata.get("finalizers") or ())
        or any(entry.get("manager") in MANAGERS for entry in metadata.get("managedFields") or ())
    )


def our_sets(found: LeftoverSurvey) -> frozenset[str]:
    """Ids of our sets, by their parents and by the records on members: the parent may be gone. One that another tool took over is not ours."""
    recorded = {label(obj, well_known.PART_OF) for obj in found.objects.values() if annotation(obj, well_known.SELF)}
    parents = [obj for obj in found.objects.values() if label(obj, well_known.PARENT_ID)]
    ours = {label(obj, well_known.PARENT_ID) for obj in parents if is_our_parent(obj)}
    others = {label(obj, well_known.PARENT_ID) for obj in parents if not is_our_parent(obj)}
    return frozenset((recorded | ours) - others - {""})


def is_our_parent(obj: Object) -> bool:
    return bool(label(obj, well_known.PARENT_ID)) and tool_of(obj) == TOOL


def ours_among(texts: Mapping[str, Any] | None) -> Iterator[str]:
    """Which of these labels or annotations are ours, those that people wrote for us included; but for the one by which roles grant us rights."""
    return (name for name in texts or () if name.startswith(PREFIXES) and name != well_known.AGGREGATE)
