"""Plans of sets in a graph: what they cost, and cases that random histories rarely meet."""

from __future__ import annotations

import json
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.errors import Invalid
from applier.plan.constraints import RefusedWrite, refusal_relevant_state
from applier.plan.model import ChangePermissions, NodeAction
from applier.plan.prune_candidate import PruneOutcome
from gitops.decisions import instances, live, plan_inputs, planned
from gitops.decisions.actions import set_plan
from gitops.decisions.plan_inputs import PruneApproval, SourceSettings
from gitops.decisions.planned import RecordedScope, planned_parents
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from tests.support.graph_fleet import CONFIG_MAP, LINKS, PLATFORM, GraphFleet, instance_key, labelled, links, named
from tests.support.properties.repositories import config_map, definition, instance, plain


def test_an_object_plans_its_own_set_alone_among_any_number_of_instances() -> None:
    costs = []
    for count in (10, 300):
        fleet = GraphFleet(links(named(count)))
        metadata = {"name": "x1-a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        marks = fleet.graph.cost.marks.copy()
        costs.append(fleet.observe({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        # All plans follow the brake of their source, and the brake counts in all plans.
        assert (fleet.graph.cost.marks - marks)["_set_plan"] <= 2
        plan = set_plan(fleet.graph, instance_key("x1"))
        assert plan
        assert [node.action for node in plan.nodes] == [NodeAction.ADOPT, NodeAction.CREATE]
    assert costs[0] == costs[1]
    assert (costs[0]["_set_plan"], costs[0]["node_state"]) == (1, 1)


def test_a_refused_write_plans_the_set_of_its_object_alone() -> None:
    fleet = GraphFleet(links(named(10)))
    rendered = instances.instance_set(fleet.graph, instance_key("x1"))
    assert rendered
    node = rendered.nodes_by_id["a"]
    assert node.key
    refused = RefusedWrite(Invalid("no such field"), node.manifest, refusal_relevant_state(None))
    cost = fleet.set((plan_inputs.refused_writes.at(instance_key("x1")), {node.key: refused}))
    assert (cost["_set_plan"], cost["node_state"]) == (1, 0)
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert plan.nodes[0].blocked
    assert plan.nodes[0].blocked.reason is Reason.APPLY_FAILED


def test_a_commit_that_deletes_more_than_the_brake_permits_waits_for_an_approval() -> None:
    objects = {f"{name}.json": plain(name) for name in "abcdefgh"}
    fleet = GraphFleet(objects)
    fleet.apply(PLATFORM)
    fleet.commit({"a.json": objects["a.json"]})
    held = (PruneOutcome.DELETE, False, Reason.BRAKE_ENGAGED)
    assert fleet.outcomes(PLATFORM) == dict.fromkeys("bcdefgh", held)
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval(is_approved=True)))
    assert Reason.BRAKE_ENGAGED not in {reason for *_, reason in fleet.outcomes(PLATFORM).values()}
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval()))
    fleet.commit({name: objects[name] for name in ("a.json", "b.json", "c.json")})
    assert Reason.BRAKE_ENGAGED not in {reason for *_, reason in fleet.outcomes(PLATFORM).values()}
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval(hold_message="Git went back")))
    assert fleet.outcomes(PLATFORM) == dict.fromkeys("defgh", held)


def test_the_members_of_a_deleted_instance_count_for_the_brake() -> None:
    """Two instances with four objects each are ten deletions; all other objects count among the live ones."""
    four = {"l.json": definition("Link", [config_map(name) for name in "abcd"])}
    files = {**four, **{f"{name}.json": instance("Link", name) for name in ("x0", "x1", "x2")}}
    fleet = GraphFleet(files)
    for parent in (PLATFORM, *map(instance_key, ("x0", "x1", "x2"))):
        fleet.apply(parent)
    fleet.commit({name: files[name] for name in ("l.json", "x0.json")})
    plan = set_plan(fleet.graph, PLATFORM)
    assert plan
    messages = {one.blocked.message.partition(";")[0] for one in plan.prune_candidates if one.blocked}
    assert messages == {"10 of 16 objects would be deleted"}


