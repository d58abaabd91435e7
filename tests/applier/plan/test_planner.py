"""Plans of whole sets: parents, scopes, pruning, permissions; tables over rendered sets and hand-made observations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from applier.applyset.inventory import Scope, parent_body, scope_of
from applier.causes import Cause, Reason
from applier.cluster import Discovery
from applier.errors import Unavailable
from applier.plan.model import ChangePermissions, NodeAction, PermissionAnswer, PlanConstraints
from applier.plan.planner import plan
from applier.plan.prune import PruneOutcome
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id
from tests.applier.plan.sets import (
    CONFIG_MAP,
    PAIR,
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
from tests.properties.repositories import plain


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
