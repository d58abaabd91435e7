"""Record on each member: its set, its level, its dependencies, and the manifest from which Levelgate wrote the member.

Levelgate writes the record in the same request as the membership label, so that every member has a record. The
metadata list that finds the members also returns their records, so that pruning needs no further read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from applier.cluster import CONTENT_MANAGER, Object
from applier.state.managed_fields import apply_entry, manager_entries, owned_metadata
from applier.state.observed import annotation, is_controlled, is_terminating, label, number
from applier.status.model import HealthView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, key_hash
from renderer.manifest_hash import is_written_from, without_nulls
from renderer.render.model import READ_SUFFIX, RenderedApplySet, RenderedNode

DROPPED_SUFFIX = "~"
"""Suffix of a recorded dependency that the present revision no longer has. The dependency counts until the member is
healthy.
"""

RECORD_ANNOTATIONS = (
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
"""All annotations that `member_body` may write."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live member, as its metadata describes the member.

    If the record is missing or damaged, `level` is None and `has_record` is false.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    level: int | None
    dependencies: frozenset[str]
    """Hashes of the keys of objects that the member depends on, including `dropped_dependencies`."""
    dropped_dependencies: frozenset[str]
    """Hashes of the keys in `dependencies` that the present revision of the member no longer has."""
    reads: frozenset[str]
    """Hashes of the keys that the member reads by `externalRef`, including dropped reads."""
    node_id: str
    source_file: str
    has_record: bool
    is_terminating: bool

    @classmethod
    def from_object(cls, obj: Object) -> Member:
        """Return the member that the metadata of `obj` describes."""
        metadata = obj["metadata"]
        recorded = [dependency for dependency in annotation(obj, well_known.DEPS).split(",") if dependency]
        named = {dependency.removesuffix(DROPPED_SUFFIX) for dependency in recorded}
        dropped = {
            dependency.removesuffix(DROPPED_SUFFIX) for dependency in recorded if dependency.endswith(DROPPED_SUFFIX)
        }
        return cls(
            key=ObjectKey.from_manifest(obj),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            level=number(annotation(obj, well_known.LEVEL)),
            dependencies=frozenset(dependency for dependency in named if not dependency.endswith(READ_SUFFIX)),
            dropped_dependencies=frozenset(
                dependency for dependency in dropped if not dependency.endswith(READ_SUFFIX)
            ),
            reads=frozenset(
                dependency.removesuffix(READ_SUFFIX) for dependency in named if dependency.endswith(READ_SUFFIX)
            ),
            node_id=annotation(obj, well_known.NODE_ID),
            source_file=annotation(obj, well_known.SOURCE_FILE),
            has_record=bool(annotation(obj, well_known.SELF)),
            is_terminating=is_terminating(obj),
        )


class RecordedSet(Protocol):
    """Facts of a set that its members record."""

    @property
    def id(self) -> str: ...

    @property
    def parent(self) -> ObjectKey: ...

    @property
    def is_source(self) -> bool: ...

    @property
    def revision(self) -> int:
        """Return the number of the definition revision from which the set is rendered."""


MembersByHash = Mapping[str, tuple[Member, ...]]
"""Live members, by the hash of each key that the members use."""


def member_body(
    applyset: RecordedSet,
    node: RenderedNode,
    *,
    dependencies: Iterable[str],
    live: Object | None,
    parent_uid: str,
    commit: str,
) -> Object:
    """Return the full apply of a member: its manifest, the membership label and its record, in a single request.

    If `live` is an object, the apply contains the uid of `live`. If another client meanwhile deletes the object, a
    late write cannot create the object again.
    """
    manifest = without_nulls(node.manifest)
    metadata = manifest["metadata"]
    assert node.key is not None
    record = {
        well_known.NODE: node.id,
        well_known.NODE_ID: node.id,
        well_known.LEVEL: str(node.level),
        well_known.DEPS: ",".join(sorted(dependencies)),
        well_known.SELF: key_hash(node.key),
        well_known.HASH: node.hash,
    }
    if not applyset.is_source:
        record[well_known.INSTANCE] = "/".join(
            filter(None, (applyset.parent.kind, applyset.parent.namespace, applyset.parent.name))
        )
        record[well_known.REVISION] = str(applyset.revision)
    else:
        record[well_known.SOURCE_FILE] = node.origin.file
    optional_record = {
        well_known.PARENT_UID: parent_uid,
        well_known.FILE: str(node.origin) if node.origin.file else "",
        well_known.COMMIT: short_commit(commit),
    }
    record |= {name: text for name, text in optional_record.items() if text}
    metadata_with_record = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), well_known.PART_OF: applyset.id},
        "annotations": {**(metadata.get("annotations") or {}), **record},
    }
    if live is not None:
        metadata_with_record["uid"] = live["metadata"]["uid"]
    return {**manifest, "metadata": metadata_with_record}


