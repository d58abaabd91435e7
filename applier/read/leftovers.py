"""Search for leftovers in a cluster: objects that have keys, finalizers or field managers of Levelgate.

The survey uses no inventory. So the survey also finds objects that a crash, an older version or a person left outside
of all sets. The survey reads metadata only. `strip_metadata` builds the patch that cleans an object, and is pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from applier.applyset.inventory import TOOL, tool_of
from applier.applyset.member import foreign_finalizers, has_own_finalizer
from applier.cluster import CLI_MANAGER, CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, Cluster, Discovery, Object
from applier.errors import ClusterError, KindNotServed
from applier.state.managed_fields import manager_entries
from applier.state.observed import annotation, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE

OUR_MANAGERS = frozenset({CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, CLI_MANAGER})
OUR_PREFIXES = ("levelgate.dev/", "internal.levelgate.dev/")

_IGNORED_KINDS = frozenset({GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")})


@dataclass(frozen=True, slots=True)
class LeftoverSurvey:
    """Metadata of all objects with traces of Levelgate or keys of an ApplySet."""

    discovery: Discovery
    objects: Mapping[ObjectKey, Object]
    list_errors: Mapping[GroupKind, ClusterError]
    """Kinds that the survey could not list, each with the error."""


async def survey(cluster: Cluster) -> LeftoverSurvey:
    """Return the objects that have traces of Levelgate and whose kinds the server can list and patch.

    The survey lists only the metadata of each object.

    Raises: ClusterError if discovery fails.
    """
    discovery = await cluster.discover(refresh=True)
    kinds = sorted(kind for kind, resource in discovery.resources.items() if {"list", "patch"} <= resource.verbs)
    candidate_kinds = [kind for kind in kinds if kind not in _IGNORED_KINDS]
    answers = await asyncio.gather(*(_list_traced(cluster, kind) for kind in candidate_kinds))
    traced_objects = [obj for answer in answers if isinstance(answer, list) for obj in answer]
    list_errors = {
        kind: kind_answer
        for kind, kind_answer in zip(candidate_kinds, answers, strict=True)
        if isinstance(kind_answer, ClusterError)
    }
    return LeftoverSurvey(discovery, {ObjectKey.from_manifest(obj): obj for obj in traced_objects}, list_errors)


async def _list_traced(cluster: Cluster, kind: GroupKind) -> list[Object] | ClusterError:
    try:
        listed = await cluster.list(kind, metadata_only=True)
    except KindNotServed:
        return []
    except ClusterError as error:
        return error
    return [obj for obj in listed if is_ours(obj) or label(obj, well_known.PART_OF) or label(obj, well_known.PARENT_ID)]


def is_ours(obj: Object) -> bool:
    """Return whether `obj` has a label, an annotation, a finalizer or a field manager of Levelgate."""
    metadata = obj["metadata"]
    return (
        any(filter_ours(metadata.get("labels")))
        or any(filter_ours(metadata.get("annotations")))
        or has_own_finalizer(obj)
        or any(entry.get("manager") in OUR_MANAGERS for entry in manager_entries(obj))
    )


def our_sets(leftovers: LeftoverSurvey) -> frozenset[str]:
    """Return the ids of Levelgate's sets, from parents and from the records of members whose parent is gone.

    The result does not contain the id of a set that another tool took over.
    """
    recorded_ids = {
        label(obj, well_known.PART_OF) for obj in leftovers.objects.values() if annotation(obj, well_known.SELF)
    }
    parents = [obj for obj in leftovers.objects.values() if label(obj, well_known.PARENT_ID)]
    our_ids = {label(obj, well_known.PARENT_ID) for obj in parents if is_our_parent(obj)}
    foreign_ids = {label(obj, well_known.PARENT_ID) for obj in parents if not is_our_parent(obj)}
    return frozenset((recorded_ids | our_ids) - foreign_ids - {""})


def is_our_parent(obj: Object) -> bool:
    """Return whether `obj` is the parent of a set of Levelgate."""
    return bool(label(obj, well_known.PARENT_ID)) and tool_of(obj) == TOOL


def filter_ours(texts: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the names of Levelgate's labels or annotations in `texts`.

    The annotations by which people send requests to Levelgate count. The label by which roles grant rights to Levelgate
    does not count.
    """
    return (name for name in texts or () if name.startswith(OUR_PREFIXES) and name != well_known.AGGREGATE)


_PARENT_KEYS = (well_known.TOOLING, well_known.GROUP_KINDS, well_known.NAMESPACES)


def strip_metadata(obj: Object, sets: Collection[str]) -> Object | None:
    """Return the merge patch that removes Levelgate's metadata from this version of `obj`.

    If `obj` has no such metadata, return None. The content stays, but Levelgate no longer owns the content. If the
    patched object has no owner at all, the server assigns the fields to `before-first-apply` (KEP-555). In that case,
    the next apply of another value has to use force.

    Args:
        sets: ids of Levelgate's sets.
    """
    metadata = obj["metadata"]
    labels = [*filter_ours(metadata.get("labels")), *_set_labels(obj, sets)]
    annotations = [*filter_ours(metadata.get("annotations"))]
    if tool_of(obj) == TOOL:
        annotations += [name for name in _PARENT_KEYS if name in metadata["annotations"]]
    change: Object = {
        name: dict.fromkeys(keys) for name, keys in (("labels", labels), ("annotations", annotations)) if keys
    }
    if has_own_finalizer(obj):
        change["finalizers"] = foreign_finalizers(obj)
    entries = manager_entries(obj)
    others = [entry for entry in entries if entry.get("manager") not in OUR_MANAGERS]
    if others != entries:
        change["managedFields"] = others or [{}]  # an empty list would change nothing
    if not change:
        return None
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], **change}}


def _set_labels(obj: Object, sets: Collection[str]) -> Iterator[str]:
    """Yield the names of the labels that Levelgate sets and that do not have Levelgate's prefix.

    Levelgate sets the labels of KEP-3659 on members and parents of `sets`, on CRDs of definitions, and on its own
    namespace.
    """
    for name in (well_known.PART_OF, well_known.PARENT_ID):
        if label(obj, name) in sets:
            yield name
    kind = ObjectKey.from_manifest(obj).group_kind
    if kind == CRD and annotation(obj, well_known.DEFINITION) and label(obj, well_known.IS_PARENT_TYPE):
        yield well_known.IS_PARENT_TYPE
    if kind == NAMESPACE and label(obj, well_known.MANAGED_BY) == TOOL:
        yield well_known.MANAGED_BY
