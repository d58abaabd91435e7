"""The record that every member of a set carries: whose it is, where it stands in the order, what it depends on, what it was written from.

It arrives in the same request as the membership label, so that no member exists without its place in the order; it comes back with the same
metadata list that finds the members, so that pruning needs nothing but the cluster.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from applier.cluster import CONTENT, Object
from applier.observed import annotation, is_terminating, label
from renderer import keys
from renderer.identity import Manifest, ObjectKey, key_hash, render_hash
from renderer.model import RenderedNode, RenderedSet

DROPPED = "~"
"""Suffix of a recorded dependency that the current revision no longer has; it counts until the member is healthy."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live member as its metadata tells it. `level` is None and `has_record` false where the record is missing (taken over, damaged)."""

    key: ObjectKey
    uid: str
    resource_version: str
    set_id: str
    level: int | None
    deps: frozenset[str]
    node: str
    file: str
    has_record: bool
    terminating: bool
    finalizers: tuple[str, ...]

    @classmethod
    def of(cls, obj: Object) -> Member:
        metadata = obj["metadata"]
        level = annotation(obj, keys.LEVEL)
        return cls(
            key=ObjectKey.of(obj),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            set_id=label(obj, keys.PART_OF),
            level=int(level) if level.isdecimal() else None,
            deps=frozenset(dep.removesuffix(DROPPED) for dep in annotation(obj, keys.DEPS).split(",") if dep),
            node=annotation(obj, keys.NODE_ID),
            file=annotation(obj, keys.SOURCE_FILE),
            has_record=bool(annotation(obj, keys.SELF)),
            terminating=is_terminating(obj),
            finalizers=tuple(metadata.get("finalizers") or ()),
        )


def body(
    rendered: RenderedSet,
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
        keys.NODE: node.id,
        keys.NODE_ID: node.id,
        keys.LEVEL: str(node.level),
        keys.DEPS: ",".join(sorted(deps)),
        keys.SELF: key_hash(node.key),
        keys.HASH: render_hash(node.manifest),
    }
    if not rendered.is_source:
        record[keys.INSTANCE] = "/".join(
            filter(None, (rendered.parent.kind, rendered.parent.namespace, rendered.parent.name))
        )
    else:
        record[keys.SOURCE_FILE] = node.origin.file
    if parent_uid:
        record[keys.PARENT_UID] = parent_uid
    if node.origin.file:
        record[keys.FILE] = str(node.origin)
    if revision:
        record[keys.COMMIT] = revision[:12]
    marked = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), keys.PART_OF: rendered.id},
        "annotations": {**(metadata.get("annotations") or {}), **record},
    }
    if live is not None:
        marked["uid"] = live["metadata"]["uid"]
    return {**manifest, "metadata": marked}


def recorded_deps(live: Object | None, wanted: Iterable[str], *, healthy: bool) -> list[str]:
    """What to record as dependencies: those wanted, and those dropped since, marked, until the member is healthy (S0-14)."""
    wanted = set(wanted)
    if live is None or healthy:
        return sorted(wanted)
    before = {dep.removesuffix(DROPPED) for dep in annotation(live, keys.DEPS).split(",") if dep}
    return sorted(wanted | {f"{dep}{DROPPED}" for dep in before - wanted})


def is_proven(obj: Object) -> bool:
    """Did we write this object's membership ourselves? Anybody may add a label; only our apply owns it (KEP-3659, "Security")."""
    metadata = obj["metadata"]
    owns = any(
        entry.get("manager") == CONTENT
        and entry.get("operation") == "Apply"
        and f"f:{keys.PART_OF}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        for entry in metadata.get("managedFields") or ()
    )
    foreign_owner = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    return owns and not foreign_owner


def carries(live: Object, manifest: Manifest) -> bool:
    """Was this live object last written from this manifest? Of a Secret the values themselves are compared, since its hash leaves them out."""
    if annotation(live, keys.HASH) != render_hash(manifest):
        return False
    wanted, stored = without_nulls(manifest).get("data") or {}, live.get("data") or {}
    return manifest["kind"] != "Secret" or all(
        _bytes(stored.get(name)) == _bytes(value) for name, value in wanted.items()
    )


def _bytes(encoded: str | None) -> bytes | None:
    """Two texts of base64 may differ (by line breaks) and mean the same."""
    try:
        return None if encoded is None else base64.b64decode(encoded)
    except ValueError:
        return None


def without_nulls(value: Manifest) -> Manifest:
    """A manifest without null fields, and a Secret's `stringData` as `data`: what the server would store of it (it treats null as absent)."""
    cleaned: Manifest = _strip(value)
    if value["kind"] == "Secret" and value["apiVersion"] == "v1" and "stringData" in cleaned:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in cleaned.pop("stringData").items()}
        cleaned["data"] = {**cleaned.get("data", {}), **encoded}
    return cleaned


def _strip(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _strip(item) for name, item in value.items() if item is not None}
    return [_strip(item) for item in value] if isinstance(value, list) else value
