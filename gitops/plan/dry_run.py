"""A cluster that is only a record: the objects of a commit, or of a snapshot. It answers reads, and judges dry runs as a server would.

A dry run is judged by an embedded API server that knows the kinds of the record and is given the object as it is. Of a commit the answer is the
intent itself: what a server fills in is the same before and after, and nobody knows it. Of a cluster it is the object with the intent applied to it,
by the fields that the record says are ours. Nothing can be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Final

from applier.cluster import CONTENT, Cluster, Discovery, Object, Resource
from applier.errors import ClusterError, KindNotServed, Unavailable
from applier.recorded_cluster import RecordedCluster
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.schema.plurals import plural

NOTHING_SERVED: Final = Discovery({})
_KEPT = ("name", "namespace", "labels", "annotations", "finalizers")


@dataclass
class DryRunCluster(RecordedCluster):
    """`crds` describe the custom kinds that are to be judged by. Of a cluster, `is_whole`, `discovery` has all kinds that it serves, and objects hold
    what the server and others filled in as well.
    """

    discovery: Discovery = NOTHING_SERVED
    crds: Mapping[GroupKind, Object] = field(default_factory=dict)
    is_whole: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._known: Discovery | None = None
        self._given: set[ObjectKey] = set()

    @cached_property
    def _judge(self) -> Cluster:
        """Nobody is asked beside a server that answers itself, unless the commit brings kinds; so it is made, and loaded, when it is asked."""
        from applier.sandbox.endpoints.transport import cluster_of
        from gitops.sandbox import new_sandbox

        return cluster_of(new_sandbox().answer)

    async def discover(self, *, refresh: bool = False) -> Discovery:
        if self.is_whole:
            return self.discovery
        if self._known is None:
            found = await self._judge.discover()
            others = {kind: _resource(kind, self.objects[keys[0]]) for kind, keys in self._by_kind.items()}
            self._known = replace(found, resources={**others, **found.resources})
        return self._known

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        if not dry_run:
            raise self._refused()
        key = ObjectKey.of(manifest)
        return await self.judge(manifest, self.objects.get(key))

    async def judge(self, manifest: Object, live: Object | None = None) -> Object:
        """The object after the manifest was applied to `live`, or created. What no schema describes passes as it stands.

        Raises ClusterError where a server would not store it, KindNotServed where a cluster was seen not to have the kind, and Unavailable where
        nobody can say.
        """
        key = ObjectKey.of(manifest)
        if self.is_whole and key.group_kind not in self.discovery.resources:
            raise KindNotServed(f"{key}: the cluster does not serve this kind")
        for known in (self.crds.get(key.group_kind), _namespace(key)):
            if known and ObjectKey.of(known) not in self._given:
                await self._give(known)
        if live is not None and not await self._give(live) and self.is_whole:
            raise Unavailable(f"{key}: what the cluster has taken is not known here")
        try:
            found = await self._judge.apply(_bare(manifest), manager=CONTENT, force=True, dry_run=True)
        except KindNotServed:
            return manifest
        return found if self.is_whole and live is not None else manifest

    async def _give(self, obj: Object) -> bool:
        """False where the judge would not take it itself: it is masked, or was made under other rules, by another version of Kubernetes."""
        self._given.add(ObjectKey.of(obj))
        try:
            await self._judge.apply(_bare(obj), manager=CONTENT, force=True)
            if self.is_whole and (fields := obj["metadata"].get("managedFields")):
                await self._judge.merge(ObjectKey.of(obj), {"metadata": {"managedFields": fields}}, manager=CONTENT)
            if ObjectKey.of(obj).group_kind == CRD:
                await self._judge.discover(refresh=True)
        except ClusterError:
            return False
        return True


def _resource(kind: GroupKind, one: Object) -> Resource:
    """How a kind is served that only its objects tell of."""
    version = one["apiVersion"].rpartition("/")[2]
    namespaced = bool(one["metadata"].get("namespace"))
    return Resource(kind.group, version, kind.kind, plural(kind.kind), namespaced, frozenset({"get", "list"}))


def _namespace(key: ObjectKey) -> Object | None:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}} if key.namespace else None


def _bare(obj: Object) -> Object:
    """As somebody applies it for the first time."""
    metadata = {name: value for name, value in obj["metadata"].items() if name in _KEPT}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