def short_commit(commit: str) -> str:
    """Return the first 12 characters of `commit`, which members record."""
    return commit[:12]


def find_alteration(obj: Object, rendered: RenderedApplySet, node: RenderedNode, dependencies: Iterable[str]) -> str:
    """Return the part of `member_body` that the stored object `obj` lacks, or an empty string if no part is missing.

    If a part is missing, the next plan would repeat the write.
    """
    if label(obj, well_known.PART_OF) != rendered.id:
        return f"its label {well_known.PART_OF}"
    recorded = {well_known.HASH: node.hash, well_known.DEPS: ",".join(sorted(dependencies))}
    if rendered.is_source:
        recorded[well_known.SOURCE_FILE] = node.origin.file
    for name, text in recorded.items():
        if annotation(obj, name) != text:
            return f"its annotation {name}"
    return "" if is_written_from(obj, node.manifest, node.hash) else "its data"


def dependencies_to_record(live: Object | None, required: Iterable[str], *, is_healthy: bool) -> list[str]:
    """Return the dependencies that a member records.

    The result contains the `required` dependencies. Until the member is healthy, the result also contains the dropped
    dependencies, with a mark (S0-14).
    """
    required = set(required)
    if live is None or is_healthy:
        return sorted(required)
    recorded = {
        dependency.removesuffix(DROPPED_SUFFIX)
        for dependency in annotation(live, well_known.DEPS).split(",")
        if dependency
    }
    return sorted(required | {f"{dependency}{DROPPED_SUFFIX}" for dependency in recorded - required})


def describe_deletion(obj: Object) -> str:
    """Return a text about the deletion of `obj`: the time of the request, and the obstacles that remain.

    The time is from the server's clock (RFC 3339). For each finalizer, the text names the manager that wrote the
    finalizer. Kubernetes records no owner of a finalizer, so this manager is the probable owner. For a Namespace, the
    text adds the remaining contents.
    """
    metadata = obj["metadata"]
    finalizers = ", ".join(_describe_finalizer(name, obj) for name in metadata.get("finalizers") or ())
    remaining = HealthView(obj, None).deletion_obstacles
    finalizer_text = f" and waits for {finalizers}" if finalizers else ""
    return f"is being deleted (requested at {metadata['deletionTimestamp']}){finalizer_text}" + (
        f": {remaining}" if remaining else ""
    )


def has_own_finalizer(obj: Object) -> bool:
    """Return whether `obj` has the finalizer of Levelgate."""
    return well_known.FINALIZER in (obj["metadata"].get("finalizers") or ())


def foreign_finalizers(obj: Object) -> list[str]:
    """Return the finalizers of `obj` that other controllers have to remove."""
    return [name for name in obj["metadata"].get("finalizers") or () if name != well_known.FINALIZER]


def _describe_finalizer(finalizer: str, obj: Object) -> str:
    for entry in manager_entries(obj):
        if finalizer in owned_metadata(entry, "finalizers"):
            return f"{finalizer} (set by {entry['manager']})"
    return finalizer


def is_membership_proven(obj: Object) -> bool:
    """Return whether Levelgate wrote the membership label of `obj`.

    Every client may set the label, but only the apply of Levelgate owns the label (KEP-3659, "Security"). An object
    that a controller owns is not a member.
    """
    is_ours = well_known.PART_OF in owned_metadata(apply_entry(obj, CONTENT_MANAGER), "labels")
    return is_ours and not is_controlled(obj)


def is_record_proven(obj: Object) -> bool:
    """Return whether Levelgate wrote the record of `obj`, for this object, and still owns the record.

    The apply of Levelgate owns a record that Levelgate wrote. If a client copies the record to another object, that
    client owns the copy. A released object has no record.
    """
    owned = owned_metadata(apply_entry(obj, CONTENT_MANAGER), "annotations")
    is_ours = well_known.SELF in owned and annotation(obj, well_known.SELF) == key_hash(ObjectKey.from_manifest(obj))
    return is_ours and not is_controlled(obj)


def is_of_set(obj: Object, parent: Object) -> bool:
    """Return whether Levelgate's record on `obj` names the set of `parent`.

    If another writer removes the label and sets the label again, that writer owns the label. The record still proves
    membership.
    """
    owned = owned_metadata(apply_entry(obj, CONTENT_MANAGER), "annotations")
    recorded_uid = annotation(obj, well_known.PARENT_UID) if well_known.PARENT_UID in owned else ""
    return is_record_proven(obj) and recorded_uid == parent["metadata"]["uid"]