def test_a_source_that_deletes_nothing_keeps_what_it_no_longer_wants() -> None:
    fleet = GraphFleet({"a.json": plain("a"), "b.json": plain("b")})
    fleet.apply(PLATFORM)
    fleet.commit({"a.json": plain("a")})
    fleet.set((plan_inputs.source_settings.at("platform"), SourceSettings(prunes=False)))
    assert fleet.outcomes(PLATFORM) == {"b": (PruneOutcome.KEEP, False, Reason.DELETION_BLOCKED)}


def test_the_members_of_an_instance_that_is_gone_are_found_by_the_recorded_scope() -> None:
    fleet = GraphFleet(links(["x0", "x1"]))
    fleet.apply(instance_key("x1"))
    fleet.commit(links(["x0"]))
    assert set_plan(fleet.graph, instance_key("x1")) is None
    scope = Scope(frozenset({CONFIG_MAP}))
    fleet.set((planned.recorded_scope.at(instance_key("x1")), RecordedScope(scope, "platform")))
    assert fleet.outcomes(instance_key("x1")).keys() == {"x1-a", "x1-b"}
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert plan.is_lost
    fleet.commit(links(["x0", "x1"]))
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert not plan.is_lost


def test_labels_in_a_circle_lead_to_no_owner() -> None:
    """Two instances that nobody wants, each of which has the label of the other's set."""
    fleet = GraphFleet(links(["x0"]))
    one, two = instance_key("one"), instance_key("two")
    fleet.observe(*(labelled(key, other) for key, other in ((one, two), (two, one))))
    assert {one, two}.isdisjoint(planned_parents(fleet.graph))
    assert set_plan(fleet.graph, one) is None
    fleet.observe(labelled(one, PLATFORM))
    assert [key for key in planned_parents(fleet.graph) if key in {one, two}] == [one, two]
    assert planned.holding_parent(fleet.graph, two) == one


def widget(value: object) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": metadata, "spec": {"on": value}}


def test_a_value_of_another_type_plans_the_set_again() -> None:
    """To Python, `1` and `True` are equal; to the API server, they are not."""
    fleet = GraphFleet({"w.json": json.dumps(widget(1))})
    for value in (1, True, 1):
        fleet.commit({"w.json": json.dumps(widget(value))})
        plan = set_plan(fleet.graph, PLATFORM)
        assert plan
        assert [type(one.node.manifest["spec"]["on"]) for one in plan.nodes] == [type(value)]
    for value in (1, True):
        obj = widget(value)
        fleet.observe({**obj, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "1"}})
        plan = set_plan(fleet.graph, PLATFORM)
        assert plan
        assert [type(one.live["spec"]["on"]) for one in plan.nodes if one.live] == [type(value)]


def test_a_hold_on_a_member_keeps_the_instance_that_the_member_uses() -> None:
    """Both are no longer in Git. A person holds the member, which records a dependency on the instance."""
    files = {**links(["x0"]), "p.json": plain("p")}
    fleet = GraphFleet(files)
    for parent in (PLATFORM, instance_key("x0")):
        fleet.apply(parent)
    user = ObjectKey("", "ConfigMap", "default", "p")
    obj = live.live(fleet.graph, user)
    assert obj
    record = {**obj["metadata"]["annotations"], well_known.DEPS: key_hash(instance_key("x0"))}
    fleet.observe({**obj, "metadata": {**obj["metadata"], "annotations": record}})
    hold = Cause(Reason.HELD, "audit")
    held = ChangePermissions(lambda change: hold if change.key == user else None)
    fleet.set((plan_inputs.assumed_permissions.at(), held))
    fleet.commit(LINKS)
    plan = set_plan(fleet.graph, instance_key("x0"))
    assert plan
    assert (plan.not_moved, plan.former_source) == (hold, "platform")
    assert plan.prune_candidates == ()
