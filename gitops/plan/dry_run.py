"""Cluster of recorded objects that also answers dry runs. The objects come from a commit or from a snapshot.

An embedded API server validates each dry run against the recorded kinds. For new kinds, the server uses the schemas of
the commit. For a commit, the result of a dry run is the manifest, because the defaults of a server are unknown. For a
snapshot, the result is the live object with the manifest applied. The cluster rejects every write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Final

from applier.cluster import CONTENT_MANAGER, Cluster, Discovery, Object, Resource, parse_cluster_name
from applier.errors import ClusterError, KindNotServed, Unavailable
from applier.execute.dry_run import redefined_kinds
from applier.plan.model import NodeAction, NodePlan, Plan
from applier.recorded_cluster import RecordedCluster
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.schema.plurals import plural

NOTHING_SERVED: Final = Discovery({})
_CLIENT_METADATA = ("name", "namespace", "labels", "annotations", "finalizers")


@dataclass
class DryRunCluster(RecordedCluster):
    """Read-only cluster of recorded objects, with dry runs."""

    discovery: Discovery = NOTHING_SERVED
    crds: Mapping[GroupKind, Object] = field(default_factory=dict)
    """CRDs whose schemas validate custom objects."""

    is_whole: bool = False
    """True for a snapshot: `discovery` has all kinds, and objects have defaults and fields of other managers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._discovered: Discovery | None = None
        self._loaded_keys: set[ObjectKey] = set()

    @cached_property
    def _api_server(self) -> Cluster:
        """Return the embedded API server. Many plans need no dry run, so the first use creates the server."""
        from applier.sandbox.endpoints.transport import cluster_of
        from gitops.sandbox import create_sandbox

        return cluster_of(create_sandbox().answer)

    async def discover(self, *, refresh: bool = False) -> Discovery:
        if self.is_whole:
            return self.discovery
        if self._discovered is None:
            served = await self._api_server.discover()
            recorded = {kind: _infer_resource(kind, self.objects[keys[0]]) for kind, keys in self._by_kind.items()}
            self._discovered = replace(served, resources={**recorded, **served.resources})
        return self._discovered

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        if not dry_run:
            raise self._read_only_error()
        return await self.apply_dry_run(manifest, self.objects.get(ObjectKey.from_manifest(manifest)), force=force)

    async def apply_dry_run(self, manifest: Object, live: Object | None = None, *, force: bool = True) -> Object:
        """Return the object that results from applying `manifest` to `live`.

        If the cluster is not a snapshot, or if `live` is None, return `manifest` itself, because the defaults of the
        server are unknown. If a kind has no schema, every manifest of the kind is valid. Without `force`, the server
        also rejects a conflict with another field manager.

        Raises: ClusterError if a server would reject `manifest`, KindNotServed if the recorded cluster lacks the kind,
        Unavailable if `live` cannot be loaded.
        """
        key = ObjectKey.from_manifest(manifest)
        if self.is_whole and key.group_kind not in self.discovery.resources:
            raise KindNotServed(
                f"{key}: the cluster does not serve this kind; correct apiVersion and kind, or install the "
                "CustomResourceDefinition of the kind"
            )
        for prerequisite in (self.crds.get(key.group_kind), _namespace_object(key)):
            if prerequisite and ObjectKey.from_manifest(prerequisite) not in self._loaded_keys:
                await self._load(prerequisite)
        if live is not None and not await self._load(live) and self.is_whole:
            raise Unavailable(
                f"{key}: the snapshot does not hold a valid object for the dry run; plan against the cluster"
            )
        try:
            result = await self._api_server.apply(
                _without_server_fields(manifest), manager=CONTENT_MANAGER, force=force, dry_run=True
            )
        except KindNotServed:
            return manifest
        return result if self.is_whole and live is not None else manifest

    async def _load(self, obj: Object) -> bool:
        """Store an object in the embedded server, and return whether the server accepts the object.

        The server may reject a recorded object, because masked values may be invalid, or because another version of
        Kubernetes accepts more.
        """
        self._loaded_keys.add(ObjectKey.from_manifest(obj))
        try:
            await self._api_server.apply(_without_server_fields(obj), manager=CONTENT_MANAGER, force=True)
            if self.is_whole and (fields := obj["metadata"].get("managedFields")):
                await self._api_server.merge(
                    ObjectKey.from_manifest(obj), {"metadata": {"managedFields": fields}}, manager=CONTENT_MANAGER
                )
            if ObjectKey.from_manifest(obj).group_kind == CRD:
                await self._api_server.discover(refresh=True)
        except ClusterError:
            return False
        return True


def _infer_resource(kind: GroupKind, obj: Object) -> Resource:
    """Return the API resource of a kind, derived from an object of the kind."""
    version = obj["apiVersion"].rpartition("/")[2]
    namespaced = bool(obj["metadata"].get("namespace"))
    return Resource(kind.group, version, kind.kind, plural(kind.kind), namespaced, frozenset({"get", "list"}))


def _namespace_object(key: ObjectKey) -> Object | None:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}} if key.namespace else None


def _without_server_fields(obj: Object) -> Object:
    """Return an object without the fields that only a server sets."""
    metadata = {name: value for name, value in obj["metadata"].items() if name in _CLIENT_METADATA}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}


async def find_refusals(plan: Plan, head: Catalog, schema_cluster: DryRunCluster) -> Mapping[ObjectKey, ClusterError]:
    """Return the errors with which the schemas of the commit reject custom objects, by object.

    The embedded server validates all new objects. If the commit changes the schema of a kind, the server also validates
    changed objects of the kind. The live cluster still has the old schema of such a kind.
    """
    described_kinds = head.types.described
    changed_kinds = set(redefined_kinds(plan))
    errors: dict[ObjectKey, ClusterError] = {}
    for node_plan in _writable_nodes(plan):
        kind, key = node_plan.node.group_kind, node_plan.node.key
        is_new = node_plan.action is NodeAction.CREATE and kind in described_kinds
        if key is None or not (
            is_new or (kind in changed_kinds and node_plan.action in {NodeAction.UPDATE, NodeAction.HEAL})
        ):
            continue
        try:
            await schema_cluster.apply_dry_run(node_plan.node.manifest, node_plan.live)
        except ClusterError as error:
            errors[key] = error
    return errors


def _writable_nodes(plan: Plan) -> Iterator[NodePlan]:
    return (
        node_plan
        for set_plan in plan.sets
        for node_plan in set_plan.nodes
        if node_plan.node.writable and node_plan.node.manifest
    )


def create_schema_cluster(head: Catalog) -> DryRunCluster:
    """Return a cluster without objects that knows the kinds of the commit."""
    return DryRunCluster(parse_cluster_name(CONTENT_MANAGER), {}, crds=head.types.crds)
