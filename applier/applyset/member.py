"""The record that every member of a set carries: whose it is, where it stands in the order, what it depends on, what it was written from.

It arrives in the same request as the membership label, so that no member exists without its place in the order; it comes back with the same
metadata list that finds the members, so that pruning needs nothing but the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from applier.cluster import CONTENT, Object
from applier.state.managed_fields import apply_entry
from applier.state.observed import annotation, is_terminating, label, number
from applier.status.model import HealthView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, key_hash
from renderer.manifest_hash import carries, without_nulls
from renderer.render.model import RenderedApplySet, RenderedNode

DROPPED = "~"
"""Suffix of a recorded dependency that the current revision no longer has; it counts until the member is healthy."""

RECORD = (
    well_known.LEVEL,
    well_known.DEPS,
    well_known.SELF,
    well_known.NODE_ID,
    well_known.HASH,
    well_known.PARENT_UID,
    well_known.SOURCE_FILE,
    well_known.NODE,
    well_known.INSTANCE,
    well_known.REVISION,
    well_known.FILE,
    well_known.COMMIT,
)
"""All annotations that `body` may write."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live member as its metadata tells it. `level` is None and `has_record` false where the record is missing (taken over, damaged).

    `dropped` are those of `deps` that its revision no longer has.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    level: int | None
    deps: frozenset[str]
    dropped: frozenset[str]
    node: str
    file: str
    has_record: bool
    terminating: bool

    @classmethod
    def of(cls, obj: Object) -> Member:
        metadata = obj["metadata"]
        deps = [dep for dep in annotation(obj, well_known.DEPS).split(",") if dep]
        return cls(
            key=ObjectKey.of(obj),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            level=number(annotation(obj, well_known.LEVEL)),
            deps=frozenset(dep.removesuffix(DROPPED) for dep in deps),
            dropped=frozenset(dep.removesuffix(DROPPED) for dep in deps if dep.endswith(DROPPED)),
            node=annotation(obj, well_known.NODE_ID),
            file=annotation(obj, well_known.SOURCE_FILE),
            has_record=bool(annotation(obj, well_known.SELF)),
            terminating=is_terminating(obj),
        )


def body(
    rendered: RenderedApplySet,
    node: RenderedNode,
    *,
    deps: Iterable[str],
    live: Object | None,
    parent_uid: str,
    revision: str,
) -> Object:
    """The full intent of one member: its manifest, the membership label and its record, in one request.

    With a live object the uid goes along, so that a late write cannot bring back what was deleted meanwhile.
    """
    manifest = without_nulls(node.manifest)
    metadata = manifest["metadata"]
    assert node.key is not None
    record = {
        well_known.NODE: node.id,
        well_known.NODE_ID: node.id,
        well_known.LEVEL: str(node.level),
        well_known.DEPS: ",".join(sorted(deps)),
        well_known.SELF: key_hash(node.key),
        well_known.HASH: node.hash,
    }
    if not rendered.is_source:
        record[well_known.INSTANCE] = "/".join(
            filter(None, (rendered.parent.kind, rendered.parent.namespace, rendered.parent.name))
        )
        record[well_known.REVISION] = str(rendered.revision)
    else:
        record[well_known.SOURCE_FILE] = node.origin.file
    if parent_uid:
        record[well_known.PARENT_UID] = parent_uid
    if node.origin.file:
        record[well_known.FILE] = str(node.origin)
    if revision:
        record[well_known.COMMIT] = short(revision)
    marked = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), well_known.PART_OF: rendered.id},
        "annotations": {**(metadata.get("annotations") or {}), **record},
    }
    if live is not None:
        marked["uid"] = live["metadata"]["uid"]
    return {**manifest, "metadata": marked}


def short(revision: str) -> str:
    """A commit as members record it."""
    return revision[:12]


def altered(obj: Object, rendered: RenderedApplySet, node: RenderedNode, deps: Iterable[str]) -> str:
    """What is not as `body` had it in the object as the server says to have stored it, so that it would be written again; empty where all is."""
    if label(obj, well_known.PART_OF) != rendered.id:
        return f"its label {well_known.PART_OF}"
    recorded = {well_known.HASH: node.hash, well_known.DEPS: ",".join(sorted(deps))}
    if rendered.is_source:
        recorded[well_known.SOURCE_FILE] = node.origin.file
    for name, text in recorded.items():
        if annotation(obj, name) != text:
            return f"its annotation {name}"
    return "" if carries(obj, node.manifest, node.hash) else "its data"


def recorded_deps(live: Object | None, wanted: Iterable[str], *, healthy: bool) -> list[str]:
    """What to record as dependencies: those wanted, and those dropped since, marked, until the member is healthy (S0-14)."""
    wanted = set(wanted)
    if live is None or healthy:
        return sorted(wanted)
    before = {dep.removesuffix(DROPPED) for dep in annotation(live, well_known.DEPS).split(",") if dep}
    return sorted(wanted | {f"{dep}{DROPPED}" for dep in before - wanted})


def departure(obj: Object) -> str:
    """What to tell of an object that is going away: since when (RFC 3339), which finalizers it waits for, and who set them; of a Namespace what is
    left in it.

    The owner of a finalizer is not recorded anywhere; who wrote it is the likely one.
    """
    metadata = obj["metadata"]
    names = ", ".join(_with_author(name, obj) for name in metadata.get("finalizers") or ())
    left = HealthView(obj, None).remaining
    waits = f" and waits for {names}" if names else ""
    return f"is being deleted since {metadata['deletionTimestamp']}{waits}" + (f": {left}" if left else "")


def _with_author(finalizer: str, obj: Object) -> str:
    field = f"v:{orjson.dumps(finalizer).decode()}"
    for entry in obj["metadata"].get("managedFields") or ():
        if field in (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:finalizers", {}):
            return f"{finalizer} (set by {entry['manager']})"
    return finalizer


def is_proven(obj: Object) -> bool:
    """Did we write this object's membership ourselves? Anybody may add a label; only our apply owns it (KEP-3659, "Security")."""
    entry = apply_entry(obj, CONTENT)
    if entry is None or f"f:{well_known.PART_OF}" not in entry.get("fieldsV1", {}).get("f:metadata", {}).get(
        "f:labels", {}
    ):
        return False
    return not any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
