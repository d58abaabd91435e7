"""States of nodes in a graph: what they cost, and how they follow time. `test_histories.py` has their content."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from applier.applyset.completed_jobs import TTL_TOLERANCE
from applier.plan.model import NodeAction, NodePlan
from gitops.decisions import live
from gitops.decisions.node_states import SetPlace, node_state, set_at
from gitops.queries import Roots
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from tests.support.compiled_definitions import resource, source
from tests.support.graph_inputs import OneInstance, changed
from tests.support.graph_renderings import FAMILY_STATES

SHOP = SetPlace.of_instance(OneInstance.ROOT.key)
STATES: Roots[Any, Any] = FAMILY_STATES


def new_shop(*nodes: Any) -> OneInstance:
    """Return a graph with one instance, none of whose objects exists."""
    shop = OneInstance(source(*nodes))
    shop.commit(name="shop")
    with shop.graph.transaction() as transaction:
        live.set_absent(transaction, [SHOP.parent, *map(config_map, [node["id"] for node in nodes])])
    changed(shop.graph, STATES)
    return shop


def config_map(resource_id: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", f"shop-{resource_id.lower()}")


def observe(shop: OneInstance, *objects: Any, absent: tuple[ObjectKey, ...] = ()) -> Counter[str]:
    """Set what a read has found, and return the evaluations that the states cost then, by query."""
    before = shop.graph.cost.evaluations.copy()
    with shop.graph.transaction() as transaction:
        live.set_objects(transaction, objects)
        live.set_absent(transaction, absent)
    changed(shop.graph, STATES)
    return shop.graph.cost.evaluations - before


def plan_of(shop: OneInstance, node_id: str) -> NodePlan:
    found = node_state(shop.graph, SHOP, node_id)
    assert found
    return found.plan


def object_of(key: ObjectKey, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": key.name,
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "1",
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": api_version, "kind": key.kind, "metadata": metadata, **fields}


@pytest.mark.parametrize("count", [10, 300])
def test_an_object_decides_the_state_of_its_own_node_alone(count: int) -> None:
    shop = new_shop(*(resource(f"n{number}") for number in range(count)))
    cost = observe(shop, object_of(config_map("n0")))
    assert cost["node_state"] == 1
    assert plan_of(shop, "n0").action is NodeAction.ADOPT
    assert plan_of(shop, "n1").action is NodeAction.CREATE


def test_a_changed_manifest_decides_the_state_of_its_own_node_alone() -> None:
    shop = new_shop(
        resource("db"), {**resource("web"), "readyWhen": ["${web.data.text == 'on'}"]}, *map(resource, "cdefgh")
    )
    cost = observe(shop, object_of(config_map("web"), data={"text": "on"}))
    assert cost["node_state"] == 1
    assert plan_of(shop, "web").ready


def test_a_health_that_changes_by_age_is_decided_again_at_that_time() -> None:
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-pod"}, "spec": {}}
    shop = new_shop({"id": "pod", "template": template})
    pod = ObjectKey("", "Pod", "default", "shop-pod")
    since = shop.graph.now.isoformat()
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    observe(shop, object_of(pod, status={"phase": "Pending", "conditions": [unscheduled]}))
    young = plan_of(shop, "pod")
    assert young.recheck_at
    assert shop.graph.next_moment == young.recheck_at
    shop.graph.advance(young.recheck_at)
    assert plan_of(shop, "pod").recheck_at is None


def test_a_job_that_its_ttl_removed_counts_from_the_recorded_time_on() -> None:
    template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "shop-job"}, "spec": {}}
    shop = new_shop({"id": "job", "template": template})
    job = ObjectKey("batch", "Job", "default", "shop-job")
    until = shop.graph.now + timedelta(minutes=10)
    observe(shop, instance(shop, job, until), absent=(job,))
    assert plan_of(shop, "job").action is NodeAction.CREATE
    shop.graph.advance(until - TTL_TOLERANCE)
    assert plan_of(shop, "job").is_ttl_removed
    assert plan_of(shop, "job").action is NodeAction.NONE


def instance(shop: OneInstance, job: ObjectKey, until: datetime) -> dict[str, Any]:
    """Return the live instance, which records that its Job has completed."""
    rendered = set_at(shop.graph, SHOP)
    assert rendered
    record = f"{key_hash(job)}:{rendered.nodes_by_id['job'].hash[:16]}:{int(until.timestamp())}"
    metadata = {"annotations": {well_known.COMPLETED: record}}
    return object_of(SHOP.parent, "kro.run/v1alpha1", metadata=metadata)


def test_an_object_that_nobody_has_looked_up_is_read_first() -> None:
    shop = OneInstance(source(resource("db")))
    shop.commit(name="shop")
    changed(shop.graph, STATES)
    assert plan_of(shop, "db").action is NodeAction.READ
    observe(shop, absent=(config_map("db"),))
    assert plan_of(shop, "db").action is NodeAction.CREATE
