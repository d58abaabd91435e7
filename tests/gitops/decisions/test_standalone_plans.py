"""Nodes of a set by themselves, in a graph: what gates and rollouts judge an instance by."""

from __future__ import annotations

from applier.causes import Reason
from applier.errors import Invalid
from applier.plan.constraints import RefusedWrite, refusal_relevant_state
from applier.plan.model import NodeAction, NodePlan
from gitops.decisions import plan_inputs
from gitops.decisions.actions import set_plan
from gitops.decisions.standalone_plans import standalone_plan
from tests.support.graph_fleet import GraphFleet, instance_key
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import config_map, definition, instance

X0 = instance_key("x0")


def chain(text: str = "one") -> Files:
    """Return a definition whose node `b` depends on its node `a`, with one instance."""
    nodes = [config_map("a", readyWhen=["${a.data.text == 'never'}"]), config_map("b", "a")]
    return {"l.json": definition("Link", nodes), "x0.json": instance("Link", "x0", text=text)}


def standalone(fleet: GraphFleet) -> dict[str, NodePlan]:
    plan = standalone_plan(fleet.graph, X0)
    assert plan
    return {node.node.id: node for node in plan.nodes}


def test_a_node_that_waits_for_another_one_is_not_blocked_by_itself() -> None:
    fleet = GraphFleet(chain())
    plan = set_plan(fleet.graph, X0)
    assert plan
    assert [node.blocked.reason if node.blocked else None for node in plan.nodes] == [None, Reason.DEPENDENCY_NOT_READY]
    found = standalone(fleet)
    assert [(node.action, node.blocked, node.allowed) for node in found.values()] == [
        (NodeAction.CREATE, None, False)
    ] * 2


def test_a_failed_write_is_a_cause_of_the_node_itself() -> None:
    fleet = GraphFleet(chain())
    node = standalone(fleet)["b"].node
    assert node.key
    refused = RefusedWrite(Invalid("no such field"), node.manifest, refusal_relevant_state(None))
    fleet.set((plan_inputs.refused_writes.at(X0), {node.key: refused}))
    assert {name: plan.blocked.reason for name, plan in standalone(fleet).items() if plan.blocked} == {
        "b": Reason.APPLY_FAILED
    }


def test_the_readiness_of_an_object_counts_only_while_no_write_is_due() -> None:
    fleet = GraphFleet(chain())
    fleet.apply(X0)
    waiting = standalone(fleet)["a"]
    assert (waiting.action, waiting.blocked and waiting.blocked.reason) == (NodeAction.NONE, Reason.PROGRESSING)
    fleet.commit(chain(text="two"))
    due = standalone(fleet)["a"]
    assert (due.action, due.blocked, due.ready) == (NodeAction.UPDATE, None, False)
