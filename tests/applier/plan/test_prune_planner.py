"""Prune candidates and what the plan knows against their deletion: reads, holds, pending nodes."""

from __future__ import annotations

from applier.causes import Reason
from applier.cluster import Discovery
from applier.errors import Unavailable
from applier.plan.constraints import PlanConstraints
from applier.plan.model import NodeAction
from applier.plan.prune import PruneOutcome
from renderer.identity import GroupKind
from tests.support.apply_sets import CONFIG_MAP, SOURCE, actions, bundle, decided, live
from tests.support.properties.repositories import plain


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
