"""Plans of single sets: the parent first, members next, then pruning, then the scope."""

from __future__ import annotations

from dataclasses import replace

from applier.applyset.inventory import Scope, scope_of
from applier.causes import Reason
from applier.plan.planner import plan
from renderer import well_known
from renderer.identity import GroupKind
from tests.support.apply_sets import CONFIG_MAP, PAIR, PARENT, SOURCE, bundle, decided, key, live, observed, parent
from tests.support.properties.repositories import plain


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
