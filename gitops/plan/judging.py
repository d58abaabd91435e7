"""Objects that are new, or whose kind changes with them: judged by the schemas of the same commit, as no server knows these yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from applier.cluster import CONTENT_MANAGER, ClusterName
from applier.errors import ClusterError
from applier.execute.member_writer import redefined_kinds
from applier.plan.model import NodeAction, NodePlan, Plan
from gitops.plan.dry_run import DryRunCluster
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey


async def find_refusals(plan: Plan, head: Catalog, schema_cluster: DryRunCluster) -> Mapping[ObjectKey, ClusterError]:
    """What would be refused of custom objects that the commit describes, by object."""
    described_kinds = head.types.described
    changed_kinds = set(redefined_kinds(plan))
    errors: dict[ObjectKey, ClusterError] = {}
    for node_plan in _writable_nodes(plan):
        kind, key = node_plan.node.group_kind, node_plan.node.key
        is_new = node_plan.verb is NodeAction.CREATE and kind in described_kinds
        if key is None or not (
            is_new or (kind in changed_kinds and node_plan.verb in {NodeAction.UPDATE, NodeAction.HEAL})
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
    """A server that holds nothing and knows the kinds of the commit."""
    crds = {kind: described_kind.crd for kind, described_kind in head.types.described.items()}
    return DryRunCluster(ClusterName(CONTENT_MANAGER), {}, crds=crds)
