"""What one pass decides: actions, barriers, takeovers, parents; pure tables over rendered sets and hand-made observations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.inventory import Scope, parent_body, scope_of
from applier.applyset.member import dependencies_to_record, member_body
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Discovery, Object
from applier.errors import ClusterError, Denied, FieldConflict, Invalid, Unavailable, UnknownOutcome
from applier.plan.model import (
    ApplySetPlan,
    ChangePermissions,
    NodeAction,
    NodePlan,
    PermissionAnswer,
    Plan,
    PlanConstraints,
)
from applier.plan.planner import plan
from applier.plan.prune import PruneOutcome
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import Observed
from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from renderer.render.render import render
from tests.properties.repositories import plain

CONFIG_MAP = GroupKind("", "ConfigMap")
PARENT = source_parent("platform")
DISCOVERY = asyncio.run(cluster_of(Sandbox().answer).discover())


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", name)


def bundle(*texts: str, source: str = "platform") -> Rendering:
    return render([load({f"{index}.json": text.encode() for index, text in enumerate(texts)}, source=source)])


PAIR = bundle(plain("a"), plain("b", "a"))


def owned(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return {}
    return {f"f:{name}": owned(item) for name, item in value.items()}


def live(one: RenderedApplySet, name: str, *, drifted: str = "", **metadata: Any) -> Object:
    """A member as our own apply left it; `drifted` is a field of `data` that somebody else took."""
    node = next(node for node in one.nodes if node.key and node.key.name == name)
    deps = dependencies_to_record(None, one.member_dependencies[node.id], is_healthy=True)
    obj = member_body(one, node, dependencies=deps, live=None, parent_uid="u", commit="r")
    content = {
        "metadata": {part: obj["metadata"][part] for part in ("labels", "annotations")},
        "data": dict(obj["data"]),
    }
    entries = [{"manager": CONTENT_MANAGER, "operation": "Apply", "fieldsV1": owned(content)}]
    if drifted:
        entries[0]["fieldsV1"]["f:data"] = {".": {}}
        entries.append({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {f"f:{drifted}": {}}}})
    obj["metadata"] |= {
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "managedFields": entries,
        **metadata,
    }
    return obj


def parent(one: RenderedApplySet, scope: Scope | None = None) -> Object:
    wanted = scope_of((node.key for node in one.nodes if node.key), one.parent)
    obj = parent_body(one.parent, "v1", wanted if scope is None else scope, version="0")
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return obj


def observed(*objects: Object, absent: str = "") -> Observed:
    return Observed(DISCOVERY, listed=frozenset({CONFIG_MAP})).with_objects(objects).without_objects(map(key, absent))


SOURCE = PAIR.sources["platform"]


def decided(
    *objects: Object, of: Rendering = PAIR, absent: str = "", records: PlanConstraints | None = None, **more: Any
) -> ApplySetPlan:
    found: Plan = plan(of, replace(observed(parent(of.sources["platform"]), *objects, absent=absent), **more), records)
    return found.sets[0]


def actions(one: ApplySetPlan) -> dict[str, tuple[NodeAction, bool]]:
    return {name_of(node): (node.action, node.allowed) for node in one.nodes}


def name_of(node: NodePlan) -> str:
    assert node.node.key is not None
    return node.node.key.name


def blocked(one: ApplySetPlan, name: str) -> Reason | None:
    cause = next(node for node in one.nodes if name_of(node) == name).blocked
    return cause.reason if cause else None


def test_what_was_never_looked_at_is_looked_at_first() -> None:
    """Sets: read before the first write."""
    one = decided()
    assert actions(one) == {"a": (NodeAction.READ, False), "b": (NodeAction.READ, False)}
    assert set(one.keys_to_read) == {key("a"), key("b")}
    assert one.writes == ()


def test_a_node_is_written_after_all_that_it_depends_on_and_not_before() -> None:
    """Rule 1: the barrier goes along the path."""
    assert actions(decided(absent="ab")) == {"a": (NodeAction.CREATE, True), "b": (NodeAction.CREATE, False)}
    assert blocked(decided(absent="ab"), "b") is Reason.DEPENDENCY_NOT_READY
    assert actions(decided(live(SOURCE, "a"), absent="b")) == {
        "a": (NodeAction.NONE, False),
        "b": (NodeAction.CREATE, True),
    }
    settled = decided(live(SOURCE, "a"), live(SOURCE, "b"))
    assert actions(settled) == {"a": (NodeAction.NONE, False), "b": (NodeAction.NONE, False)}
    assert settled.is_idle


def test_an_update_above_holds_an_update_below_but_not_its_healing() -> None:
    """Rules 1 and 6: self-healing to what is applied goes on."""
    old = bundle(plain("a", text="old"), plain("b", "a", text="old")).sources["platform"]
    assert actions(decided(live(old, "a"), live(old, "b"))) == {
        "a": (NodeAction.UPDATE, True),
        "b": (NodeAction.UPDATE, False),
    }
    assert actions(decided(live(old, "a"), live(SOURCE, "b", drifted="text")))["b"] == (NodeAction.HEAL, True)


def test_a_field_that_somebody_took_is_healed() -> None:
    assert actions(decided(live(SOURCE, "a", drifted="text"), live(SOURCE, "b")))["a"] == (NodeAction.HEAL, True)


def test_a_dropped_dependency_is_recorded_anew() -> None:
    """S0-14: one bookkeeping write once the member is healthy at the new revision."""
    stale = live(SOURCE, "a")
    stale["metadata"]["annotations"][well_known.DEPS] = "0123456789abcdef~"
    one = decided(stale, live(SOURCE, "b"))
    assert actions(one)["a"] == (NodeAction.RECORD, True)
    assert one.nodes[0].dependencies == ()
    assert actions(one)["b"] == (NodeAction.NONE, False)


def test_nothing_is_written_before_the_parent_covers_it() -> None:
    """I1, S0-19: the union is written first."""
    for scope in (Scope(), Scope(frozenset({GroupKind("", "Secret")}))):
        found = plan(PAIR, observed(parent(SOURCE, scope), absent="ab")).sets[0]
        assert found.superset_scope is not None
        assert found.superset_scope >= scope | scope_of([key("a")], PARENT)
        assert found.writes == ()
    nobody = plan(PAIR, observed(absent="ab")).sets[0]
    assert nobody.superset_scope == scope_of([key("a")], PARENT)


def test_the_scope_shrinks_only_when_nothing_is_left_to_do() -> None:
    """I1, S0-19."""
    secret = GroupKind("", "Secret")
    wide = scope_of([key("a")], PARENT) | Scope(frozenset({secret}))
    objects = (live(SOURCE, "a"), live(SOURCE, "b"))
    unlisted = plan(PAIR, observed(parent(SOURCE, wide), *objects)).sets[0]
    assert unlisted.exact_scope is None
    full = replace(observed(parent(SOURCE, wide), *objects), listed=frozenset({CONFIG_MAP, secret}))
    assert plan(PAIR, full).sets[0].exact_scope == scope_of([key("a")], PARENT)
    writing = replace(observed(parent(SOURCE, wide), live(SOURCE, "a"), absent="b"), listed=full.listed)
    assert plan(PAIR, writing).sets[0].exact_scope is None


def test_nothing_is_pruned_while_its_set_writes_and_afterwards_it_is() -> None:
    """S0-10."""
    before = bundle(plain("a", text="old"), plain("old")).sources["platform"]
    orphan = live(before, "old")
    writing = decided(live(before, "a"), live(SOURCE, "b"), orphan, of=PAIR).prune_candidates
    assert not any(one.allowed for one in writing)
    done = decided(live(SOURCE, "a"), live(SOURCE, "b"), orphan).prune_candidates
    assert [(one.member.key.name, one.allowed) for one in done] == [("old", True)]


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


def test_nothing_is_pruned_on_an_incomplete_view() -> None:
    """KEP-3659."""
    orphan = live(bundle(plain("old")).sources["platform"], "old")
    found = decided(live(SOURCE, "a"), live(SOURCE, "b"), orphan, listed=frozenset()).prune_candidates
    assert not any(one.allowed for one in found)


def test_a_kind_whose_group_does_not_answer_is_not_one_that_is_not_served() -> None:
    """I2, fault row "discovery stale": of a kind that is certainly not served there is nothing, and nothing keeps the others."""
    orphan = live(bundle(plain("old")).sources["platform"], "old")
    kinds = (live(SOURCE, "a"), live(SOURCE, "b"), orphan)
    stale, complete = (
        decided(*kinds, listed=frozenset(), discovery=Discovery({}, frozenset(down))) for down in (["", "apps"], [])
    )
    assert not any(one.allowed for one in stale.prune_candidates)
    assert [one.allowed for one in complete.prune_candidates] == [True]


def test_nothing_is_written_or_pruned_of_a_kind_that_cannot_be_read_and_nothing_pruned_elsewhere() -> None:
    """I2, I9: what of that kind is live, and what it still needs, is not known."""
    orphan = live(bundle(plain("old")).sources["platform"], "old")
    why = Unavailable("list ConfigMap: conversion webhook failed")
    unreadable = {CONFIG_MAP: why}
    found = decided(live(SOURCE, "a", drifted="text"), orphan, absent="b", unreadable=unreadable, listed=frozenset())
    assert actions(found) == {"a": (NodeAction.UNKNOWN, False), "b": (NodeAction.UNKNOWN, False)}
    assert {node.blocked.message for node in found.nodes if node.blocked} == {str(why)}
    elsewhere = {GroupKind("", "Secret"): why}
    pruned = decided(live(SOURCE, "a"), live(SOURCE, "b", drifted="text"), orphan, unreadable=elsewhere)
    assert actions(pruned)["b"] == (NodeAction.HEAL, True)
    assert not any(one.allowed for one in pruned.prune_candidates)


def test_a_hold_stops_pruning_and_nothing_else() -> None:
    """Rule 12."""
    orphan = live(bundle(plain("old")).sources["platform"], "old")
    records = PlanConstraints(pruning_holds={"platform": "path gone"})
    held = decided(live(SOURCE, "a", drifted="text"), live(SOURCE, "b"), orphan, records=records)
    assert actions(held)["a"] == (NodeAction.HEAL, True)
    assert [one.blocked.reason for one in held.prune_candidates if one.blocked] == [Reason.BRAKE_ENGAGED]


def test_a_new_object_protects_the_orphans_of_its_kind_until_it_is_there() -> None:
    """What waits or failed may still be one of them."""
    orphan = live(bundle(plain("old")).sources["platform"], "old")
    [kept] = decided(live(SOURCE, "a"), orphan, absent="b").prune_candidates
    assert kept.outcome is PruneOutcome.KEEP


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Denied("no"), Reason.APPLY_FAILED),
        (FieldConflict("no"), Reason.CONFLICT),
        (Unavailable("no"), Reason.PROGRESSING),
    ],
)
def test_what_failed_in_this_pass_is_not_tried_again_in_it_and_holds_what_is_below(
    failure: Any, reason: Reason
) -> None:
    """S0-20: its descendants do not start; unrelated branches go on."""
    wide = bundle(plain("a"), plain("b", "a"), plain("c"))
    found = decided(of=wide, absent="abc", failures={key("a"): failure})
    assert actions(found) == {
        "a": (NodeAction.CREATE, False),
        "b": (NodeAction.CREATE, False),
        "c": (NodeAction.CREATE, True),
    }
    assert (blocked(found, "a"), blocked(found, "b")) == (reason, Reason.DEPENDENCY_NOT_READY)


def test_a_member_that_is_going_away_is_not_written() -> None:
    """Sets: the server accepts the apply and it is lost."""
    old = bundle(plain("a", text="old")).sources["platform"]
    for before in (SOURCE, old):
        going = live(before, "a", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
        one = decided(going, live(SOURCE, "b"))
        assert one.writes == ()
        assert blocked(one, "a") is Reason.PROGRESSING


def labelled(set_id: str, *, ours: bool) -> Object:
    obj = live(SOURCE, "a")
    obj["metadata"]["labels"][well_known.PART_OF] = set_id
    if not set_id:
        del obj["metadata"]["labels"][well_known.PART_OF]
    if not ours:
        obj["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]
    return obj


@pytest.mark.parametrize(
    ("set_id", "ours", "reason"),
    [
        (SOURCE.id, True, None),
        ("", True, None),
        ("", False, Reason.CONFLICT),
        ("applyset-of-somebody-v1", True, Reason.OWNED_ELSEWHERE),
        (applyset_id(source_parent("other")), True, None),
    ],
    ids=["ours", "released by us", "never ours", "in a foreign set", "in one of our sets that no longer wants it"],
)
def test_which_objects_may_be_taken(set_id: str, ours: bool, reason: Reason | None) -> None:
    """Sets and "Hand-over"."""
    bundles = render([load({"0.json": plain("a").encode()}, source="platform"), load({}, source="other")])
    assert blocked(decided(labelled(set_id, ours=ours), of=bundles), "a") is reason


@pytest.mark.parametrize("place", ["live", "git"])
def test_reconcile_disabled_leaves_an_object_alone(place: str) -> None:
    text = plain("a").replace('"name": "a",', '"name": "a", "annotations": {"levelgate.dev/reconcile": "disabled"},')
    wanted = bundle(text if place == "git" else plain("a"))
    obj = live(bundle(plain("a", text="old")).sources["platform"], "a")
    if place == "live":
        obj["metadata"]["annotations"][well_known.RECONCILE] = "disabled"
    one = decided(obj, of=wanted)
    assert (one.writes, blocked(one, "a")) == ((), Reason.SUSPENDED)


def test_what_git_alone_has_disabled_git_enables_again() -> None:
    """The annotation is on the live object because we wrote it there: nobody but Git ever said so."""
    text = plain("a").replace('"name": "a",', '"name": "a", "annotations": {"levelgate.dev/reconcile": "disabled"},')
    obj = live(bundle(text).sources["platform"], "a")
    assert decided(obj, of=bundle(plain("a"))).writes
    entries = obj["metadata"]["managedFields"]
    entries.append({**entries[0], "manager": "kubectl-annotate", "operation": "Update"})
    assert blocked(decided(obj, of=bundle(plain("a"))), "a") is Reason.SUSPENDED


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


def test_a_parent_of_another_tool_stops_its_set() -> None:
    """KEP-3659: any fault, no write."""
    theirs = parent(SOURCE)
    theirs["metadata"]["annotations"][well_known.TOOLING] = "kubectl/v1"
    found = plan(PAIR, observed(theirs, absent="ab")).sets[0]
    assert found.error is not None
    assert found.error.reason is Reason.CONFLICT
    assert found.is_idle


@pytest.mark.parametrize(("tooling", "goes"), [("levelgate/v0", True), ("kubectl/v1", False)])
def test_an_instance_that_its_owner_does_not_let_go_keeps_its_members(tooling: str, goes: bool) -> None:
    """Rulings, sets: a person has deleted it, and Git has it no more; but nothing is known of what its source's set, another tool's now, may want."""
    owner = parent(SOURCE, Scope(frozenset({CONFIG_MAP, GroupKind("g.test", "Link")})))
    owner["metadata"]["annotations"][well_known.TOOLING] = tooling
    link = ObjectKey("g.test", "Link", "default", "one")
    instance = parent_body(link, "g.test/v1", Scope(frozenset({CONFIG_MAP})), version="0", with_finalizer=True)
    instance["metadata"]["labels"][well_known.PART_OF] = SOURCE.id
    instance["metadata"] |= {"uid": "i", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    child = live(SOURCE, "a")
    child["metadata"] |= {"name": "child", "labels": {well_known.PART_OF: applyset_id(link)}}
    seen = observed(owner, live(SOURCE, "a"), live(SOURCE, "b"), instance, child)
    seen = replace(seen, listed=frozenset({CONFIG_MAP, GroupKind("g.test", "Link")}))
    one = next(one for one in plan(PAIR, seen).sets if one.rendered.parent == link)
    assert [(orphan.member.key.name, orphan.allowed) for orphan in one.prune_candidates] == (
        [("child", True)] if goes else []
    )
    assert not one.finish_deletion


def test_nodes_that_wait_or_cannot_be_rendered_say_so() -> None:
    node = RenderedNode("w", 0, (), CONFIG_MAP, {}, None, waiting=("a.status.host",))
    wrong = RenderedNode("e", 0, (), CONFIG_MAP, {}, None, error="no such field")
    one = RenderedApplySet(parent=PARENT, nodes=(node, wrong), source="platform")
    found = plan(Rendering({"platform": one}, {}), observed(parent(one))).sets[0]
    assert [(node.blocked.reason, node.blocked.message) for node in found.nodes if node.blocked] == [
        (Reason.WAITING_FOR_DATA, "a.status.host"),
        (Reason.RENDER_FAILED, "no such field"),
    ]


def closed_to(*names: str) -> ChangePermissions:
    return ChangePermissions(lambda change: Cause(Reason.SUSPENDED, "wait") if change.key.name in names else None)


@pytest.mark.parametrize(
    ("gates", "stands"),
    [
        (ChangePermissions(), True),
        (closed_to("b"), True),
        (closed_to("a"), False),
        (replace(ChangePermissions(), targets={PARENT: 2}), False),
        (replace(ChangePermissions(), suspended={PARENT: Cause(Reason.SUSPENDED, "all")}), False),
    ],
    ids=["open", "closed to what was not asked", "closed", "another target", "suspended"],
)
def test_a_plan_stands_as_long_as_the_gates_would_answer_the_same(gates: ChangePermissions, stands: bool) -> None:
    """Rule 6: gates are asked about every change that could start; a plan made for other gates counts only where these say the same."""
    known = observed(parent(SOURCE), absent="ab")
    answers: list[PermissionAnswer] = []
    made = plan(PAIR, known, permissions=ChangePermissions().with_recorded_answers(answers))
    assert [(change.key.name, answer) for change, answer in answers] == [("a", None)]
    assert gates.gives_same_answers(ChangePermissions(), answers) is stands
    assert (plan(PAIR, known, permissions=gates) == made) is stands
