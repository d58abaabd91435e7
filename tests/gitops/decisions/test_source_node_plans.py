"""Plans of the nodes of a source: what one of them costs, and what it means for the nodes that depend on it."""

from __future__ import annotations

import json

import pytest

from applier.causes import Reason
from applier.plan.model import NodeAction
from gitops.decisions.actions import set_plan
from gitops.decisions.source_node_plans import planned_node
from tests.support.graph_fleet import PLATFORM, GraphFleet, links, named


@pytest.mark.parametrize("count", [10, 300])
def test_an_instance_plans_its_own_node_of_the_source_alone_among_any_number(count: int) -> None:
    fleet = GraphFleet(links(named(count)))
    metadata = {"name": "x1", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    cost = fleet.observe({"apiVersion": "g.test/v1", "kind": "Link", "metadata": metadata})
    plan = set_plan(fleet.graph, PLATFORM)
    assert plan
    actions = {node.node.id: node.action for node in plan.nodes}
    assert actions["Link.g.test/default/x1"] is NodeAction.ADOPT
    assert (cost["planned_node"], cost["node_state"]) == (1, 1)


def test_an_object_waits_for_its_namespace_and_so_does_what_depends_on_the_object() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}}
    fleet = GraphFleet({"namespace.json": json.dumps(namespace), "a.json": json.dumps(config)})
    found = planned_node(fleet.graph, "platform", "ConfigMap/team/a", ())
    assert found
    assert found.plan.blocked
    assert found.plan.blocked.reason is Reason.DEPENDENCY_NOT_READY
    assert found.dependents_cause == found.plan.blocked
