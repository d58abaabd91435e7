"""How to take everything of ours off an object and leave the rest as it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from applier.applyset.inventory import TOOL, tool_of
from applier.cluster import Object
from applier.read.leftovers import OUR_MANAGERS, filter_ours
from applier.state.observed import annotation, label
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.kinds import CRD, NAMESPACE

_PARENT_KEYS = (well_known.TOOLING, well_known.GROUP_KINDS, well_known.NAMESPACES)


def strip_metadata(obj: Object, sets: Collection[str]) -> Object | None:
    """The merge patch that takes everything of ours off exactly this object, None where there is nothing; `sets` are the ids of our sets.

    Content stays as it is. What we had applied belongs to nobody afterwards; where nobody else owns anything either, the server calls the owner
    `before-first-apply` (KEP-555), and another value takes one forced apply.
    """
    metadata = obj["metadata"]
    labels = [*filter_ours(metadata.get("labels")), *_set_labels(obj, sets)]
    annotations = [*filter_ours(metadata.get("annotations"))]
    if tool_of(obj) == TOOL:
        annotations += [name for name in _PARENT_KEYS if name in metadata["annotations"]]
    change: Object = {}
    if labels:
        change["labels"] = dict.fromkeys(labels)
    if annotations:
        change["annotations"] = dict.fromkeys(annotations)
    finalizers = metadata.get("finalizers") or []
    if well_known.FINALIZER in finalizers:
        change["finalizers"] = [name for name in finalizers if name != well_known.FINALIZER]
    entries = metadata.get("managedFields") or []
    others = [entry for entry in entries if entry.get("manager") not in OUR_MANAGERS]
    if others != entries:
        change["managedFields"] = others or [{}]  # an empty list would change nothing
    if not change:
        return None
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], **change}}


def _set_labels(obj: Object, sets: Collection[str]) -> Iterator[str]:
    """Labels without our prefix that are our doing: KEP-3659's of our sets, on CRDs of definitions, on our own namespace."""
    for name in (well_known.PART_OF, well_known.PARENT_ID):
        if label(obj, name) in sets:
            yield name
    kind = ObjectKey.from_manifest(obj).group_kind
    if kind == CRD and annotation(obj, well_known.DEFINITION) and label(obj, well_known.IS_PARENT_TYPE):
        yield well_known.IS_PARENT_TYPE
    if kind == NAMESPACE and label(obj, well_known.MANAGED_BY) == TOOL:
        yield well_known.MANAGED_BY
