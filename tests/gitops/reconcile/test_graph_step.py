"""Decisions of whole reconciliations by a graph that outlives them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from gitops.decisions import actions, instances, live
from gitops.reconcile.context import Context
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_step import GraphDecider, UnsettledDecision
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform

PACED = {"shape": {"linear": {"n": 1}}, "bake": "10m"}


def test_a_decision_that_changes_without_end_is_a_fault_and_stops() -> None:
    """A decision that changes for ever would hang its cluster without a word."""

    async def step(_self: GraphDecider, _catalogs: Sequence[Catalog], known: Context) -> Context:
        return known

    with LinkPlatform(names=("a",)) as fleet, pytest.MonkeyPatch.context() as patch:
        fleet.start()
        decider = GraphDecider(fleet.reconciler.decision_reads, GraphInputs())
        whole = fleet.reconciler.whole
        assert whole
        patch.setattr(GraphDecider, "_step", step)
        with pytest.raises(UnsettledDecision, match="has changed 1000 times"):
            asyncio.run(decider.decide([], whole.known))


def test_a_reconciliation_that_finds_nothing_new_computes_no_rendering_and_no_plan() -> None:
    with LinkPlatform(names=("a", "b", "c")) as fleet:
        fleet.start()
        fleet.step()
        evaluations = fleet.reconciler.inputs.graph.cost.evaluations
        before = evaluations.copy()
        fleet.step()
        new = evaluations - before
        assert not new.keys() & {"_rendered_family", "rendered_set", "node_state", "_set_plan", "set_plan"}


def test_objects_that_are_absent_in_each_reconciliation_decide_nothing_again() -> None:
    """Each reconciliation reads them anew, because another client may have created them."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        fleet.names, fleet.written = ("a", "b"), {"b": {"metadata": {"annotations": {well_known.SUSPEND: "INC-7"}}}}
        fleet.push()
        fleet.step()
        fleet.step()
        evaluations = fleet.reconciler.inputs.graph.cost.evaluations
        before = evaluations.copy()
        fleet.step()
        assert not (evaluations - before).keys() & {"is_known", "node_state", "_set_plan", "set_plan"}
        path = "/api/v1/namespaces/default/configmaps"
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b-app", "namespace": "default"}}
        fleet.request("POST", path, made)
        fleet.step()
        assert live.live(fleet.reconciler.inputs.graph, ObjectKey("", "ConfigMap", "default", "b-app"))


def test_an_instance_that_waits_says_why_and_no_longer_once_it_has_its_turn() -> None:
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start(links=PACED)
        fleet.push("two")
        fleet.step()
        graph, waiting = fleet.reconciler.inputs.graph, ObjectKey(GROUP, "Link", "default", "b")
        cause = actions.turn_cause(graph, waiting)
        assert cause
        assert instances.placement(graph, waiting).revision == 1
        fleet.ready("a")
        fleet.step()
        fleet.step(timedelta(minutes=11))
        assert fleet.at("two") == ["a", "b"]
        assert actions.turn_cause(graph, waiting) is None
        assert instances.placement(graph, waiting).revision == 2


def test_an_instance_that_begins_to_move_has_no_ready_level() -> None:
    """The ready nodes at the time of a grant are those of the revision before. Each ready level restarts the deadline.

    If a grant counted them, a slow instance would fail although it comes further, and an instance whose parent cannot
    be written would never fail, because each reconciliation would grant again and restart the deadline.
    """
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start(links=PACED)
        fleet.push("two")
        fleet.step()
        progress = fleet.status("a")["levelgate"]["progress"]
        assert progress["revision"] == 2
        assert "levels" not in progress


def test_the_first_deployment_plans_a_set_few_times() -> None:
    """Revisions are stored, and instances placed, before a set is planned.

    A set is planned anew when it is granted, which happens before and after its CRD exists, and when its parent, its
    first objects and its last objects are written.
    """
    counts = []
    for names in (("a",), ("a", "b")):
        with LinkPlatform(names=names) as fleet:
            fleet.push()
            for _ in range(3):
                fleet.step()
            assert fleet.at("one") == list(names)
            counts.append(fleet.reconciler.inputs.graph.cost.evaluations["_set_plan"])
    assert counts[1] - counts[0] <= 7
