"""State of a cluster in a file, for plans without credentials.

A snapshot holds the objects that Levelgate manages, Levelgate's records, the CRDs and the served kinds. The snapshot
contains no other object of the cluster. Numbers replace the values of Secrets. So a plan against a snapshot does not
know whether a masked value changes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import orjson

from applier.cluster import Cluster, Discovery, Object, Resource, context_name
from applier.read import observe
from applier.state.observed import annotation
from gitops.errors import GitopsError
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.masking import SNAPSHOT_LABEL, SecretMasks
from gitops.records.applied_packs import KIND
from gitops.records.source_record import read_records
from renderer import well_known
from renderer.definition.kind_schemas import KindSchemas, from_crds
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, group_kind, source_parent
from renderer.kinds import CRD, SECRET, defined_kind

FORMAT_VERSION: Final = 1
MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""Largest size of a snapshot file in bytes. Levelgate neither writes nor reads a larger file."""

_RESOURCE_FIELDS = ("group", "version", "kind", "plural", "namespaced")


class SnapshotError(GitopsError):
    """Failure to read a snapshot of another version or an unreadable file, or to record a cluster that is too large."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Recorded state of a cluster."""

    cluster: str
    taken_at: datetime
    kubernetes: str
    """Version of the cluster's API server, for example `v1.36.4`."""

    objects: tuple[Object, ...]
    resources: tuple[Resource, ...]

    def as_cluster(self, desired_secrets: Iterable[Object] = ()) -> DryRunCluster:
        """Return the recorded cluster, with the unknown values of Secrets taken from `desired_secrets`."""
        objects = {ObjectKey.from_manifest(obj): obj for obj in self.objects}
        for obj in desired_secrets:
            key = ObjectKey.from_manifest(obj)
            if key.group_kind == SECRET and (masked := objects.get(key, {}).get("data")):
                encoded = _encoded_data(obj)
                objects[key] = {
                    **objects[key],
                    "data": {name: encoded.get(name, mask) for name, mask in masked.items()},
                }
        crds = from_crds((obj for obj in self.objects if group_kind(obj) == CRD), KindSchemas()).crds
        served = Discovery({resource.group_kind: resource for resource in self.resources})
        return DryRunCluster(context_name(self.cluster), objects, served, crds, is_whole=True)


async def take_snapshot(cluster: Cluster, taken_at: datetime, kubernetes: str) -> ClusterSnapshot:
    """Read the state of a cluster. Raises: ClusterError.

    Args:
        kubernetes: version of the API server.
    """
    sources = [name for name, _ in await read_records(cluster)]
    crds = await cluster.list(CRD)
    defined_kinds = [defined_kind(crd) for crd in crds if annotation(crd, well_known.DEFINITION)]
    observed = await observe.observe(cluster, [source_parent(name) for name in sources], kinds=(), whole=defined_kinds)
    records = [
        *await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=well_known.RECORD),
        *await cluster.list(KIND, OWN_NAMESPACE, selector=well_known.RECORD),
    ]
    objects_by_key = {ObjectKey.from_manifest(obj): obj for obj in (*crds, *records, *observed.objects.values())}
    ordered = [objects_by_key[key] for key in sorted(objects_by_key)]
    masks = SecretMasks(label=SNAPSHOT_LABEL)
    masks.learn(ordered)
    objects = tuple(_mask_object(obj, masks) for obj in ordered)
    return ClusterSnapshot(
        str(cluster.name),
        taken_at,
        kubernetes,
        objects,
        tuple(resource for _, resource in sorted((await cluster.discover()).resources.items(), key=itemgetter(0))),
    )


def serialize(snapshot: ClusterSnapshot) -> bytes:
    """Return the content of the snapshot file. Raises: SnapshotError if the content exceeds `MAX_SNAPSHOT_BYTES`."""
    document = {
        "format": FORMAT_VERSION,
        "cluster": snapshot.cluster,
        "at": snapshot.taken_at.isoformat(),
        "kubernetes": snapshot.kubernetes,
        "kinds": [{name: getattr(resource, name) for name in _RESOURCE_FIELDS} for resource in snapshot.resources],
        "objects": snapshot.objects,
    }
    data = _dump({**document, "digest": _digest(document)}) + b"\n"
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise SnapshotError(
            f"a snapshot of cluster {snapshot.cluster} would have {len(data)} bytes, more than {MAX_SNAPSHOT_BYTES}; "
            "plan against the cluster itself"
        )
    return data


def read_snapshot(file: Path) -> ClusterSnapshot:
    """Read a file that `serialize` made. Raises: SnapshotError if `file` is unreadable, changed or too large."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SnapshotError(
            f"{file}: {error.strerror}; give --against cluster, git or the file of a snapshot"
        ) from None
    try:
        document = orjson.loads(data) if len(data) <= MAX_SNAPSHOT_BYTES else None
        if (
            isinstance(document, dict)
            and document.get("format") == FORMAT_VERSION
            and document.pop("digest", "") != _digest(document)
        ):
            raise SnapshotError(f"{file}: was changed after `levelgate snapshot` wrote it; make a new snapshot")
        match document:
            case {
                "format": 1,
                "cluster": str(cluster),
                "at": str(at),
                "kubernetes": str(kubernetes),
                "kinds": list(kinds),
                "objects": list(objects),
            }:
                resources = tuple(
                    Resource(**{name: served_kind[name] for name in _RESOURCE_FIELDS}, verbs=frozenset({"get", "list"}))
                    for served_kind in kinds
                )
                for obj in objects:
                    ObjectKey.from_manifest(obj)
                return ClusterSnapshot(cluster, datetime.fromisoformat(at), kubernetes, tuple(objects), resources)
    except (ValueError, KeyError, TypeError):
        pass
    raise SnapshotError(
        f"{file}: not a snapshot that this version of Levelgate can read; "
        f"make a new one with `levelgate snapshot -o {file}`"
    )


def _dump(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def _digest(document: Mapping[str, Any]) -> str:
    """Return the digest by which `read_snapshot` detects an incomplete or changed file."""
    return hashlib.sha256(_dump(document)).hexdigest()


def _mask_object(obj: Object, masks: SecretMasks) -> Object:
    """Return the object without values of Secrets. Masks in a Secret are base64, the only valid form of its data.

    If an object of another kind contains a value of a Secret, remove the annotation with the object's content hash.
    Otherwise a reader who knows the rest of the object could guess a short value by comparing hashes.
    """
    masked, kind = masks.mask_object(obj), ObjectKey.from_manifest(obj).group_kind
    if kind == SECRET and "data" in masked:
        masked["data"] = {name: base64.b64encode(mask.encode()).decode() for name, mask in masked["data"].items()}
    elif masked != obj and kind != KIND:
        annotations = masked["metadata"].get("annotations") or {}
        other_annotations = {name: value for name, value in annotations.items() if name != well_known.HASH}
        masked["metadata"] = {**masked["metadata"], "annotations": other_annotations}
    return masked


def _encoded_data(secret: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        name: base64.b64encode(str(text).encode()).decode() for name, text in (secret.get("stringData") or {}).items()
    }
    return {**(secret.get("data") or {}), **texts}
