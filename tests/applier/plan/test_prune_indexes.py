"""Facts about all sets that deletions depend on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.inventory import Scope
from applier.plan.constraints import PlanConstraints
from applier.plan.prune_indexes import ObservedPruneIndexes, is_listed, keeping_source, may_want
from renderer.identity import GroupKind
from renderer.render.model import RenderedApplySet, RenderedNode
from tests.support.apply_sets import CONFIG_MAP, SOURCE, live, observed
from tests.support.set_planners import LINK, link_set

WIDGET = GroupKind("free.test", "Widget")


def nested(**fields: Any) -> RenderedNode:
    return RenderedNode("inner", 0, (), LINK.group_kind, {}, None, **fields)


@pytest.mark.parametrize(
    ("rendered", "expected"),
    [
        (link_set(), False),
        (link_set(error="no such field"), True),
        (link_set(held_reason="no such field"), True),
        (link_set(nested()), True),
        (link_set(replace(nested(), key=LINK)), False),
        (link_set(replace(nested(waiting=("a.status",)), key=LINK)), True),
        (link_set(replace(nested(error="no such field"), key=LINK)), True),
        (link_set(replace(nested(), group_kind=WIDGET)), False),
    ],
    ids=["complete", "in error", "held", "no name", "named", "waits", "node in error", "another kind"],
)
def test_a_set_may_want_an_instance_while_part_of_the_set_is_not_rendered(
    rendered: RenderedApplySet, expected: bool
) -> None:
    assert may_want(rendered, LINK) is expected


def test_only_sets_of_the_source_may_want_an_instance_of_the_source() -> None:
    sets = {one.id: one for one in (link_set(error="no such field"), SOURCE)}
    indexes = ObservedPruneIndexes(observed(), {}, sets, PlanConstraints(), (), {})
    assert indexes.sets_that_may_want(LINK, "platform") == [LINK]
    assert indexes.sets_that_may_want(LINK, "other") == []


def test_a_scope_is_listed_when_all_its_kinds_are() -> None:
    seen = observed(live(SOURCE, "a"))
    served, not_served = Scope(frozenset({CONFIG_MAP})), Scope(frozenset({WIDGET}))
    assert is_listed(seen, served)
    assert not is_listed(replace(seen, listed=frozenset()), served)
    assert is_listed(replace(seen, listed=frozenset()), not_served)


def test_a_source_that_deletes_nothing_keeps_the_members_of_its_sets() -> None:
    constraints = PlanConstraints(non_pruning_sources=frozenset({"platform"}))
    assert keeping_source(SOURCE, constraints) == "platform"
    assert keeping_source(SOURCE, PlanConstraints()) == ""
