"""Actions, readiness and health of single nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import Adoption, AdoptPolicy
from applier.causes import Cause, Reason
from applier.cluster import Discovery, Object, Resource
from applier.errors import ClusterError, Denied, Immutable, Invalid, Unavailable, UnknownOutcome
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, NodeAction, NodePlan
from applier.plan.node_planner import NodePlanner, select_repairs
from applier.plan.planner import plan
from applier.state.field_conflicts import ConflictPolicy
from applier.state.observed import Observed
from renderer import well_known
from renderer.definition.conditions import ReadyVerdict
from renderer.errors import SourceLocation
from renderer.identity import ObjectKey, key_hash
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from tests.support.apply_sets import (
    CONFIG_MAP,
    PARENT,
    SOURCE,
    actions,
    bundle,
    decided,
    key,
    live,
    observed,
    parent,
)
from tests.support.properties.repositories import plain
from tests.support.set_planners import DELETED_AT, LINK, link_object, link_set, rendering_of, set_planner


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

OLD = bundle(plain("a", text="old"), plain("b", "a", text="old")).sources["platform"]
HOLD = Cause(Reason.RENDER_FAILED, "no such field")
JOB_KEY = ObjectKey("batch", "Job", "default", "j")
ADOPTING = Adoption(AdoptPolicy.IF_UNOWNED, frozenset({"kubectl"}))


def node_planner(
    rendered: RenderedApplySet,
    seen: Observed,
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
) -> NodePlanner:
    return set_planner(rendering_of(rendered), seen, constraints, permissions).node_planner


def node_of(name: str, **fields: Any) -> RenderedNode:
    """Return the node `name` of `SOURCE` with other `fields`."""
    return replace(next(node for node in SOURCE.nodes if node.key == key(name)), **fields)


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


def of_kubectl(name: str, set_id: str = "") -> Object:
    """Return the object `name`, which a person has applied, with the label of the set `set_id`."""
    obj = live(SOURCE, name)
    obj["metadata"]["labels"] = {well_known.PART_OF: set_id} if set_id else {}
    obj["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]
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


def test_a_kind_that_cannot_be_listed_has_its_error_as_cause() -> None:
    found = plan_of(node_of("a"), live(SOURCE, "a"), unreadable={CONFIG_MAP: Unavailable("webhook failed")})
    assert (found.action, found.live) == (NodeAction.UNKNOWN, None)
    assert found.blocked == Cause(Reason.PROGRESSING, "webhook failed")


def test_a_kind_that_the_server_never_stores_is_to_be_removed_from_git() -> None:
    review = Discovery(
        {CONFIG_MAP: Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=frozenset({"create"}))}
    )
    found = plan_of(node_of("a"), discovery=review)
    message = "the server answers requests for ConfigMap but stores no objects; remove the object from Git"
    assert (found.action, found.blocked) == (NodeAction.UNKNOWN, Cause(Reason.APPLY_FAILED, message))


def test_an_object_that_was_not_read_waits_for_its_read() -> None:
    found = plan_of(node_of("a"))
    assert (found.action, found.blocked) == (NodeAction.READ, Cause(Reason.PROGRESSING, "not observed yet"))


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


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        (
            {"waiting": ("a.status.host", "a.status.port")},
            Cause(Reason.WAITING_FOR_DATA, "a.status.host, a.status.port"),
        ),
        ({"error": "no such field"}, Cause(Reason.RENDER_FAILED, "one.yaml:7: no such field")),
    ],
    ids=["waits for data", "has a mistake"],
)
@pytest.mark.parametrize(("set_id", "is_member"), [(SOURCE.id, True), ("another", False)])
def test_a_node_without_a_manifest_keeps_the_health_of_its_own_member(
    fields: dict[str, Any], cause: Cause, set_id: str, is_member: bool
) -> None:
    """An object of another set says nothing about the node."""
    obj = live(SOURCE, "a")
    obj["metadata"]["labels"][well_known.PART_OF] = set_id
    found = plan_of(node_of("a", origin=SourceLocation("one.yaml", 7), **fields), obj)
    assert (found.action, found.allowed, found.blocked) == (NodeAction.UNKNOWN, False, cause)
    assert (found.live is obj, found.ready, found.healthy) == (is_member, is_member, is_member)


# ---- external nodes


@pytest.mark.parametrize(
    ("fields", "absent", "failures", "action", "cause"),
    [
        ({}, "", {}, NodeAction.READ, Cause(Reason.WAITING_FOR_DATA, "ConfigMap/default/a to exist")),
        ({}, "a", {}, NodeAction.NONE, Cause(Reason.WAITING_FOR_DATA, "ConfigMap/default/a to exist")),
        ({}, "", {key("a"): Denied("get")}, NodeAction.NONE, Cause(Reason.APPLY_FAILED, "not allowed: get")),
        (
            {"key": None, "waiting": ("schema.spec.name",)},
            "",
            {},
            NodeAction.NONE,
            Cause(Reason.WAITING_FOR_DATA, "schema.spec.name"),
        ),
        ({"error": "no such field"}, "a", {}, NodeAction.NONE, Cause(Reason.RENDER_FAILED, "0.json:1: no such field")),
    ],
    ids=["not read", "absent", "not readable", "without a name", "with a mistake"],
)
def test_an_external_node_is_read_and_never_written(
    fields: dict[str, Any],
    absent: str,
    failures: dict[ObjectKey, ClusterError],
    action: NodeAction,
    cause: Cause,
) -> None:
    found = plan_of(node_of("a", external=True, **fields), absent=absent, failures=failures)
    assert (found.action, found.allowed, found.ready) == (action, False, False)
    assert found.blocked == cause


@pytest.mark.parametrize(("verdict", "reason"), [(None, None), (True, None), (False, Reason.PROGRESSING)])
def test_an_external_object_is_always_healthy_and_ready_by_its_condition(
    verdict: bool | None, reason: Reason | None
) -> None:
    found = plan_of(node_of("a", external=True, ready=ReadyVerdict(verdict, "no host yet")), live(OLD, "a"))
    assert (found.action, found.healthy, found.ready) == (NodeAction.NONE, True, reason is None)
    assert found.blocked == (Cause(reason, "no host yet", object_key=key("a")) if reason else None)


# ---- the action of a live object


@pytest.mark.parametrize(
    ("obj", "action"),
    [
        (of_kubectl("a"), NodeAction.ADOPT),
        (of_kubectl("a", SOURCE.id), NodeAction.ADOPT),
        (of_kubectl("a", "another"), NodeAction.UPDATE),
        (live(OLD, "a"), NodeAction.UPDATE),
        (live(SOURCE, "a"), NodeAction.NONE),
    ],
    ids=["in no set", "labelled by a person", "in another set", "another manifest", "equal"],
)
def test_an_object_is_adopted_only_while_levelgate_has_never_written_it(obj: Object, action: NodeAction) -> None:
    assert plan_of(node_of("a"), obj).action is action


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


# ---- readiness and health


def waiting_for(rule: str, obj: Object) -> Object:
    obj["metadata"]["annotations"][well_known.WAIT_FOR] = rule
    return obj


def unseen(obj: Object) -> Object:
    """Return `obj`, whose controller has not seen the newest generation."""
    return {**obj, "metadata": {**obj["metadata"], "generation": 2}, "status": {"observedGeneration": 1}}


NOT_FRESH = "the status does not cover the newest generation yet"


@pytest.mark.parametrize(
    ("obj", "verdict", "ready", "message"),
    [
        (live(SOURCE, "a"), None, True, ""),
        (live(SOURCE, "a"), True, True, ""),
        (live(SOURCE, "a"), False, False, "no host yet"),
        (unseen(live(SOURCE, "a")), True, False, NOT_FRESH),
        (unseen(live(SOURCE, "a")), None, True, ""),
        (waiting_for("exists", live(SOURCE, "a")), False, True, ""),
        (waiting_for("none", live(SOURCE, "a")), False, True, ""),
        (waiting_for("ready", live(SOURCE, "a")), False, False, "no host yet"),
        (waiting_for("healthy", live(SOURCE, "a")), False, False, "not healthy yet"),
        (waiting_for("healthy", live(SOURCE, "a")), None, True, ""),
    ],
)
def test_the_first_rule_of_readiness_decides(obj: Object, verdict: bool | None, ready: bool, message: str) -> None:
    """Rule 2: a deletion, then `wait-for`, then `readyWhen`, then existence."""
    found = plan_of(node_of("a", ready=ReadyVerdict(verdict, "no host yet" if verdict is False else "")), obj)
    assert found.ready is ready
    assert found.blocked == (Cause(Reason.PROGRESSING, message, object_key=key("a")) if message else None)


@pytest.mark.parametrize("rule", ["none", "exists", "healthy", "ready"])
def test_an_object_that_is_being_deleted_is_never_ready(rule: str) -> None:
    going = waiting_for(rule, live(SOURCE, "a", deletionTimestamp=DELETED_AT, finalizers=["x"]))
    found = plan_of(node_of("a", ready=ReadyVerdict(True)), going)
    assert not found.ready
    assert found.blocked is not None
    assert found.blocked.message.startswith(f"ConfigMap/default/a is being deleted (requested at {DELETED_AT})")


@pytest.mark.parametrize(
    ("obj", "verdict", "healthy", "message"),
    [
        (live(SOURCE, "a"), ReadyVerdict(), True, ""),
        (live(SOURCE, "a"), ReadyVerdict(True), True, ""),
        (live(SOURCE, "a"), ReadyVerdict(False, "no host yet"), False, "no host yet"),
        (unseen(live(SOURCE, "a")), ReadyVerdict(), False, NOT_FRESH),
        (unseen(live(SOURCE, "a")), ReadyVerdict(False, "no host yet"), False, "no host yet"),
    ],
)
def test_a_node_is_healthy_only_when_its_condition_and_its_status_agree(
    obj: Object, verdict: ReadyVerdict, healthy: bool, message: str
) -> None:
    found = plan_of(node_of("a", ready=verdict), obj)
    assert (found.healthy, found.unhealthy_message) == (healthy, message)


def test_an_absent_object_is_neither_ready_nor_healthy() -> None:
    found = plan_of(node_of("a"), absent="a")
    assert (found.ready, found.healthy, found.unhealthy_message) == (False, False, "the object is absent")


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
