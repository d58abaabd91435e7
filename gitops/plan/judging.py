"""Objects that are new, or whose kind changes with them: judged by the schemas of the same commit, as no server knows these yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from applier.cluster import CONTENT, ClusterName
from applier.errors import ClusterError
from applier.execute.member_writer import redefined
from applier.plan.model import NodeAction, NodePlan, Plan
from gitops.plan.dry_run import DryRunCluster
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey


async def refusals(due: Plan, head: Catalog, judge: DryRunCluster) -> Mapping[ObjectKey, ClusterError]:
    """What would be refused of custom objects that the commit describes, by object."""
    described = head.types.described
    changing = set(redefined(due))
    found: dict[ObjectKey, ClusterError] = {}
    for node in _nodes(due):
        kind, key = node.node.group_kind, node.node.key
        is_new = node.verb is NodeAction.CREATE and kind in described
        if key is None or not (is_new or (kind in changing and node.verb in {NodeAction.UPDATE, NodeAction.HEAL})):
            continue
        try:
            await judge.judge(node.node.manifest, node.live)
        except ClusterError as error:
            found[key] = error
    return found


def _nodes(due: Plan) -> Iterator[NodePlan]:
    return (node for one in due.sets for node in one.nodes if node.node.writable and node.node.manifest)


def judge_of(head: Catalog) -> DryRunCluster:
    """A server that holds nothing and knows the kinds of the commit."""
    crds = {kind: one.crd for kind, one in head.types.described.items()}
    return DryRunCluster(ClusterName(CONTENT), {}, crds=crds)
