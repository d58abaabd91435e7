"""Plans of single sets: the parent first, members next, then pruning, then the scope."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from applier.applyset import kro
from applier.applyset.adoption import Adoption, AdoptPolicy
from applier.applyset.inventory import Scope, scope_of
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Discovery, Object, Resource
from applier.errors import Denied, Unavailable
from applier.plan.constraints import PlanConstraints, RefusedWrite, refusal_relevant_state
from applier.plan.model import ApplySetPlan, ChangePermissions, NodeAction, Operation
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.plan.set_planner import NO_FATE, ApplySetPlanner, MemberFate
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id, key_hash
from renderer.kinds import NAMESPACE, SECRET
from renderer.manifest_hash import render_hash
from renderer.render.model import RenderedApplySet, RenderedNode
from tests.support.apply_sets import CONFIG_MAP, PAIR, PARENT, SOURCE, bundle, decided, key, live, observed, parent
from tests.support.properties.repositories import plain
from tests.support.reference_plan import plan, set_planner
from tests.support.set_planners import DELETED_AT, LINK, link_object, link_set, rendering_of


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


def test_a_parent_of_another_tool_stops_its_set() -> None:
    """KEP-3659: any fault, no write."""
    theirs = parent(SOURCE)
    theirs["metadata"]["annotations"][well_known.TOOLING] = "kubectl/v1"
    found = plan(PAIR, observed(theirs, absent="ab")).sets[0]
    assert found.error is not None
    assert found.error.reason is Reason.CONFLICT
    assert found.is_idle


# ---- the planner alone

MAPS = scope_of([key("a")], LINK)
SECRETS = Scope(frozenset({SECRET}))
WANTED = link_set(*SOURCE.nodes)
UNWANTED = replace(WANTED, nodes=(), applied_rendering=WANTED)
FORMER = link_set(*bundle(plain("a"), plain("b", "a"), plain("old")).sources["platform"].nodes)
"""The instance as it was applied before: of `WANTED`, with `old`, which the instance no longer contains."""
BEFORE = link_set(*bundle(plain("a", text="old"), plain("b", "a", text="old")).sources["platform"].nodes)
OWNER = replace(SOURCE, nodes=(RenderedNode("link", 0, (), LINK.group_kind, {}, LINK),))
"""The source that wants the instance."""
GATE = Cause(Reason.GATE_CLOSED, "wait")
GOING: dict[str, Any] = {"deletionTimestamp": DELETED_AT, "finalizers": [well_known.FINALIZER]}

CREATION: Object = {
    "manager": CONTENT_MANAGER,
    "operation": "Apply",
    "time": "2025-12-31T00:00:00Z",
    "fieldsV1": {
        "f:metadata": {
            "f:labels": {f"f:{well_known.PARENT_ID}": {}},
            "f:annotations": {f"f:{name}": {} for name in (well_known.GROUP_KINDS, well_known.NAMESPACES)},
        }
    },
}
"""The entry of `managedFields` for the first write of an instance, which also writes its inventory."""


def planner_of(
    rendered: RenderedApplySet,
    *objects: Object,
    absent: str = "",
    constraints: PlanConstraints | None = None,
    permissions: ChangePermissions | None = None,
    others: tuple[RenderedApplySet, ...] = (),
    is_wanted: bool = True,
    to_final_state: bool = False,
    **seen: Any,
) -> ApplySetPlanner:
    return set_planner(
        rendering_of(*((rendered, *others) if is_wanted else others)),
        replace(observed(*objects, absent=absent), **seen),
        constraints,
        permissions,
        unwanted=() if is_wanted else (rendered,),
        to_final_state=to_final_state,
    )


def planned(rendered: RenderedApplySet, *objects: Object, **given: Any) -> ApplySetPlan:
    """Return the plan of the wanted set `rendered`."""
    return planner_of(rendered, *objects, **given).plan_set(rendered, NO_FATE)


def unwanted(*objects: Object, is_deleted: bool = True, protection: Cause | None = None, **given: Any) -> ApplySetPlan:
    """Return the plan of the instance `LINK`, which Git no longer contains."""
    candidate = PruneCandidate(Member.from_object(link_object()), PruneOutcome.DELETE) if is_deleted else None
    rendered = given.pop("rendered", UNWANTED)
    return planner_of(rendered, *objects, is_wanted=False, **given).plan_set(
        rendered, MemberFate(candidate, protection, "")
    )


def link(scope: Scope = MAPS, **given: Any) -> Object:
    return link_object(scope, **given)


def fates(found: ApplySetPlan) -> dict[str, tuple[PruneOutcome, bool, str]]:
    return {
        one.member.key.name: (one.outcome, one.allowed, one.blocked.message if one.blocked else "")
        for one in found.prune_candidates
    }


def of_tool(tool: str) -> Object:
    obj = link()
    obj["metadata"]["annotations"][well_known.TOOLING] = f"{tool}/v1"
    return obj


# ---- wanted instances


def test_a_new_instance_records_its_scope_with_its_first_write() -> None:
    """I1: one request creates the instance and its inventory; no member is written before."""
    found = planned(WANTED, absent="ab")
    assert (found.first_scope, found.superset_scope, found.writes) == (MAPS, None, ())


def test_a_source_records_its_scope_by_a_write_of_its_parent() -> None:
    found = planned(SOURCE, absent="ab")
    assert (found.first_scope, found.superset_scope) == (None, scope_of([key("a")], PARENT))


def test_the_members_of_an_intact_instance_are_written() -> None:
    found = planned(WANTED, link(), absent="ab")
    assert [plan.node.key for plan in found.writes] == [key("a")]
    assert (found.superset_scope, found.first_scope, found.error) == (None, None, None)


@pytest.mark.parametrize(
    "obj",
    [
        link(Scope()),
        link(finalizers=[]),
        link(target=2),
        link(labels={}),
        link(managedFields=[]),
        link(annotations={}, labels={}),
    ],
    ids=["narrow scope", "no finalizer", "another revision", "no id", "keys of another owner", "no bookkeeping"],
)
def test_no_member_is_written_before_its_instance_has_all_that_members_rely_on(obj: Object) -> None:
    """I1, S0-19."""
    found = planned(WANTED, obj, absent="ab", permissions=ChangePermissions(targets={LINK: 3}))
    assert (found.writes, found.superset_scope) == ((), MAPS)
    assert found.target_revision == 3


@pytest.mark.parametrize(
    ("targets", "recorded", "target"), [({LINK: 5}, 3, 5), ({}, 3, 3), ({}, 0, 0)], ids=["granted", "recorded", "none"]
)
def test_an_instance_aims_at_the_granted_revision_or_else_at_the_recorded_one(
    targets: dict[ObjectKey, int], recorded: int, target: int
) -> None:
    found = planned(WANTED, link(target=recorded), absent="ab", permissions=ChangePermissions(targets=targets))
    assert found.target_revision == target


@pytest.mark.parametrize(
    ("obj", "scope"),
    [(link(), MAPS), (link(labels={}), SECRETS), (link(managedFields=[]), MAPS | SECRETS), (None, SECRETS)],
    ids=["intact", "no id", "keys of another owner", "no instance"],
)
def test_the_recorded_scope_counts_where_the_instance_does_not_prove_its_own(obj: Object | None, scope: Scope) -> None:
    """A person who deletes an instance, or its keys, hides no member from the next deletion."""
    objects = (obj,) if obj else ()
    found = planned(WANTED, *objects, absent="ab", constraints=PlanConstraints(scopes={LINK: SECRETS}))
    assert found.current_scope == scope


@pytest.mark.parametrize(
    ("rendered", "constraints"),
    [
        (
            replace(
                WANTED,
                applied_rendering=link_set(
                    RenderedNode("s", 0, (), SECRET, {}, ObjectKey("", "Secret", "default", "s"))
                ),
            ),
            {},
        ),
        (WANTED, {"unlabelled_scopes": {LINK: SECRETS}}),
    ],
    ids=["the applied snapshot", "members that lost their label"],
)
def test_the_scope_covers_more_than_the_wanted_members(rendered: RenderedApplySet, constraints: dict[str, Any]) -> None:
    found = planned(rendered, link(), absent="ab", constraints=PlanConstraints(**constraints))
    assert found.superset_scope == MAPS | SECRETS


def test_a_kind_that_the_server_never_stores_is_not_in_the_scope() -> None:
    """No list of such a kind exists, so its entry could never be removed again."""
    review = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=frozenset({"create"}))
    assert planned(WANTED, link(Scope()), discovery=Discovery({CONFIG_MAP: review})).superset_scope is None


SETTLED = (live(WANTED, "a"), live(WANTED, "b"))


@pytest.mark.parametrize(
    ("rendered", "constraints", "listed", "exact"),
    [
        (WANTED, {}, {CONFIG_MAP, SECRET}, MAPS),
        (WANTED, {}, {CONFIG_MAP}, None),
        (WANTED, {"unlabelled_scopes": {LINK: SECRETS}}, {CONFIG_MAP, SECRET}, None),
        (
            link_set(*SOURCE.nodes, RenderedNode("s", 0, (), SECRET, {}, None, waiting=("a.status",))),
            {},
            {CONFIG_MAP, SECRET},
            None,
        ),
    ],
    ids=["narrower", "a kind is not listed", "an unlabelled member", "a node without a name"],
)
def test_the_scope_of_a_settled_instance_shrinks_to_what_may_still_have_members(
    rendered: RenderedApplySet, constraints: dict[str, Any], listed: set[GroupKind], exact: Scope | None
) -> None:
    """I1: a scope that is exact already is not written again."""
    wide = link(MAPS | SECRETS)
    found = planned(rendered, wide, *SETTLED, constraints=PlanConstraints(**constraints), listed=frozenset(listed))
    assert found.exact_scope == exact
    assert planned(WANTED, link(), *SETTLED).exact_scope is None


def test_members_are_pruned_after_everything_is_applied() -> None:
    """S0-10."""
    extra = live(FORMER, "old")
    writing = planned(WANTED, link(), live(BEFORE, "a"), live(WANTED, "b"), extra)
    assert fates(writing) == {"old": (PruneOutcome.DELETE, False, "pruned after everything is applied")}
    assert fates(planned(WANTED, link(), *SETTLED, extra)) == {"old": (PruneOutcome.DELETE, True, "")}


def test_an_object_whose_change_lacks_permission_is_healed_to_the_applied_content() -> None:
    """Rule 6: the gate holds the new content of `a`, and not the repair of the old one."""
    rendered = replace(WANTED, applied_rendering=BEFORE)
    found = planned(
        rendered,
        link(),
        live(BEFORE, "a", drifted="text"),
        live(BEFORE, "b"),
        permissions=ChangePermissions(lambda change: None if change.operation is Operation.HEAL else GATE),
    )
    assert found.nodes[0].blocked == GATE
    assert [(plan.node.key, plan.action) for plan in found.repairs] == [(key("a"), NodeAction.HEAL)]
    permitted = planned(rendered, link(), live(BEFORE, "a", drifted="text"), live(BEFORE, "b"))
    assert permitted.repairs == ()


def test_objects_that_only_the_applied_snapshot_renders_are_former_nodes() -> None:
    """S1-21: the gates of their deletion read them."""
    found = planned(replace(WANTED, applied_rendering=FORMER), link(), *SETTLED, live(FORMER, "old"))
    assert [(plan.node.key, plan.is_applied) for plan in found.former_nodes] == [(key("old"), True)]
    assert planned(WANTED, link(), *SETTLED, live(FORMER, "old")).former_nodes == ()


@pytest.mark.parametrize(
    ("extra", "begun_at"),
    [
        (live(FORMER, "old", deletionTimestamp=DELETED_AT), datetime(2026, 1, 1, tzinfo=UTC)),
        (live(FORMER, "old", deletionTimestamp="2025-12-30T00:00:00Z"), None),
        (live(FORMER, "old"), None),
        (live(WANTED, "b", deletionTimestamp=DELETED_AT), None),
    ],
    ids=["being deleted", "deleted before the last write of the instance", "not deleted yet", "only wanted members"],
)
def test_the_start_of_a_change_is_recorded_while_a_deletion_alone_shows_it(
    extra: Object, begun_at: datetime | None
) -> None:
    """A deleted object no longer shows the start, and a window still has to judge what follows by it."""
    manifest = {"apiVersion": "g.test/v1", "kind": LINK.kind, "metadata": {"name": LINK.name}}
    obj = link(managedFields=[CREATION])
    obj["metadata"]["annotations"][well_known.HASH] = render_hash(manifest)
    found = planned(replace(WANTED, manifest=manifest), obj, live(WANTED, "a"), extra, others=(OWNER,))
    assert found.begun_at == begun_at


def test_completed_jobs_are_recorded_before_the_next_write() -> None:
    """KEP-592: the record of Jobs that Git no longer contains goes, and until then nothing is written."""
    obj = link()
    obj["metadata"]["annotations"][well_known.COMPLETED] = "0123456789abcdef:0123456789abcdef:1"
    found = planned(WANTED, obj, absent="ab")
    assert (found.completion_record, found.superset_scope, found.writes) == ("", MAPS, ())


# ---- other owners and errors


@pytest.mark.parametrize(
    ("obj", "message", "is_unknown"),
    [
        (
            of_tool("kubectl"),
            f"{LINK}: managed by tooling 'kubectl' instead of 'levelgate'; "
            f"to hand the set over, set the annotation {well_known.TOOLING} to levelgate/v0",
            False,
        ),
        (
            of_tool(kro.TOOL),
            f"{LINK}: managed by tooling 'kro' instead of 'levelgate'; "
            "stop kro, then take its sets over with --adopt IfUnowned:kro",
            True,
        ),
        (
            link(labels={well_known.PARENT_ID: "applyset-x"}),
            f"{LINK}: the label {well_known.PARENT_ID} does not fit the object; "
            f"correct it to {applyset_id(LINK)} or remove it",
            False,
        ),
    ],
    ids=["kubectl", "kro", "a wrong id"],
)
def test_the_set_of_another_tool_is_not_touched(obj: Object, message: str, is_unknown: bool) -> None:
    """KEP-3659; kro writes the status of its own instances."""
    found = planned(WANTED, obj, live(FORMER, "old"), absent="ab")
    assert found.error == Cause(Reason.CONFLICT, message)
    assert (found.nodes, found.prune_candidates, found.is_unknown) == ((), (), is_unknown)


@pytest.mark.parametrize("is_adopted", [False, True])
def test_the_set_of_a_tool_that_may_be_adopted_is_written_after_its_instance_was(is_adopted: bool) -> None:
    obj = of_tool(kro.TOOL)
    if is_adopted:
        obj["metadata"]["managedFields"] = [CREATION]
    constraints = PlanConstraints(adoptions={"platform": Adoption(AdoptPolicy.IF_UNOWNED, frozenset({kro.TOOL}))})
    found = planned(WANTED, obj, absent="ab", constraints=constraints)
    assert (found.error, found.writes) == (None, ())
    assert found.superset_scope == (MAPS if is_adopted else None)


@pytest.mark.parametrize(("objects", "is_known"), [((), False), ((link(),), True)])
def test_an_instance_of_a_kind_that_cannot_be_read_may_exist(objects: tuple[Object, ...], is_known: bool) -> None:
    unreadable = {LINK.group_kind: Unavailable("webhook failed")}
    found = planned(WANTED, *objects, absent="ab", unreadable=unreadable)
    assert found.error == (None if is_known else Cause(Reason.PROGRESSING, "webhook failed"))
    assert bool(found.nodes) is is_known


def test_a_suspended_set_shows_what_is_due_and_does_nothing() -> None:
    suspended = Cause(Reason.SUSPENDED, "INC-7")
    objects = (link(), live(BEFORE, "a"), live(WANTED, "b"), live(FORMER, "old", deletionTimestamp=DELETED_AT))
    found = planned(WANTED, *objects, permissions=ChangePermissions(suspended={LINK: suspended}))
    assert (found.error, found.writes, found.target_revision) == (suspended, (), 3)
    assert [plan.action for plan in found.nodes] == [NodeAction.UPDATE, NodeAction.NONE]
    assert [(one.member.key.name, one.outcome) for one in found.prune_candidates] == [("old", PruneOutcome.KEEP)]


def test_a_set_that_cannot_be_rendered_keeps_all_its_members() -> None:
    broken = replace(WANTED, nodes=(), error="no such field")
    found = planned(broken, link(), *SETTLED, live(FORMER, "old", deletionTimestamp=DELETED_AT))
    assert found.error == Cause(Reason.RENDER_FAILED, "no such field")
    assert found.nodes == ()
    assert [(one.member.key.name, one.outcome) for one in found.prune_candidates] == [("old", PruneOutcome.KEEP)]


@pytest.mark.parametrize(
    ("obj", "writes"),
    [
        (link(), ["a"]),
        (link(labels={}), []),
        (link(**GOING), []),
        (None, []),
    ],
    ids=["applied", "no id", "being deleted", "absent"],
)
def test_a_held_set_is_healed_and_neither_updated_nor_pruned(obj: Object | None, writes: list[str]) -> None:
    """I8: `a` drifts, `b` differs from the applied snapshot, `old` is in no snapshot."""
    held = replace(WANTED, held_reason="no such field")
    members = (live(WANTED, "a", drifted="text"), live(BEFORE, "b"), live(FORMER, "old"))
    found = planned(held, *((obj,) if obj else ()), *members)
    cause = Cause(Reason.RENDER_FAILED, "no such field")
    assert (found.error, found.prune_candidates, found.exact_scope) == (cause, (), None)
    assert [plan.node.key.name for plan in found.writes if plan.node.key] == writes


# ---- wanted instances that another client deleted


@pytest.mark.parametrize(
    ("recorded", "metadata", "detach"),
    [
        (MAPS, GOING, True),
        (MAPS | SECRETS, GOING, True),
        (Scope(), GOING, False),
        (MAPS, {**GOING, "finalizers": ["example.com/hold"]}, False),
    ],
    ids=["recorded", "more is recorded", "not recorded", "without our finalizer"],
)
def test_a_deleted_instance_that_is_wanted_is_let_go_after_its_scope_is_recorded(
    recorded: Scope, metadata: dict[str, Any], detach: bool
) -> None:
    """The members stay: nothing is written or pruned, and the next instance takes them over."""
    constraints = PlanConstraints(scopes={LINK: recorded})
    objects = (link(**metadata), live(BEFORE, "a"), live(FORMER, "old"))
    found = planned(WANTED, *objects, absent="b", constraints=constraints)
    assert (found.detach, found.writes, found.prune_candidates) == (detach, (), ())
    assert not found.finish_deletion
    final = planned(WANTED, *objects, absent="b", constraints=constraints, to_final_state=True)
    assert list(fates(final)) == ["old"], "the final state shows the deletions of the next instance"


@pytest.mark.parametrize("fields", [{"error": "no such field"}, {"held_reason": "no such field"}])
@pytest.mark.parametrize("is_namespace_deleted", [True, False])
def test_a_broken_instance_is_let_go_only_with_its_namespace(
    fields: dict[str, Any], is_namespace_deleted: bool
) -> None:
    """A Namespace that waits for the instance would otherwise never end."""
    space = {
        "apiVersion": "v1",
        "kind": NAMESPACE.kind,
        "metadata": {"name": "default", "deletionTimestamp": DELETED_AT},
    }
    objects = (link(**GOING), *((space,) if is_namespace_deleted else ()))
    constraints = PlanConstraints(scopes={LINK: MAPS})
    found = planned(replace(WANTED, **fields), *objects, absent="ab", constraints=constraints)
    assert found.detach is is_namespace_deleted
    assert (found.error is None) is is_namespace_deleted


def test_the_finalizer_of_another_controller_is_named() -> None:
    obj = link(**{**GOING, "finalizers": ["example.com/hold"]})
    found = planned(WANTED, obj, absent="ab")
    assert found.deletion is not None
    assert found.deletion.reason is Reason.DELETION_BLOCKED
    assert "example.com/hold" in found.deletion.message


# ---- unwanted instances


def test_the_members_of_an_unwanted_instance_wait_for_the_deletion_of_the_instance() -> None:
    found = unwanted(link(), live(WANTED, "a"))
    assert fates(found) == {"a": (PruneOutcome.DELETE, False, "deleted with its instance")}
    assert not found.finish_deletion


def test_a_deleted_instance_is_pruned_in_order_and_released_at_the_end() -> None:
    """S0-15, S0-17."""
    both = unwanted(link(**GOING), *SETTLED)
    assert [(name, allowed) for name, (_, allowed, _) in fates(both).items()] == [("b", True), ("a", False)]
    assert not both.finish_deletion
    assert unwanted(link(**GOING), absent="ab").finish_deletion


@pytest.mark.parametrize(
    ("obj", "listed"),
    [(link(**GOING), frozenset()), (link(**{**GOING, "finalizers": ["example.com/hold"]}), frozenset({CONFIG_MAP}))],
    ids=["a kind is not listed", "without our finalizer"],
)
def test_the_finalizer_stays_while_a_member_may_be_left(obj: Object, listed: frozenset[GroupKind]) -> None:
    assert not unwanted(obj, listed=listed).finish_deletion


@pytest.mark.parametrize(("policy", "outcome"), [("orphan", PruneOutcome.RELEASE), ("delete", PruneOutcome.DELETE)])
def test_the_deletion_policy_of_the_instance_decides_about_its_members(policy: str, outcome: PruneOutcome) -> None:
    obj = link(**GOING)
    obj["metadata"]["annotations"][well_known.DELETION_POLICY] = policy
    assert fates(unwanted(obj, live(WANTED, "a")))["a"][0] is outcome


def test_a_deletion_waits_until_other_sets_take_over_the_members_that_they_want() -> None:
    found = unwanted(link(**GOING), *SETTLED, others=(SOURCE,))
    message = "the deletion waits until other sets take over ConfigMap/default/a, ConfigMap/default/b"
    assert found.parent_error == Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=key("a"))
    assert (found.prune_candidates, found.finish_deletion) == ((), False)


@pytest.mark.parametrize(("metadata", "is_reported"), [({}, False), (GOING, True)])
def test_an_instance_that_its_owner_does_not_delete_stays(metadata: dict[str, Any], is_reported: bool) -> None:
    """It may still be wanted, so nothing is pruned; a suspension counts where a deletion is due."""
    suspended = Cause(Reason.SUSPENDED, "INC-7")
    permissions = ChangePermissions(suspended={LINK: suspended})
    found = unwanted(link(**metadata), *SETTLED, is_deleted=False, permissions=permissions)
    assert (found.is_unknown, found.prune_candidates, found.nodes) == (True, (), ())
    assert found.error == (suspended if is_reported else None)


@pytest.mark.parametrize(("metadata", "repairs"), [({}, [key("a")]), (GOING, [])], ids=["live", "being deleted"])
def test_a_protected_instance_is_healed_until_it_may_go(metadata: dict[str, Any], repairs: list[ObjectKey]) -> None:
    found = unwanted(link(**metadata), live(WANTED, "a", drifted="text"), live(WANTED, "b"), protection=GATE)
    assert (found.not_moved, found.is_unknown, found.prune_candidates) == (GATE, True, ())
    assert [plan.node.key for plan in found.repairs] == repairs


def test_in_the_final_state_no_protection_is_left() -> None:
    found = unwanted(link(), live(WANTED, "a"), protection=GATE, to_final_state=True)
    assert (found.not_moved, list(fates(found))) == (None, ["a"])


def test_the_members_of_a_lost_instance_are_pruned_once_the_instance_is_certainly_gone() -> None:
    members = (live(WANTED, "a"),)
    unsure = unwanted(*members, discovery=Discovery({}, frozenset({LINK.group})))
    assert unsure.not_moved is not None
    assert unsure.not_moved.message == (
        f"{LINK} is gone; its members stay until Levelgate knows whether the instance exists"
    )
    assert (unsure.is_lost, unsure.is_unknown, unsure.prune_candidates) == (True, True, ())
    sure = unwanted(*members)
    assert (sure.is_lost, sure.is_unknown) == (True, False)
    assert fates(sure) == {"a": (PruneOutcome.DELETE, True, "")}


def test_a_lost_instance_that_another_set_wants_keeps_its_members() -> None:
    """That set creates the instance again, and the instance takes its members over."""
    found = unwanted(live(WANTED, "a"), others=(OWNER,))
    assert (found.is_lost, found.is_unknown, found.not_moved, found.prune_candidates) == (True, True, None, ())


@pytest.mark.parametrize(("policy", "outcome"), [("orphan", PruneOutcome.RELEASE), ("delete", PruneOutcome.DELETE)])
def test_the_applied_snapshot_has_the_deletion_policy_of_a_lost_instance(policy: str, outcome: PruneOutcome) -> None:
    manifest = {"metadata": {"annotations": {well_known.DELETION_POLICY: policy}}}
    lost = replace(UNWANTED, applied_rendering=replace(WANTED, manifest=manifest))
    assert fates(unwanted(live(WANTED, "a"), rendered=lost))["a"][0] is outcome


# ---- terms of leadership, and failed writes of the parent


def test_a_new_term_writes_the_parent_before_the_first_member() -> None:
    """I6: a process that lost its leadership fails at this write."""
    found = planned(WANTED, link(epoch=1), absent="ab", constraints=PlanConstraints(epoch=2))
    assert (found.writes, found.superset_scope) == ((), MAPS)
    assert found.nodes[0].action is NodeAction.CREATE
    pruning = planned(WANTED, link(epoch=1), *SETTLED, live(FORMER, "old"), constraints=PlanConstraints(epoch=2))
    assert fates(pruning) == {"old": (PruneOutcome.DELETE, False, "the parent is written first")}


@pytest.mark.parametrize(
    ("objects", "absent"),
    [((link(epoch=2),), "ab"), ((link(epoch=3),), "ab"), ((link(epoch=1), *SETTLED), "")],
    ids=["this term", "a later term", "nothing to write"],
)
def test_the_parent_is_not_written_for_a_term_that_it_has_or_that_writes_nothing(
    objects: tuple[Object, ...], absent: str
) -> None:
    found = planned(WANTED, *objects, absent=absent, constraints=PlanConstraints(epoch=2))
    assert found.superset_scope is None
    assert bool(found.writes) is bool(absent)


def test_a_term_keeps_the_record_of_completed_jobs() -> None:
    """The set that is deleted plans no record of its own."""
    record = f"{key_hash(key('a'))}:0123456789abcdef:1"
    obj = link(epoch=1, **GOING)
    obj["metadata"]["annotations"][well_known.COMPLETED] = record
    found = unwanted(obj, live(WANTED, "a"), constraints=PlanConstraints(epoch=2))
    assert (found.superset_scope, found.completion_record) == (MAPS, record)
    assert fates(found) == {"a": (PruneOutcome.DELETE, False, "the parent is written first")}


def test_a_failed_write_of_the_parent_is_not_repeated() -> None:
    found = planned(WANTED, link(Scope()), absent="ab", failures={LINK: Denied("no patch")})
    assert found.parent_error == Cause(Reason.APPLY_FAILED, "not allowed: no patch")
    assert found.superset_scope is None
    going = unwanted(link(**GOING), failures={LINK: Denied("no patch")})
    assert (going.finish_deletion, going.parent_error) == (False, found.parent_error)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_refused_write_of_the_parent_is_repeated_only_with_another_intent(is_same: bool) -> None:
    obj = link(Scope())
    intent = planned(WANTED, obj, absent="ab").parent_intent if is_same else ("another",)
    write = RefusedWrite(Denied("no patch"), intent, refusal_relevant_state(obj))
    found = planned(WANTED, obj, absent="ab", constraints=PlanConstraints(refused_writes={(LINK, LINK): write}))
    assert found.superset_scope == (None if is_same else MAPS)
    assert (found.parent_error is None) is not is_same
