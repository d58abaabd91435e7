"""What a plan needs to know of a cluster, as a file: with it nobody needs credentials to plan.

It holds the objects that Levelgate manages and records, the definitions of custom kinds, and which kinds are served. No value of a Secret is in it:
each is a number, the same number for the same value. So a plan against a snapshot cannot tell whether a value of a Secret changes, and says so.
What others made is not in it either: a plan cannot know of it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import orjson

from applier.cluster import Cluster, ClusterName, Discovery, Object, Resource
from applier.read import observe
from applier.state.observed import annotation
from gitops.errors import GitopsError
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.masking import OF_CLUSTER, SecretMasks
from gitops.records.revisions import KIND
from gitops.records.source_record import read_records
from renderer import well_known
from renderer.definition.kind_schemas import KindSchemas, of_crds
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, source_parent
from renderer.kinds import CRD, SECRET, defined_kind

FORMAT: Final = 1
LARGEST: Final = 64 * 1024 * 1024
"""Bytes; a file that is larger is neither written nor read."""

_SERVED = ("group", "version", "kind", "plural", "namespaced")


class SnapshotError(GitopsError):
    """A file that is no snapshot, one of another version, or a cluster that is too large for one."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """`at` is when the `cluster` was looked at, whose server is `kubernetes`: `v1.36.4`."""

    cluster: str
    at: datetime
    kubernetes: str
    objects: tuple[Object, ...]
    resources: tuple[Resource, ...]

    def record(self, wanted: Iterable[Object] = ()) -> DryRunCluster:
        """The cluster that it is a record of. Values of Secrets are taken to be as `wanted`: nothing but their names is known."""
        objects = {ObjectKey.of(obj): obj for obj in self.objects}
        for obj in wanted:
            key = ObjectKey.of(obj)
            if key.group_kind == SECRET and (masked := objects.get(key, {}).get("data")):
                said = _encoded(obj)
                objects[key] = {**objects[key], "data": {name: said.get(name, mask) for name, mask in masked.items()}}
        crds = {kind: one.crd for kind, one in of_crds(self._crds, KindSchemas()).described.items()}
        served = Discovery({one.group_kind: one for one in self.resources})
        return DryRunCluster(ClusterName(self.cluster), objects, served, crds, is_whole=True)

    @property
    def _crds(self) -> Iterator[Object]:
        return (obj for obj in self.objects if ObjectKey.of(obj).group_kind == CRD)


async def take(cluster: Cluster, at: datetime, kubernetes: str) -> ClusterSnapshot:
    """Reads, and writes nothing. Raises ClusterError."""
    sources = [name for name, _ in await read_records(cluster)]
    crds = await cluster.list(CRD)
    whole = [defined_kind(crd) for crd in crds if _is_defined(crd)]
    observed = await observe.observe(cluster, [source_parent(name) for name in sources], kinds=(), whole=whole)
    own = [
        *await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=well_known.RECORD),
        *await cluster.list(KIND, OWN_NAMESPACE, selector=well_known.RECORD),
    ]
    found = {ObjectKey.of(obj): obj for obj in (*crds, *own, *observed.objects.values())}
    ordered = [found[key] for key in sorted(found)]
    masks = SecretMasks(word=OF_CLUSTER)
    masks.learn(ordered)
    objects = tuple(_masked(obj, masks) for obj in ordered)
    discovery = await cluster.discover()
    return ClusterSnapshot(
        str(cluster.name),
        at,
        kubernetes,
        objects,
        tuple(one for _, one in sorted(discovery.resources.items(), key=itemgetter(0))),
    )


def written(snapshot: ClusterSnapshot) -> bytes:
    """As a file. Raises SnapshotError where it would be too large."""
    kinds = [{name: asdict(one)[name] for name in _SERVED} for one in snapshot.resources]
    document = {
        "format": FORMAT,
        "cluster": snapshot.cluster,
        "at": snapshot.at.isoformat(),
        "kubernetes": snapshot.kubernetes,
        "kinds": kinds,
        "objects": snapshot.objects,
    }
    data = _dumped({**document, "digest": _digest(document)}) + b"\n"
    if len(data) > LARGEST:
        raise SnapshotError(
            f"a snapshot of cluster {snapshot.cluster} would have {len(data)} bytes, more than {LARGEST}; "
            "plan against the cluster itself"
        )
    return data


def read(file: Path) -> ClusterSnapshot:
    """The inverse of `written`. Raises SnapshotError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SnapshotError(
            f"{file}: {error.strerror}; --against takes cluster, git or the file of a snapshot"
        ) from None
    try:
        found = orjson.loads(data) if len(data) <= LARGEST else None
        if isinstance(found, dict) and found.get("format") == FORMAT and found.pop("digest", "") != _digest(found):
            raise SnapshotError(
                f"{file}: is not as `levelgate snapshot` wrote it: somebody has changed it; make it anew"
            )
        match found:
            case {
                "format": 1,
                "cluster": str(cluster),
                "at": str(at),
                "kubernetes": str(kubernetes),
                "kinds": list(kinds),
                "objects": list(objects),
            }:
                resources = tuple(
                    Resource(**{name: one[name] for name in _SERVED}, verbs=frozenset({"get", "list"})) for one in kinds
                )
                for obj in objects:
                    ObjectKey.of(obj)
                return ClusterSnapshot(cluster, datetime.fromisoformat(at), kubernetes, tuple(objects), resources)
    except (ValueError, KeyError, TypeError):
        pass
    raise SnapshotError(f"{file}: no snapshot of this version; make one with `levelgate snapshot -o {file}`")


def _dumped(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def _digest(document: Mapping[str, Any]) -> str:
    """Tells whether a file is whole: what stands in it is trusted to be as a server says it."""
    return hashlib.sha256(_dumped(document)).hexdigest()


def _is_defined(crd: Object) -> bool:
    return bool(annotation(crd, well_known.DEFINITION))


def _masked(obj: Object, masks: SecretMasks) -> Object:
    """An object without values of Secrets; those of a Secret itself stay base64, as it would be refused otherwise.

    The hash of what copies a value goes with it: whoever has all the rest could find a short value by trying.
    """
    found, kind = masks.object(obj), ObjectKey.of(obj).group_kind
    if kind == SECRET and "data" in found:
        found["data"] = {name: base64.b64encode(mask.encode()).decode() for name, mask in found["data"].items()}
    elif found != obj and kind != KIND:
        annotations = found["metadata"].get("annotations") or {}
        kept = {name: value for name, value in annotations.items() if name != well_known.HASH}
        found["metadata"] = {**found["metadata"], "annotations": kept}
    return found


def _encoded(secret: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        name: base64.b64encode(str(text).encode()).decode() for name, text in (secret.get("stringData") or {}).items()
    }
    return {**(secret.get("data") or {}), **texts}
