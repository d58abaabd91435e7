"""Plans of the nodes of one set: what may start now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import Adoption, AdoptPolicy
from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.errors import ClusterError, Denied, Immutable, Invalid, Unavailable, UnknownOutcome
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, NodeAction, NodePlan
from applier.plan.node_planner import NodePlanner, select_repairs
from applier.state.field_conflicts import ConflictPolicy
from applier.state.observed import Observed
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from tests.support.apply_sets import (
    CONFIG_MAP,
    OLD,
    PARENT,
    SOURCE,
    actions,
    bundle,
    decided,
    key,
    live,
    node_of,
    observed,
    of_kubectl,
    parent,
)
from tests.support.properties.repositories import plain
from tests.support.reference_plan import plan, set_planner
from tests.support.set_planners import LINK, link_object, link_set, rendering_of


def test_what_was_never_looked_at_is_looked_at_first() -> None:
    """Sets: read before the first write."""
    one = decided()
    assert actions(one) == {"a": (NodeAction.READ, False), "b": (NodeAction.READ, False)}
    assert set(one.keys_to_read) == {key("a"), key("b")}
    assert one.writes == ()


def test_a_field_that_somebody_took_is_healed() -> None:
    assert actions(decided(live(SOURCE, "a", drifted="text"), live(SOURCE, "b")))["a"] == (NodeAction.HEAL, True)


UPDATER, APPLIER = ("script", "Update", ""), ("operator", "Apply", "")
SCALER = ("autoscaler", "Update", "scale")


def taken_by(managers: dict[str, tuple[str, str, str]], **annotations: str) -> Object:
    """The member `a` of which these managers have the fields of `data`."""
    manifest = live(SOURCE, "a")
    entries = manifest["metadata"]["managedFields"]
    for name, (manager, operation, subresource) in managers.items():
        entries[0]["fieldsV1"]["f:data"].pop(f"f:{name}", None)
        entry = {"manager": manager, "operation": operation, "subresource": subresource}
        entries.append({**entry, "fieldsV1": {"f:data": {f"f:{name}": {}}}})
    if annotations:
        manifest["metadata"]["annotations"] |= annotations
        fields: Any = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
        entries.append({"manager": "kubectl-annotate", "operation": "Update", "fieldsV1": fields})
    return manifest


@pytest.mark.parametrize(
    ("others", "policy", "healed", "contested"),
    [
        ({"text": UPDATER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": APPLIER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": UPDATER, "more": SCALER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": APPLIER}, ConflictPolicy.FORCE, [".data.text"], []),
        ({"text": UPDATER}, ConflictPolicy.REPORT, [".data.text"], []),
    ],
    ids=["update", "apply alone: the server is asked", "a field that Git does not set", "force", "report"],
)
def test_what_is_healed_of_an_object(
    others: dict[str, tuple[str, str, str]], policy: ConflictPolicy, healed: list[str], contested: list[str]
) -> None:
    """Conflicts: a write that has nothing else to heal is tried whole, since the value may be that of Git by now."""
    constraints = PlanConstraints(conflict_policies={"platform": policy})
    node_plan = decided(taken_by(others), live(SOURCE, "b"), records=constraints).nodes[0]
    assert (node_plan.action, node_plan.conflict_policy) == (NodeAction.HEAL, policy)
    assert [lost.path for lost in node_plan.lost_fields] == healed
    assert [lost.path for lost in node_plan.contested_fields] == contested


def test_what_others_mean_is_left_to_them_while_the_rest_is_healed() -> None:
    manifest = taken_by({"text": APPLIER})
    del manifest["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"]
    node_plan = decided(manifest, live(SOURCE, "b")).nodes[0]
    assert [str(lost) for lost in node_plan.contested_fields] == [".data.text is changed by operator (apply)"]
    assert all(lost.path.startswith(".metadata.labels") for lost in node_plan.lost_fields)


def test_a_person_says_it_on_the_live_object_in_any_case() -> None:
    said = decided(taken_by({}, **{well_known.CONFLICTS: "Force"}), live(SOURCE, "b")).nodes[0]
    assert said.conflict_policy is ConflictPolicy.FORCE
    ours = taken_by({}, **{well_known.CONFLICTS: "force"})
    ours["metadata"]["managedFields"][-1] |= {"manager": "levelgate", "operation": "Apply"}
    assert decided(ours, live(SOURCE, "b")).nodes[0].conflict_policy is ConflictPolicy.HEAL, "Git says it no more"


def test_a_dropped_dependency_is_recorded_anew() -> None:
    """S0-14: one bookkeeping write once the member is healthy at the new revision."""
    stale = live(SOURCE, "a")
    stale["metadata"]["annotations"][well_known.DEPS] = "0123456789abcdef~"
    one = decided(stale, live(SOURCE, "b"))
    assert actions(one)["a"] == (NodeAction.RECORD, True)
    assert one.nodes[0].dependencies == ()
    assert actions(one)["b"] == (NodeAction.NONE, False)


@pytest.mark.parametrize("why", [Denied("get"), Unavailable("get"), Invalid("get")], ids=lambda why: type(why).__name__)
def test_an_object_that_could_not_be_read_is_not_looked_at_again_and_holds_up_no_other(why: ClusterError) -> None:
    """I9: what cannot be read is reported; an answer to a write that was lost is no such thing, and is read back."""
    unread = {key("b"): why}
    assert actions(decided(live(SOURCE, "a", drifted="text"), failures=unread)) == {
        "a": (NodeAction.HEAL, True),
        "b": (NodeAction.UNKNOWN, False),
    }
    lost = decided(live(SOURCE, "a"), failures={key("b"): UnknownOutcome("apply")})
    assert actions(lost)["b"] == (NodeAction.READ, False)


@pytest.mark.parametrize(
    ("wait_for", "works", "ready"),
    [
        ("", False, True),
        ("healthy", False, False),
        ("healthy", True, True),
        ("exists", False, True),
        ("none", False, True),
    ],
)
def test_wait_for_replaces_the_rule_of_readiness(wait_for: str, works: bool, ready: bool) -> None:
    """Rule 2; a load balancer is healthy once it has an address."""
    services = bundle(plain("a", kind="Service"))
    obj = {**live(services.sources["platform"], "a"), "spec": {"type": "LoadBalancer"}}
    if works:
        obj["spec"]["clusterIP"] = "10.0.0.1"
    if wait_for:
        obj["metadata"]["annotations"][well_known.WAIT_FOR] = wait_for
    assert decided(obj, of=services).nodes[0].ready is ready


def test_health_ignore_takes_an_object_out_of_what_is_healthy() -> None:
    """Surface 2.4: on the live object it counts as well; who depends on it waits as ever."""
    services = bundle(plain("a", kind="Service"))
    obj = {**live(services.sources["platform"], "a"), "spec": {"type": "LoadBalancer"}}
    assert not decided(obj, of=services).nodes[0].healthy
    obj["metadata"]["annotations"][well_known.HEALTH] = "ignore"
    assert decided(obj, of=services).nodes[0].healthy


def test_nodes_that_wait_or_cannot_be_rendered_say_so() -> None:
    node = RenderedNode("w", 0, (), CONFIG_MAP, {}, None, waiting=("a.status.host",))
    wrong = RenderedNode("e", 0, (), CONFIG_MAP, {}, None, error="no such field")
    one = RenderedApplySet(parent=PARENT, nodes=(node, wrong), source="platform")
    found = plan(Rendering({"platform": one}, {}), observed(parent(one))).sets[0]
    assert [(node.blocked.reason, node.blocked.message) for node in found.nodes if node.blocked] == [
        (Reason.WAITING_FOR_DATA, "a.status.host"),
        (Reason.RENDER_FAILED, "no such field"),
    ]


# ---- the planner alone

HOLD = Cause(Reason.RENDER_FAILED, "no such field")
JOB_KEY = ObjectKey("batch", "Job", "default", "j")
ADOPTING = Adoption(AdoptPolicy.IF_UNOWNED, frozenset({"kubectl"}))


def node_planner(
    rendered: RenderedApplySet,
    seen: Observed,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
) -> NodePlanner:
    found = set_planner(rendering_of(rendered), seen, constraints, permissions).node_planner
    assert isinstance(found, NodePlanner)
    return found


def plan_of(
    node: RenderedNode, *objects: Object, absent: str = "", constraints: PlanConstraints | None = None, **seen: Any
) -> NodePlan:
    """Return the plan of `node`, the only node of its source."""
    rendered = replace(SOURCE, nodes=(node,))
    known = replace(observed(*objects, absent=absent), **seen)
    [found] = node_planner(rendered, known, constraints).plan_nodes(rendered, ready_to_write=True)
    return found


def stale(name: str) -> Object:
    """Return the member `name`, which records a dependency that its revision no longer has."""
    obj = live(SOURCE, name)
    obj["metadata"]["annotations"][well_known.DEPS] = "0123456789abcdef~"
    return obj


def test_a_set_that_is_not_ready_to_write_plans_the_same_actions_and_starts_none() -> None:
    """I1: the parent covers each member before the first write."""
    planner = node_planner(SOURCE, observed(live(OLD, "a"), absent="b"))
    ready, waiting = (planner.plan_nodes(SOURCE, ready_to_write=ready) for ready in (True, False))
    assert [(plan.action, plan.allowed) for plan in ready] == [(NodeAction.UPDATE, True), (NodeAction.CREATE, False)]
    assert waiting == tuple(plan._replace(allowed=False) for plan in ready)


@pytest.mark.parametrize(
    ("objects", "action", "allowed"),
    [
        ((), NodeAction.CREATE, True),
        ((live(SOURCE, "a", drifted="text"),), NodeAction.HEAL, True),
        ((of_kubectl("a"),), NodeAction.ADOPT, True),
        ((live(OLD, "a"),), NodeAction.UPDATE, False),
        ((stale("a"),), NodeAction.RECORD, False),
        ((live(SOURCE, "a"),), NodeAction.NONE, False),
    ],
    ids=lambda value: str(value) if isinstance(value, NodeAction) else "",
)
def test_a_hold_stops_updates_and_records_alone(objects: tuple[Object, ...], action: NodeAction, allowed: bool) -> None:
    constraints = PlanConstraints(adoptions={"platform": ADOPTING})
    rendered = replace(SOURCE, nodes=(node_of("a"),))
    planner = node_planner(rendered, observed(*objects, absent="" if objects else "a"), constraints)
    [held] = planner.plan_nodes(rendered, ready_to_write=True, hold_cause=HOLD)
    assert (held.action, held.allowed) == (action, allowed)
    assert (held.blocked == HOLD) == (action in {NodeAction.UPDATE, NodeAction.RECORD})


def test_a_hold_does_not_hide_why_an_update_could_not_start_anyway() -> None:
    failed = replace(observed(live(OLD, "a")), failures={key("a"): Denied("no quota")})
    rendered = replace(SOURCE, nodes=(node_of("a"),))
    [held] = node_planner(rendered, failed).plan_nodes(rendered, ready_to_write=True, hold_cause=HOLD)
    assert held.blocked == Cause(Reason.APPLY_FAILED, "not allowed: no quota")


def test_all_descendants_name_the_first_ancestor_that_holds_them() -> None:
    """Rule 1: `c` depends on `b` alone, and waits because of `a`."""
    chain = bundle(plain("a"), plain("b", "a"), plain("c", "b")).sources["platform"]
    failed = replace(observed(absent="abc"), failures={key("a"): Denied("no quota")})
    plans = node_planner(chain, failed).plan_nodes(chain, ready_to_write=True)
    name = str(key("a"))
    expected = Cause(Reason.DEPENDENCY_NOT_READY, f"{name}: not allowed: no quota", blockers=(name,))
    assert [plan.blocked for plan in plans[1:]] == [expected, expected]


# ---- repairs


def repairs_of(rendered: RenderedApplySet, seen: Observed, *, ready_to_write: bool = True) -> tuple[NodePlan, ...]:
    """The repairs of objects that were applied from this set."""
    applied_nodes = node_planner(rendered, seen).plan_nodes(rendered, ready_to_write=True)
    return select_repairs(applied_nodes, ready_to_write=ready_to_write)


@pytest.mark.parametrize("ready_to_write", [True, False])
def test_repairs_are_creations_and_healings_that_could_start(ready_to_write: bool) -> None:
    """An update or a record would move the object; neither restores what was applied."""
    wide = bundle(*(plain(name) for name in "abcde")).sources["platform"]
    moved = live(bundle(plain("c", text="old")).sources["platform"], "c")
    renewed = live(wide, "d")
    renewed["metadata"]["annotations"][well_known.DEPS] = "0123456789abcdef~"
    seen = observed(live(wide, "a", drifted="text"), moved, renewed, live(wide, "e"), absent="b")
    repairs = repairs_of(wide, seen, ready_to_write=ready_to_write)
    assert [(plan.node.key, plan.action, plan.allowed) for plan in repairs] == [
        (key("a"), NodeAction.HEAL, ready_to_write),
        (key("b"), NodeAction.CREATE, ready_to_write),
    ]


def test_a_repair_that_failed_or_waits_is_left_out() -> None:
    failed = replace(observed(live(SOURCE, "a", drifted="text"), absent="b"), failures={key("a"): Denied("no")})
    assert repairs_of(SOURCE, failed) == ()


def test_an_object_that_was_not_read_is_read_before_its_repair() -> None:
    repairs = repairs_of(SOURCE, observed(live(SOURCE, "a")))
    assert [(plan.node.key, plan.action, plan.allowed) for plan in repairs] == [(key("b"), NodeAction.READ, False)]


# ---- nodes that cannot be written


def completed(node: RenderedNode, until: str = "1") -> str:
    assert node.key is not None
    return f"{key_hash(node.key)}:{node.hash[:16]}:{until}"


def job_node(**content: Any) -> RenderedNode:
    metadata = {"name": "j", "namespace": "default"}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, **content}
    return RenderedNode("j", 0, (), JOB_KEY.group_kind, manifest, JOB_KEY)


def source_object(completion_record: str) -> Object:
    obj = parent(SOURCE)
    obj["metadata"]["annotations"][well_known.COMPLETED] = completion_record
    return obj


@pytest.mark.parametrize(
    ("record", "is_ttl_removed"),
    [("", False), (completed(job_node()), True), (completed(job_node(spec={})), False)],
    ids=["never completed", "completed", "completed with another manifest"],
)
def test_a_job_that_its_ttl_removed_counts_as_applied(record: str, is_ttl_removed: bool) -> None:
    """KEP-592: the record on the parent is the only trace of the Job."""
    node_plan = plan_of(job_node(), source_object(record))
    assert node_plan.is_ttl_removed is is_ttl_removed
    expected = (NodeAction.NONE, True, True) if is_ttl_removed else (NodeAction.READ, False, False)
    assert (node_plan.action, node_plan.ready, node_plan.healthy) == expected


def test_a_changed_job_runs_again_while_its_dependents_count_the_applied_one() -> None:
    """The completion belongs to the Job of the applied snapshot, so nothing that was ready stops being ready."""
    old, new = job_node(), job_node(spec={"suspend": True})
    rendered = replace(SOURCE, nodes=(new,), applied_rendering=replace(SOURCE, nodes=(old,)))
    seen = observed(source_object(completed(old))).without_objects([JOB_KEY])
    [found] = node_planner(rendered, seen).plan_nodes(rendered, ready_to_write=True)
    assert (found.action, found.allowed, found.is_ttl_removed) == (NodeAction.CREATE, True, True)
    assert (found.ready, found.healthy, found.is_applied_and_ready) == (True, True, False)


@pytest.mark.parametrize(("has_record", "is_repair"), [(True, False), (False, True)])
def test_an_update_heals_only_where_another_manager_took_the_record_too(has_record: bool, is_repair: bool) -> None:
    """With an intact record of another hash, only Git has changed; a throttled repair does not delay such an update."""
    obj = live(OLD, "a")
    if not has_record:
        owned = obj["metadata"]["managedFields"][0]["fieldsV1"]
        owned["f:metadata"]["f:annotations"].pop(f"f:{well_known.HASH}")
        owned["f:data"] = {}
        taken = {"f:data": {"f:text": {}}, "f:metadata": {"f:annotations": {f"f:{well_known.HASH}": {}}}}
        obj["metadata"]["managedFields"].append({"manager": "script", "operation": "Update", "fieldsV1": taken})
    throttled = Cause(Reason.CONFLICT, "another writer keeps undoing the repair")
    found = plan_of(node_of("a"), obj, constraints=PlanConstraints(throttled_repairs={key("a"): throttled}))
    assert found.action is NodeAction.UPDATE
    assert (".data.text" in [lost.path for lost in found.lost_fields]) is is_repair
    assert found.blocked == (throttled if is_repair else None)


@pytest.mark.parametrize(
    ("annotations", "owners", "action"),
    [
        ({}, [], NodeAction.UPDATE),
        ({well_known.REPLACE: "allowed"}, [], NodeAction.REPLACE),
        ({well_known.REPLACE: "allowed", well_known.PRUNE: "disabled"}, [], NodeAction.UPDATE),
        ({well_known.REPLACE: "allowed"}, [{"controller": True}], NodeAction.UPDATE),
    ],
    ids=["nobody allows it", "allowed", "pruning is disabled", "a controller owns it"],
)
def test_an_immutable_object_is_replaced_only_with_permission_and_proof(
    annotations: dict[str, str], owners: list[dict[str, bool]], action: NodeAction
) -> None:
    obj = live(OLD, "a", ownerReferences=owners)
    obj["metadata"]["annotations"] |= annotations
    found = plan_of(node_of("a"), obj, failures={key("a"): Immutable("field is immutable")})
    assert (found.action, found.allowed) == (action, action is NodeAction.REPLACE)
    assert (found.blocked is None) is (action is NodeAction.REPLACE)


def test_no_other_refusal_leads_to_a_replacement() -> None:
    obj = live(OLD, "a")
    obj["metadata"]["annotations"][well_known.REPLACE] = "allowed"
    assert plan_of(node_of("a"), obj, failures={key("a"): Invalid("no such field")}).action is NodeAction.UPDATE


def test_an_unhealthy_instance_explains_itself_in_its_own_status() -> None:
    """A source repeats no text of an instance; the status of the instance has it."""
    obj = {**link_object(), "status": {"conditions": [{"type": "Ready", "status": "False", "message": "1 of 2"}]}}
    node = RenderedNode(str(LINK), 0, (), LINK.group_kind, {**obj, "status": None}, LINK)
    source = replace(SOURCE, nodes=(node,))
    with_instance, without = rendering_of(source, link_set()), rendering_of(source)
    told = [
        set_planner(rendering, observed(obj)).node_planner.plan_nodes(source, ready_to_write=True)[0]
        for rendering in (with_instance, without)
    ]
    assert [plan.healthy for plan in told] == [False, False]
    assert told[0].unhealthy_message == ""
    assert told[1].unhealthy_message != ""
