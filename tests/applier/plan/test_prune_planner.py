"""Prune candidates and what the plan knows against their deletion: reads, holds, pending nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.inventory import Scope, scope_of
from applier.causes import Cause, Reason
from applier.cluster import Discovery, Object
from applier.errors import Denied, Invalid, Unavailable
from applier.plan.constraints import PlanConstraints, RefusedWrite, refusal_relevant_state
from applier.plan.model import CandidateChange, ChangePermissions, NodeAction, NodePlan, Operation
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.plan.prune_planner import PrunePlanner
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.identity import GroupKind, ObjectKey, key_hash
from renderer.kinds import NAMESPACE
from renderer.render.model import READ_SUFFIX, RenderedApplySet, RenderedNode
from tests.support.apply_sets import CONFIG_MAP, PARENT, SOURCE, actions, bundle, decided, key, live, observed, parent
from tests.support.properties.repositories import plain
from tests.support.reference_plan import set_planner
from tests.support.set_planners import DELETED_AT, LINK, link_object, link_set, rendering_of


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


# ---- the planner alone

FORMER = bundle(plain("a"), plain("b", "a"), plain("old"), plain("older")).sources["platform"]
"""The source as it was applied: of `SOURCE`, with `old` and `older`, which Git no longer contains."""
SECRETS = Scope(frozenset({GroupKind("", "Secret")}))
INCOMPLETE = "Levelgate could not list every kind in the inventory, and deletes nothing until all lists succeed"
GATE = Cause(Reason.GATE_CLOSED, "wait")


def planner_of(
    *objects: Object,
    sets: tuple[RenderedApplySet, ...] = (SOURCE,),
    constraints: PlanConstraints | None = None,
    check: Callable[[CandidateChange], Cause | None] = lambda _: None,
    unwanted: tuple[RenderedApplySet, ...] = (),
    to_final_state: bool = False,
    **seen: Any,
) -> PrunePlanner:
    planner = set_planner(
        rendering_of(*sets),
        replace(observed(*objects), **seen),
        constraints,
        ChangePermissions(check),
        unwanted=unwanted,
        to_final_state=to_final_state,
    )
    return planner.prune_planner


def candidates_of(
    planner: PrunePlanner,
    rendered: RenderedApplySet = SOURCE,
    nodes: tuple[NodePlan, ...] = (),
    scope: Scope | None = None,
    *,
    release: bool = False,
) -> dict[str, PruneCandidate]:
    found = planner.plan_candidates(rendered, nodes, scope or Scope(), release=release)
    return {candidate.member.key.name: candidate for candidate in found}


def old(**metadata: Any) -> Object:
    return live(FORMER, "old", **metadata)


def of_link(name: str, **metadata: Any) -> Object:
    """Return the member `name` of the instance `LINK`."""
    return live(link_set(*FORMER.nodes), name, **metadata)


def pending(name: str, action: NodeAction = NodeAction.CREATE, **fields: Any) -> NodePlan:
    node = RenderedNode(name, 0, (), CONFIG_MAP, {}, key(name))
    return NodePlan(replace(node, **fields), action, None)


def test_only_members_that_no_set_wants_are_candidates() -> None:
    """`a` is wanted by its own set, and `older` by another set."""
    other = link_set(*(node for node in FORMER.nodes if node.key == key("older")))
    planner = planner_of(live(SOURCE, "a"), old(), live(FORMER, "older"), sets=(SOURCE, other))
    assert list(candidates_of(planner)) == ["old"]
    assert candidates_of(planner_of(live(SOURCE, "a"))) == {}


@pytest.mark.parametrize(
    ("constraints", "release", "outcome", "message"),
    [
        (PlanConstraints(), False, PruneOutcome.DELETE, ""),
        (PlanConstraints(), True, PruneOutcome.RELEASE, ""),
        (PlanConstraints(orphaned_keys=frozenset({key("old")})), False, PruneOutcome.RELEASE, ""),
        (
            PlanConstraints(non_pruning_sources=frozenset({"platform"})),
            False,
            PruneOutcome.KEEP,
            "no longer in Git; source platform deletes nothing (prune: false)",
        ),
        (PlanConstraints(non_pruning_sources=frozenset({"other"})), False, PruneOutcome.DELETE, ""),
    ],
    ids=["deleted", "the set releases all", "released alone", "its source deletes nothing", "another source does not"],
)
def test_the_rules_of_the_set_and_its_source_decide_the_outcome(
    constraints: PlanConstraints, release: bool, outcome: PruneOutcome, message: str
) -> None:
    found = candidates_of(planner_of(old(), constraints=constraints), release=release)["old"]
    assert (found.outcome, found.allowed) == (outcome, not message)
    assert (found.blocked.message if found.blocked else "") == message


# ---- holds


HELD = PlanConstraints(pruning_holds={"platform": "path gone"})


def test_the_hold_of_a_source_stops_its_own_deletions() -> None:
    found = candidates_of(planner_of(old(), constraints=HELD))["old"]
    assert (found.outcome, found.allowed) == (PruneOutcome.DELETE, False)
    assert found.blocked == Cause(Reason.BRAKE_ENGAGED, "path gone")


@pytest.mark.parametrize(("parents", "is_held"), [((link_object(),), False), ((), True)], ids=["live", "lost"])
def test_the_hold_of_a_source_stops_the_deletions_of_a_lost_instance_alone(
    parents: tuple[Object, ...], is_held: bool
) -> None:
    """A live instance is itself a member of its source, so the hold of the source covers the instance before."""
    planner = planner_of(*parents, of_link("old"), sets=(SOURCE, link_set()), constraints=HELD)
    found = candidates_of(planner, link_set())["old"]
    assert found.allowed is not is_held
    assert found.blocked == (Cause(Reason.BRAKE_ENGAGED, "path gone") if is_held else None)


@pytest.mark.parametrize(
    ("scope", "seen", "message"),
    [
        (Scope(), {}, ""),
        (scope_of([key("a")], LINK), {}, ""),
        (SECRETS, {}, INCOMPLETE),
        (SECRETS, {"listed": frozenset({CONFIG_MAP, *SECRETS.kinds})}, ""),
        (Scope(), {"unreadable": {GroupKind("apps", "Deployment"): Unavailable("no")}}, INCOMPLETE),
        (Scope(frozenset({GroupKind("gone.test", "Gone")})), {}, ""),
    ],
    ids=["no kind", "listed", "not listed", "both listed", "another kind is unreadable", "the kind is not served"],
)
def test_an_instance_prunes_after_the_kinds_of_its_own_scope_are_listed(
    scope: Scope, seen: Mapping[str, Any], message: str
) -> None:
    """KEP-3659."""
    planner = planner_of(link_object(), of_link("old"), sets=(SOURCE, link_set()), **seen)
    found = candidates_of(planner, link_set(), scope=scope)["old"]
    assert (found.blocked.message if found.blocked else "") == message


@pytest.mark.parametrize(("own", "others"), [(SECRETS, Scope()), (Scope(), SECRETS)], ids=["its own", "an instance's"])
def test_a_source_prunes_after_the_kinds_of_all_sets_are_listed(own: Scope, others: Scope) -> None:
    """A source deletes instances, so an unlisted member of an instance counts too."""
    objects = (parent(SOURCE, own), link_object(others), old())
    for listed, is_complete in ((frozenset({CONFIG_MAP}), False), (SECRETS.kinds | {CONFIG_MAP}, True)):
        planner = planner_of(*objects, sets=(SOURCE, link_set()), listed=listed)
        assert candidates_of(planner)["old"].allowed is is_complete


def test_the_inventory_of_a_foreign_set_asks_for_no_list() -> None:
    """Levelgate deletes nothing through a parent of another tool."""
    theirs = link_object(SECRETS)
    theirs["metadata"]["annotations"][well_known.TOOLING] = "kubectl/v1"
    assert candidates_of(planner_of(theirs, old(), sets=(SOURCE, link_set())))["old"].allowed


def test_the_list_of_a_scope_is_complete_when_each_kind_is_listed_or_not_served() -> None:
    planner = planner_of()
    assert planner.is_listed(Scope())
    assert planner.is_listed(Scope(frozenset({CONFIG_MAP, GroupKind("gone.test", "Gone")})))
    assert not planner.is_listed(Scope(frozenset({CONFIG_MAP})) | SECRETS)


# ---- protections


@pytest.mark.parametrize(
    ("node", "to_final_state", "is_protected"),
    [
        (pending("new"), False, True),
        (pending("new"), True, False),
        (pending("new", waiting=("a.status.host",)), True, True),
        (pending("new")._replace(blocked=Cause(Reason.APPLY_FAILED, "no")), True, True),
        (pending("new")._replace(blocked=GATE), True, False),
        (pending("new", NodeAction.NONE)._replace(live={"metadata": {}}), False, False),
        (pending("new", NodeAction.RECORD)._replace(live={"metadata": {}}), False, False),
        (pending("new", NodeAction.HEAL)._replace(live={"metadata": {}}), False, True),
    ],
    ids=["unwritten", "final", "waits for data", "failed", "held", "applied", "applied but for a record", "drifted"],
)
def test_a_node_that_is_not_applied_protects_members_of_its_kind(
    node: NodePlan, to_final_state: bool, is_protected: bool
) -> None:
    """In a plan to the final state, only nodes that no plan can write protect members."""
    found = candidates_of(planner_of(old(), to_final_state=to_final_state), nodes=(node,))["old"]
    assert (found.awaits_unwritten_node, found.allowed) == (is_protected, not is_protected)


@pytest.mark.parametrize(("is_terminating", "is_protected"), [(True, False), (False, True)])
def test_a_node_behind_a_deleted_namespace_protects_no_instance_whose_deletion_has_begun(
    is_terminating: bool, is_protected: bool
) -> None:
    """Otherwise the node waits for the Namespace, the Namespace for the set, and the set for the node."""
    space = {"metadata": {"name": "default", **({"deletionTimestamp": DELETED_AT} if is_terminating else {})}}
    container = pending("space", group_kind=NAMESPACE)._replace(live=space)
    behind = (
        container,
        pending("x", depends_on=("space",)),
        pending("y", depends_on=("x",), group_kind=LINK.group_kind),
    )
    link = link_object(deletionTimestamp=DELETED_AT)
    link["metadata"]["labels"][well_known.PART_OF] = SOURCE.id
    found = candidates_of(planner_of(link), nodes=behind)[LINK.name]
    assert (found.outcome is PruneOutcome.KEEP) is is_protected


# ---- refusals and permissions


def refused(error: Invalid | Denied, obj: Object) -> PlanConstraints:
    return PlanConstraints(
        refused_writes={(PARENT, key("old")): RefusedWrite(error, None, refusal_relevant_state(obj))}
    )


@pytest.mark.parametrize(
    ("constraints", "failures", "message"),
    [
        (PlanConstraints(), {key("old"): Denied("no delete")}, "not allowed: no delete"),
        (refused(Invalid("webhook says no"), old()), {}, "webhook says no"),
        (refused(Invalid("webhook says no"), old(labels={})), {}, ""),
    ],
    ids=["failed in this reconciliation", "refused before", "refused before it changed"],
)
def test_a_refused_deletion_is_not_repeated(
    constraints: PlanConstraints, failures: Mapping[ObjectKey, Denied], message: str
) -> None:
    found = candidates_of(planner_of(old(), constraints=constraints, failures=failures))["old"]
    assert (found.outcome, found.allowed) == (PruneOutcome.DELETE, not message)
    assert (found.blocked.message if found.blocked else "") == message


def test_a_deletion_without_permission_waits_with_the_cause_of_the_permission() -> None:
    """Windows and gates judge the deletion as a prune of its node."""
    asked: list[CandidateChange] = []

    def check(change: CandidateChange) -> Cause:
        asked.append(change)
        return GATE

    sets = (SOURCE, link_set())
    found = candidates_of(planner_of(link_object(), of_link("b"), sets=sets[1:], check=check), link_set())["b"]
    assert (found.outcome, found.allowed, found.blocked) == (PruneOutcome.DELETE, False, GATE)
    [change] = asked
    assert (change.set, change.key, change.operation) == (link_set(), key("b"), Operation.PRUNE)
    assert (change.node_id, change.level, change.live) == (str(key("b")), 1, of_link("b"))


@pytest.mark.parametrize(
    ("objects", "nodes", "constraints", "release", "asked"),
    [
        ((old(),), (), PlanConstraints(), False, ["old"]),
        ((old(),), (pending("new"),), PlanConstraints(), False, ["old"]),
        ((old(),), (), HELD, False, []),
        ((old(),), (), PlanConstraints(), True, []),
        ((old(deletionTimestamp=DELETED_AT),), (), PlanConstraints(), False, []),
        ((live(FORMER, "b"), live(FORMER, "a")), (), PlanConstraints(), False, ["b"]),
    ],
    ids=["deleted now", "protected", "held by the brake", "released", "already being deleted", "still used"],
)
def test_permission_is_asked_for_deletions_that_could_start_and_for_protected_members(
    objects: tuple[Object, ...],
    nodes: tuple[NodePlan, ...],
    constraints: PlanConstraints,
    release: bool,
    asked: list[str],
) -> None:
    """While a gate holds a member, its cause is the same, whether or not a node protects the member."""
    empty = replace(SOURCE, nodes=())

    def check(change: CandidateChange) -> Cause:
        seen.append(change.key.name)
        return GATE

    seen: list[str] = []
    planner = planner_of(*objects, sets=(empty,), constraints=constraints, check=check)
    found = candidates_of(planner, empty, nodes, release=release)
    assert seen == asked
    assert [name for name, candidate in found.items() if candidate.blocked == GATE] == asked
    assert all(found[name].outcome is PruneOutcome.DELETE for name in asked)


# ---- sets that are not pruned


def test_a_set_that_is_not_pruned_reports_the_members_that_another_client_deletes() -> None:
    """They keep the outcome `keep`, so that all that they own stays."""
    going: dict[str, Any] = {"deletionTimestamp": DELETED_AT, "finalizers": ["example.com/hold"]}
    planner = planner_of(live(SOURCE, "a", **going), old(**going), live(FORMER, "older"))
    [found] = planner.departing_members(SOURCE)
    assert (found.member.key, found.outcome, found.allowed) == (key("old"), PruneOutcome.KEEP, False)
    assert found.blocked is not None
    assert found.blocked.reason is Reason.DELETION_BLOCKED


def test_the_wanted_members_of_a_set_are_those_that_any_set_still_wants() -> None:
    """An instance that is deleted waits until other sets take over these members."""
    planner = planner_of(of_link("a"), of_link("old"))
    assert planner.wanted_members(link_set()) == [key("a")]
    assert planner.wanted_members(SOURCE) == []


# ---- lost instances


LOST = RenderedApplySet(LINK, source="platform")
FILES = UnreadableFiles(("one.yaml", "two.yaml"), ("one.yaml",))


def of_kind_link(**fields: Any) -> RenderedApplySet:
    node = RenderedNode("one", 0, (), LINK.group_kind, {}, LINK._replace(name="y"))
    return replace(SOURCE, nodes=(replace(node, **fields),))


@pytest.mark.parametrize(
    ("source", "constraints", "is_absent", "obstacle"),
    [
        (SOURCE, PlanConstraints(), True, ""),
        (SOURCE, PlanConstraints(), False, "Levelgate knows whether the instance exists"),
        (
            SOURCE,
            PlanConstraints(foreign_claims={LINK: PARENT._replace(name="other")}),
            False,
            f"{PARENT._replace(name='other')} has taken over the instance",
        ),
        (SOURCE, PlanConstraints(unreadable_files={"platform": FILES}), True, "one.yaml can be read"),
        (SOURCE, PlanConstraints(unreadable_files={"other": FILES}), True, ""),
        (SOURCE, PlanConstraints(unreadable_files={"platform": replace(FILES, unreadable=())}), True, ""),
        (replace(SOURCE, error="no such field"), PlanConstraints(), True, f"{PARENT} can be rendered"),
        (replace(SOURCE, held_reason="no such field"), PlanConstraints(), True, f"{PARENT} can be rendered"),
        (replace(SOURCE, source="other", error="no such field"), PlanConstraints(), True, ""),
        (of_kind_link(key=None), PlanConstraints(), True, f"{PARENT} can be rendered"),
        (of_kind_link(waiting=("a.status",)), PlanConstraints(), True, f"{PARENT} can be rendered"),
        (of_kind_link(error="no such field"), PlanConstraints(), True, f"{PARENT} can be rendered"),
        (of_kind_link(group_kind=CONFIG_MAP, key=None), PlanConstraints(), True, ""),
        (of_kind_link(), PlanConstraints(), True, ""),
    ],
)
def test_the_members_of_a_lost_instance_stay_while_git_may_still_declare_the_instance(
    source: RenderedApplySet, constraints: PlanConstraints, is_absent: bool, obstacle: str
) -> None:
    known = Discovery({}, frozenset({LINK.group}))
    absent = frozenset({LINK} if is_absent else ())
    planner = planner_of(sets=(source,), constraints=constraints, unwanted=(LOST,), discovery=known, absent=absent)
    message = f"{LINK} is gone; its members stay until {obstacle}"
    expected = Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=LINK) if obstacle else None
    assert planner.find_lost_cause(LOST) == expected


def test_an_instance_of_a_kind_that_is_certainly_not_served_is_certainly_gone() -> None:
    assert planner_of(unwanted=(LOST,), discovery=Discovery({})).find_lost_cause(LOST) is None


def test_a_lost_instance_names_three_unreadable_files_at_most() -> None:
    names = [f"{name}.yaml" for name in "edcba"]
    constraints = PlanConstraints(unreadable_files={"platform": UnreadableFiles(names, names)})
    found = planner_of(unwanted=(LOST,), constraints=constraints, absent=frozenset({LINK})).find_lost_cause(LOST)
    assert found is not None
    assert found.message == f"{LINK} is gone; its members stay until a.yaml, b.yaml, c.yaml and 2 more can be read"


# ---- reads


def reading(obj: Object, name: str) -> Object:
    obj["metadata"]["annotations"][well_known.DEPS] = key_hash(key(name)) + READ_SUFFIX
    return obj


def test_a_member_that_is_deleted_too_goes_before_what_it_reads() -> None:
    """I4: reads by `externalRef` order deletions across sets, also those of sets that the plan does not cover."""
    planner = planner_of(old(), reading(live(FORMER, "older"), "old"))
    found = candidates_of(planner)
    assert (found["older"].allowed, found["old"].allowed) == (True, False)
    assert (found["old"].users, found["old"].going_readers) == ((key("older"),), (key("older"),))
    assert found["older"].going_readers == ()
    assert [member.key for member in planner.indexes.dependents[key_hash(key("old"))]] == [key("older")]


def test_a_member_that_stays_does_not_hold_what_it_reads_and_is_named() -> None:
    keeper = reading(live(FORMER, "older"), "old")
    keeper["metadata"]["annotations"][well_known.PRUNE] = "disabled"
    found = candidates_of(planner_of(old(), keeper))["old"]
    assert (found.allowed, found.going_readers, found.staying_readers) == (True, (), (key("older"),))


@pytest.mark.parametrize(
    ("constraints", "metadata", "is_leaving"),
    [
        (PlanConstraints(), {}, False),
        (PlanConstraints(), {"deletionTimestamp": DELETED_AT}, True),
        (PlanConstraints(relinquished_keys=frozenset({key("older")})), {}, True),
        (PlanConstraints(relinquished_sets=frozenset({"applyset-foreign"})), {}, True),
    ],
    ids=["kept", "being deleted", "the object is relinquished", "the set is relinquished"],
)
def test_a_reader_of_a_foreign_set_counts_while_that_set_deletes_it(
    constraints: PlanConstraints, metadata: dict[str, str], is_leaving: bool
) -> None:
    reader = reading(live(FORMER, "older", **metadata), "old")
    reader["metadata"]["labels"][well_known.PART_OF] = "applyset-foreign"
    found = candidates_of(planner_of(old(), reader, constraints=constraints))["old"]
    assert (found.going_readers == (key("older"),)) is is_leaving
    assert (found.staying_readers == (key("older"),)) is not is_leaving
